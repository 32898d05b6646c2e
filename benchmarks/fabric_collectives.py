"""Measured collectives of several hosts: simulated on dims, on a fabric that is these dims, and as packets on rails.

    python benchmarks/fabric_collectives.py SHARED.csv

Rows: all_reduces of validation_collectives.csv over several hosts of eight NPUs. Rates and latencies are those of the
catalog (`benchmarks/measured_collectives.py` tells how they were fitted), the same in all three. Rails: hosts with a
card per NPU, leaf and spine switches.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

import astrarium as ar  # noqa: E402
from astrarium import catalog  # noqa: E402
from astrarium.network.dims import plan_dims  # noqa: E402

HARDWARE = {"H100 8/node": ("dgx_h100_nvswitch", "gcp_a3_mega"),
            "B200 EFA 50GB/s/GPU": ("dgx_b200_nvswitch", "efa_b200")}
LARGEST_PACKETS = 256 << 20      # payloads that are simulated packet by packet


def measured(shared: Path) -> list[tuple[str, int, float, float]]:
    """(hardware, hosts, bytes, ns) of every all_reduce of several hosts of eight."""
    found = []
    with shared.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["op"] == "all_reduce" and row["hw"] in HARDWARE and int(row["nodes"] or 1) > 1:
                hosts, ranks, size = int(row["nodes"]), int(row["n_gpus"]), float(row["size_B"])
                ns = float(row["time_us"]) * 1e3 if row["time_us"] else (
                    size * 2 * (ranks - 1) / ranks / float(row["busbw_GBs"]))
                found.append((row["hw"], hosts, size, ns))
    return found


def networks(hardware: str, hosts: int) -> dict[str, ar.Network]:
    """The three."""
    rows: Mapping[str, Mapping[str, Any]] = catalog.load("collectives")
    host, nic = (rows[name] for name in HARDWARE[hardware])
    dims = [ar.Switch(count, bandwidth_per_npu=row["link"], latency=row["latency"], efficiency=row["efficiency"])
            for count, row in ((8, host), (hosts, nic))]
    inner, outer = ({"bandwidth": f"{dim.bandwidth!r} GB/s", "latency": f"{dim.latency!r} ns"}
                    for dim in plan_dims(ar.Network(dims)))      # of what a link carries, its efficiency
    same = ar.blueprint("dgx_h100_rail_only", hosts=hosts, links={"nvlink": inner, "pcie": "free", "rail": outer})
    rails = ar.blueprint("dgx_h100_rail", hosts=hosts, ports=8, links={
        "nvlink": inner, "pcie": "free", "rail": outer, "spine": outer})
    return {"dims": ar.Network(dims), "fabric that is dims": ar.Network(fabric=same),
            "packets on rails": ar.Network(dims, "packets", fabric=rails)}


def predicted(network: ar.Network, size: float) -> float:
    """ns."""
    return float(ar.simulate(ar.Design(workload=ar.SingleCollective("all_reduce", payload=f"{size:.0f} B"),
                                       network=network)).makespan)


def errors(rows: Sequence[tuple[str, int, float, float]]) -> dict[str, list[tuple[float, float]]]:
    """Per network (predicted, measured) ns of the rows, which are large for some."""
    found: dict[str, list[tuple[float, float]]] = {}
    for hardware, hosts, size, ns in rows:
        for name, network in networks(hardware, hosts).items():
            if not name.startswith("packets") or size <= LARGEST_PACKETS:
                found.setdefault(name, []).append((predicted(network, size), ns))
            if size <= LARGEST_PACKETS and name == "dims":
                found.setdefault("dims, payloads of the packets", []).append(found[name][-1])
    return found


def main(arguments: Sequence[str]) -> None:
    """Print errors."""
    if not arguments:
        print("fabric_collectives.py: no table given (validation_collectives.csv); nothing to do")
        return
    for name, times in errors(measured(Path(arguments[0]))).items():
        guess, truth = np.array(times).T
        off = np.abs(guess / truth - 1) * 100
        print(f"{name:30} {len(times):3d} rows  median {np.median(off):5.1f} %  p90 {np.percentile(off, 90):5.1f} %")


if __name__ == "__main__":
    main(sys.argv[1:])
