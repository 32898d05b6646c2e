"""Writes htsim.csv: when flows end in csg-htsim; and prints ours beside them, or the CPU time of both.

usage: python -m tests.network.facts.measure_htsim --htsim DIR [--write FILE] [--speed]

DIR is `sim/datacenter` of a checkout of github.com/Broadcom/csg-htsim in which `make htsim_roce` has been run; this
takes the program as it is. Its RoCE sends at line rate, without rate control: PFC alone slows it down. So it stands
beside our `credits`, and beside our `roce` with marks switched off and the same PFC thresholds.

Cases: incasts of 8 NPUs in a leaf, of 8 and 32 NPUs elsewhere, a permutation and an all_to_all on a fat tree of 128
NPUs (leaves of 16, 16 spines), a permutation on 1,024 NPUs (leaves of 32, 32 spines), and flows from half of these to
the other half. 400 Gb/s and 500 ns
a link, ECMP, packets of 4,096 B and a header of 64 B, a buffer or PFC threshold of 64 packets. Times are pooled over
seeds: which flows meet on a link is chance. A flow of htsim ends with its ACK, which queues with the data; the time
that it takes alone is subtracted. One way, no data is in the way of ACKs. --write: the csv of tests/network/facts.
"""

from __future__ import annotations

import argparse
import csv
import random
import resource
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from msgspec import Struct
from msgspec.structs import replace
from tests.network.facts.flows import BANDWIDTH, LATENCY, LEAF, Flow, dim, ends, fat_tree, quantiles

from astrarium.engine.plan import NetworkPlan, PacketRules, RoceRules, Shape

MIB = 1 << 20
PACKET, HEADER, BUFFER = 4096, 64, 64       # bytes, bytes, packets
ROOM = BUFFER * (PACKET + HEADER)
PLENTY = 10**12
# A threshold of ROOM at each link's end: of a buffer so large, a share so small.
PFC = RoceRules(buffer=PLENTY, alpha=ROOM / PLENTY, kmin=PLENTY, kmax=PLENTY)
OURS = {"credits": PacketRules(PACKET, HEADER, ROOM), "roce": PacketRules(PACKET, HEADER, transport=PFC)}


class Case(Struct, frozen=True):
    """Flows from (source, destination), of so many bytes each, from time 0 on."""

    name: str
    npus: int
    size: int
    pairs: Sequence[Flow]
    seeds: Sequence[int]


def permutation(npus: int) -> list[Flow]:
    """Every NPU sends to another one, in one circle."""
    order = list(range(npus))
    random.Random(17).shuffle(order)
    return sorted(zip(order, order[1:] + order[:1], strict=True))


def cases() -> list[Case]:
    far = [(16 + 112 * k // 32, 0) for k in range(32)]      # none in the leaf of NPU 0
    every = [(a, (a + step) % 128) for a in range(128) for step in range(1, 128)]
    other_half = list(range(512, 1024))
    random.Random(17).shuffle(other_half)
    return [Case("incast_leaf", 128, MIB, [(k, 0) for k in range(1, 9)], (1,)),
            Case("incast", 128, MIB, far[::4], range(1, 21)), Case("incast", 128, MIB, far, range(1, 21)),
            Case("permutation", 128, MIB, permutation(128), range(1, 21)),
            Case("permutation", 1024, MIB, permutation(1024), range(1, 5)),
            Case("one_way", 1024, MIB, list(enumerate(other_half)), range(1, 5)),
            Case("all_to_all", 128, MIB // 64, every, (1,))]


def topology(npus: int) -> str:
    """The same fat tree, as htsim reads it."""
    leaf = LEAF[npus]
    speed = f"Downlink_speed_Gbps {BANDWIDTH * 8:.0f}\nDownlink_Latency_ns {LATENCY:.0f}\nSwitch_Latency_ns 0\n"
    return (f"Nodes {npus}\nTiers 2\nPodsize {npus}\n\nTier 0\n{speed}Radix_Down {leaf}\nRadix_Up {leaf}\n"
            f"Oversubscribed 1\n\nTier 1\n{speed}Radix_Down {npus // leaf}\n")


def matrix(case: Case) -> str:
    rows = [f"{a}->{b} id {n} start 0 size {case.size}\n" for n, (a, b) in enumerate(case.pairs, 1)]
    return f"Nodes {case.npus}\nConnections {len(rows)}\n" + "".join(rows)


def ack(case: Case, pair: Flow) -> int:
    """The way of an ACK back, ps, where nothing is in its way."""
    hops = 2 if pair[0] // LEAF[case.npus] == pair[1] // LEAF[case.npus] else 4
    return round(hops * (LATENCY + HEADER / BANDWIDTH) * 1000)


def htsim(folder: Path, case: Case, seed: int) -> list[int]:
    """When its flows end, ps."""
    with tempfile.TemporaryDirectory() as where:
        Path(where, "tree.topo").write_text(topology(case.npus))
        Path(where, "flows.cm").write_text(matrix(case))
        said = subprocess.run(
            [folder / "htsim_roce", "-topo", "tree.topo", "-tm", "flows.cm", "-strat", "ecmp_host", "-paths", "256",
             "-nodes", str(case.npus), "-mtu", str(PACKET), "-linkspeed", str(int(BANDWIDTH * 8000)), "-q", "100000",
             "-queue_type", "lossless_input", "-pfc_thresholds", str(BUFFER - 2), str(BUFFER), "-end", "100000",
             "-seed", str(seed), "-o", "log.dat"], cwd=where, capture_output=True, check=True, text=True).stdout
    ends = []
    for line in said.splitlines():
        if line.startswith("Flow "):
            words = line.split()
            source, destination = words[1].split("_")[1:]
            ends.append(round(float(words[words.index("at") + 1]) * 1e6) - ack(case, (int(source), int(destination))))
    if len(ends) != len(case.pairs):
        raise SystemExit(f"{case.name}: {len(ends)} of {len(case.pairs)} flows of htsim have ended")
    return ends


def ours(case: Case, transport: str, seed: int) -> list[int]:
    """When its flows end here, ps."""
    network = NetworkPlan("packets", (dim(Shape.SWITCH, case.npus),), packets=OURS[transport], ecmp=seed,
                          graph=fat_tree(case.npus))
    return ends(network, case.npus, case.pairs, case.size)


def measured(folder: Path, case: Case, who: str) -> list[int]:
    """When its flows of all seeds end, ps, in order of time."""
    return sorted(end for seed in case.seeds for end in (
        htsim(folder, case, seed) if who == "htsim" else ours(case, who, seed)))


def speed(folder: Path) -> None:
    """CPU seconds of the permutation of 1,024 NPUs: six runs of each in turns, and the medians of their ratios."""
    case = next(case for case in cases() if case.npus == 1024)
    measured(folder, replace(case, seeds=(1,)), "credits")      # what is loaded once is loaded
    ratios: dict[str, list[float]] = {who: [] for who in OURS}
    for seed in range(1, 7):
        one = replace(case, seeds=(seed,))
        theirs = spent(folder, one, "htsim")
        for who, found in ratios.items():
            taken = spent(folder, one, who)
            found.append(theirs / taken)
            print(f"htsim {theirs:6.2f} CPU s, {who:8} {taken:6.3f} CPU s", flush=True)
    for who, found in ratios.items():
        print(f"{who:8} {median(found):5.1f} times less than htsim")


def spent(folder: Path, case: Case, who: str) -> float:
    """CPU seconds of one run."""
    kind = resource.RUSAGE_CHILDREN if who == "htsim" else resource.RUSAGE_SELF
    before = resource.getrusage(kind)
    measured(folder, case, who)
    after = resource.getrusage(kind)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--htsim", type=Path, required=True, help="sim/datacenter of csg-htsim, built")
    parser.add_argument("--write", type=Path, help="csv of htsim's times")
    parser.add_argument("--speed", action="store_true", help="only CPU times")
    options = parser.parse_args()
    folder = options.htsim.resolve()
    if options.speed:
        speed(folder)
    else:
        compare(folder, options.write)


def compare(folder: Path, write: Path | None) -> None:
    """Print ours beside htsim's, case by case, and write htsim's."""
    rows = []
    for case in cases():
        first: dict[str, int] = {}
        for who in ("htsim", *OURS):
            found = quantiles(measured(folder, case, who))
            first = first or found
            off = "  ".join(f"{name[:-3]} {found[name] / 1e6:7.2f} us {100 * (found[name] / first[name] - 1):+6.1f} %"
                            for name in found)
            print(f"{case.name:12} {case.npus:5} NPUs {len(case.pairs):6} flows {who:8} {off}", flush=True)
        rows.append({"case": case.name, "npus": case.npus, "bytes": case.size, "flows": len(case.pairs),
                     "seeds": len(case.seeds), **first})
    if write:
        with write.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([rows[0], *(row.values() for row in rows)])


if __name__ == "__main__":
    main()
