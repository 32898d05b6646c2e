"""A network plug-in in Python and the same in C: the exam, and one design run through both.

    python run_toy.py [path of libtoy.so]       (build it with `make -C network_c`)
"""

from __future__ import annotations

import sys

from toy import Toy

import astrarium as ar
from astrarium.plugins import EXAM_FABRIC, Plugins, exam_network, load

design = ar.Design(
    workload=ar.SingleCollective("all_reduce", "64 MB"),
    network=ar.Network([ar.Ring(8, bandwidth="50 GB/s", latency="500 ns")]))


def main(library: str | None) -> None:
    exam_network(lambda: Toy(EXAM_FABRIC), latency=500_000)
    print("toy.py passes the exam of networks")
    result = ar.simulate(design, plugins=Plugins(network=Toy))
    print(f"toy.py: {result.makespan}")
    if library is not None:
        toy = load(library)
        exam_network(lambda: toy.open(EXAM_FABRIC), latency=500_000)
        print("toy.c passes the exam of networks")
        print(f"toy.c:  {ar.simulate(design, plugins=Plugins(network=toy)).makespan}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
