"""Writes ns3.csv: when messages of incasts, permutations and an all_to_all are delivered in ns-3.

usage: python -m tests.network.facts.measure_ns3 FILE, with the program of `make ns3`

Incast: every other NPU of a switch sends to NPU 0 at 0 ps. Permutation: NPU i of two ring dims (a torus), or of a torus
of switches with an NPU at each, sends to NPU (7 i + 3) mod n at 0 ps, where that is another one. All_to_all: NPU i of a
switch sends to NPUs i + 1, i + 2... mod n at 0 ps. 50 GB/s, 500 ns a link, packets of 4 KiB, `network.ns3` else at its
defaults.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from tests.network.facts.flows import Flow, dim, quantiles, torus_of_switches

from astrarium.engine.plan import FIRST_LINK, Backend, Dim, Graph, NetworkPlan, Shape
from astrarium.engine.plugins.network import NEVER
from astrarium.network.ns3 import Ns3
from astrarium.network.ns3.medium import Ns3Network

SIZE = 1 << 18
Transport = Literal["udp", "tcp"]
TRANSPORTS: tuple[Transport, ...] = ("udp", "tcp")
TORI = ((4, 4), (8, 8), (8, 16))


class Case(Struct, frozen=True):
    """Flows of SIZE bytes over dims, or a graph."""

    name: str
    fabric: str
    npus: int
    dims: tuple[Dim, ...]
    flows: Sequence[Flow]
    graph: Graph | None = None


def cases() -> list[Case]:
    """Every one of the file."""
    found = []
    for n in (9, 16, 33, 64, 128):
        found.append(Case("incast", f"switch {n}", n, (dim(Shape.SWITCH, n),), [(s, 0) for s in range(1, n)]))
    for x, y in TORI:
        n, rings = x * y, (dim(Shape.RING, x), dim(Shape.RING, y))
        pairs = [(i, (7 * i + 3) % n) for i in range(n) if (7 * i + 3) % n != i]
        found.append(Case("permutation", f"ring {x} x ring {y}", n, rings, pairs))
        found.append(Case("permutation", f"switches {x} x {y}", n, rings, pairs, torus_of_switches(x, y)))
    every = [(i, (i + step) % 16) for step in range(1, 16) for i in range(16)]
    return [*found, Case("all_to_all", "switch 16", 16, (dim(Shape.SWITCH, 16),), every)]


def ends(case: Case, transport: Transport) -> tuple[str, list[int]]:
    """ns-3's version, and when it delivered each message, in order of time."""
    fabric = NetworkPlan(Backend.FOREIGN, case.dims, graph=case.graph, ecmp=FIRST_LINK)
    network = Ns3Network(fabric, Ns3(transport=transport))
    found: list[int] = []
    for number, (source, destination) in enumerate(case.flows):
        network.sim_send(SIZE, source, destination, lambda: found.append(network.sim_get_time()), number)
    while (following := network.next_event_time()) < NEVER:
        network.advance(following)
    return network.version, sorted(found)


def main() -> None:
    with Path(sys.argv[1]).open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        for case in cases():
            for transport in TRANSPORTS:
                version, found = ends(case, transport)
                said = {"case": case.name, "fabric": case.fabric, "npus": case.npus, "bytes": SIZE,
                        "transport": transport, "version": version, **quantiles(found)}
                if not file.tell():
                    rows.writerow(said)
                rows.writerow(said.values())


if __name__ == "__main__":
    main()
