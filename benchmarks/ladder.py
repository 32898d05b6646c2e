"""Every back end on one design: time, difference, CPU seconds.

usage: ladder.py [--library LIBTOY] [DESIGN.yaml ...]

With designs: a row per back end. Each runs in a new process with the changes of STEP. The row has the difference from
another rung, CPU seconds and peak memory, start of Python included. docs/guides/ladder.md uses examples/ladder/*.yaml.

Without: one all_reduce and one all_to_all, and the difference from `closed_form`. 16 NPUs behind a switch of 50 GB/s
and 500 ns, 16 MiB, each run from the design to the result, every message simulated.

ns-3 is run where `make ns3` built its program; CPU seconds are those of both programs. LIBTOY is the plug-in in C of
examples/plugins/network_c (`make -C examples/plugins/network_c` builds libtoy.so there).
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Mapping
from typing import Any

from _measure import child, machine

import astrarium as ar
from astrarium.network.ns3 import Ns3
from astrarium.network.ns3.program import find
from astrarium.network.packets import Packets
from astrarium.trace import TraceBuilder, traces_of_bytes
from astrarium.vocab import CommOp

NPUS, PAYLOAD = 16, 16 << 20
OURS: dict[str, Mapping[str, Any]] = {
    "closed_form": {}, "contention": {}, "fluid": {}, "packets": {},
    "packets, 256 KiB": {"packets": Packets(buffer="256 KiB")},
    "packets, 32 KiB": {"packets": Packets(buffer="32 KiB")},
    "packets, roce": {"packets": Packets(transport="roce")},
}
NS3: dict[str, Mapping[str, Any]] = {"ns3, udp": {}, "ns3, tcp": {"ns3": Ns3(transport="tcp")}}


STEP: dict[str, tuple[str, list[str]]] = {
    "closed_form": ("", ["network.backend=closed_form"]), "contention": ("closed_form", ["network.backend=contention"]),
    "fluid": ("contention", ["network.backend=fluid"]), "packets": ("fluid", ["network.backend=packets"]),
    "packets, kernels": ("packets", ["network.backend=packets", "collective.kernels=nccl"]),
    "packets, roce": ("packets", ["network.backend=packets", "network.packets.transport=roce"]),
    "ns3": ("packets", ["network.backend=ns3"]),
}
"""Rung -> (the rung that it is compared with, what `--set` changes)."""


RUN = ("import sys, astrarium as ar; from astrarium.config import assignments;"
       "print(float(ar.simulate(ar.load_design(sys.argv[1], assignments(sys.argv[2:]))).makespan))")


def climb(design: str) -> None:
    """Print a row for each rung."""
    found: dict[str, float] = {}
    for name, (base, words) in STEP.items():
        if name == "ns3" and find() is None:
            continue
        text, seconds, peak = child([sys.executable, "-c", RUN, design, *words])
        found[name] = float(text) / 1e6
        off = f"{100 * (found[name] / found[base] - 1):+.2f} % of {base}" if base else ""
        print(f"{name:16} {found[name]:8.2f} ms {off:24} {seconds:7.1f} CPU s {peak:6.0f} MB", flush=True)


def spent() -> float:
    """CPU seconds of this process and of programs that have ended."""
    kinds = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(kind.ru_utime + kind.ru_stime for kind in kinds)


def makespan(op: CommOp, name: str, fields: Mapping[str, Any]) -> tuple[float, float]:
    """Microseconds that it takes, and CPU seconds to say so."""
    ranks = [TraceBuilder() for _ in range(NPUS)]
    for rank in ranks:
        rank.coll("coll", op, PAYLOAD)
    dims = [ar.Switch(NPUS, bandwidth="50 GB/s", latency="500 ns")]
    network = ar.Network(dims, name.split(",", maxsplit=1)[0], **fields)
    design = ar.Design(workload=ar.Trace("in memory"), network=network, fold="off")
    before = spent()
    found = ar.simulate(design, traces=traces_of_bytes([rank.encode() for rank in ranks])).makespan_ps / 1e6
    return found, spent() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libtoy.so of examples/plugins/network_c")
    parser.add_argument("designs", nargs="*", metavar="DESIGN.yaml", help="designs, in place of two collectives")
    options = parser.parse_args()
    rungs = dict(OURS)
    if find() is not None:
        rungs.update(NS3)
    if options.library:
        rungs["library, toy"] = {"library": options.library}
    print(machine(), time.strftime("%H:%M"))
    for design in options.designs:
        print(design)
        climb(design)
    if options.designs:
        return
    for op in CommOp.ALL_REDUCE, CommOp.ALL_TO_ALL:
        makespan(op, "closed_form", {})     # what is loaded once is loaded
        first = None
        for name, fields in rungs.items():
            found, seconds = makespan(op, name, fields)
            first = first or found
            off = 100 * (found / first - 1)
            print(f"{op.name.lower():10} {name:16} {found:8.1f} us {off:+6.1f} % {seconds:8.3f} CPU s", flush=True)


if __name__ == "__main__":
    main()
