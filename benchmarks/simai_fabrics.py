"""Bus bandwidths that SimAI publishes of its simulations of four fabrics, beside ours with its configuration.

usage: simai_fabrics.py [--study NAME ...] [--most MIB]

Rows and their source: data/simai_fabrics.csv. The fabrics are those of SimAI's generator of topologies
(astra-sim-alibabacloud/inputs/topo/gen_Topo_Template.py), written as its files are, and the transport has the values of
its SimAI.conf. A send waits AS_SEND_LAT of the run (2 us; 12 us for nvls). All groups reduce at once.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import astrarium as ar
from astrarium.fabric.config import FabricFile
from astrarium.network.packets import Packets
from astrarium.network.roce import Roce, RoceRate

DATA = Path(__file__).with_name("data") / "simai_fabrics.csv"
IN_HOST = 8         # GPUs
SPINES = 64         # -psn
NIC, NVLINK_DELAY, DELAY = "400Gbps", "0.000025ms", "0.0005ms"      # the generator's defaults
SIMAI = Roce(buffer="32 MiB", additive="50 Mb/s", hyper="100 Mb/s", least="100 Mb/s", cnp_interval="4 us",
             alpha_timer="1 us", rate_timer="900 us", byte_counter="0 B", recovery=1, clamp=False, window=1.0,
             window_scales=True, state="message", marks="departing",
             rates=[RoceRate(rate=f"{rate} Gb/s", kmin=f"{kmin} kB", kmax=f"{kmax} kB", pmax=pmax)
                    for rate, kmin, kmax, pmax in ((25, 100, 400, 0.2), (50, 200, 800, 0.2), (100, 400, 1600, 0.2),
                                                   (200, 300, 1200, 0.8), (400, 800, 3200, 0.2),
                                                   (1600, 600, 2400, 0.2))])


class Study(NamedTuple):
    """GPUs per leaf switch (0: each GPU of a host has its own), NVLink's rate, what a send waits."""

    leaf: int
    nvlink: str
    send: str


STUDIES = {"nvls": Study(0, "1360Gbps", "12 us"), "ring": Study(0, "1440Gbps", "2 us"),
           "spectrum_x": Study(0, "2880Gbps", "2 us"), "dcn": Study(64, "2880Gbps", "2 us")}


def topology(study: Study, gpus: int) -> str:
    """The topology file: GPUs, an NVSwitch per host, leaf and spine switches, and their links."""
    hosts = gpus // IN_HOST
    leaves = IN_HOST if study.leaf == 0 else gpus // study.leaf
    first = gpus + hosts
    rows = []
    for gpu in range(gpus):
        leaf = gpu % IN_HOST if study.leaf == 0 else gpu // study.leaf
        rows += [f"{gpu} {gpus + gpu // IN_HOST} {study.nvlink} {NVLINK_DELAY} 0",
                 f"{gpu} {first + leaf} {NIC} {DELAY} 0"]
    rows += [f"{first + leaf} {first + leaves + spine} {NIC} {DELAY} 0"
             for leaf in range(leaves) for spine in range(SPINES)]
    nodes = first + leaves + SPINES
    head = f"{nodes} {IN_HOST} {hosts} {leaves + SPINES} {len(rows)} H100"
    return "\n".join([head, " ".join(map(str, range(gpus, nodes))), *rows]) + "\n"


def busbw(name: str, gpus: int, group: int, mib: int, transport: object, folder: Path) -> tuple[float, float]:
    """GB/s of the slowest group, and CPU seconds."""
    study = STUDIES[name]
    path = folder / f"{name}.topo"
    path.write_text(topology(study, gpus), encoding="utf-8")
    fabric = FabricFile(file=str(path), in_switch={f"switch.{host}": {"rate": "1360 GB/s"}
                                                         for host in range(gpus // IN_HOST)}) \
        if name == "nvls" else FabricFile(file=str(path))
    network = ar.Network(fabric=fabric, backend="packets",
                         packets=Packets(size="9000 B", transport=transport))      # type: ignore[arg-type]
    inside = group == IN_HOST
    reduce = ar.SingleCollective("all_reduce", f"{mib} MiB")
    npus = [list(range(first * group, first * group + group)) if inside else list(range(first, gpus, gpus // group))
            for first in range(gpus // group)]
    jobs = ar.Jobs([ar.Job(workload=reduce, npus=each) for each in npus])
    collective = ar.Collective(choice="none", all_reduce=["nvls" if name == "nvls" else "ring"],
                               endpoint_delay=study.send)
    begin = time.process_time()
    result = ar.simulate(ar.Design(workload=jobs, network=network, collective=collective), record=False)
    took = time.process_time() - begin
    return (mib << 20) * 2 * (group - 1) / group / (result.makespan_ps / 1000), took


def main() -> None:
    """Print a row for each published number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", action="append", choices=list(STUDIES))
    parser.add_argument("--most", type=int, default=512, metavar="MIB")
    options = parser.parse_args()
    lines = [line for line in DATA.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    print(f"{'study':10} {'MiB':>4} {'SimAI':>7} {'roce':>7} {'error':>7} {'credits':>8} {'CPU s':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for row in csv.DictReader(lines):
            mib, published = int(row["payload_mib"]), float(row["busbw_gb_s"])
            if (options.study and row["study"] not in options.study) or mib > options.most:
                continue
            where = row["study"], int(row["gpus"]), int(row["group"]), mib
            ours, took = busbw(*where, SIMAI, Path(folder))
            lossless, _ = busbw(*where, "credits", Path(folder))
            print(f"{row['study']:10} {mib:4} {published:7.2f} {ours:7.2f} {ours / published - 1:+7.1%} "
                  f"{lossless:8.2f} {took:6.1f}", flush=True)


if __name__ == "__main__":
    main()
