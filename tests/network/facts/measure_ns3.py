"""Writes ns3.csv: when messages of incasts and permutations are delivered in ns-3. Takes the program of `make ns3`.

Incast: every other NPU of a switch sends to NPU 0 at 0 ps. Permutation: NPU i of two ring dims (a torus) sends to NPU
(7 i + 3) mod n at 0 ps, where that is another one. 50 GB/s, 500 ns a link, packets of 4 KiB, `network.ns3` else at its
defaults.
"""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path
from statistics import median
from typing import Literal

from astrarium.engine.plan import Backend, Dim, NetworkPlan, Shape
from astrarium.engine.plugins.network import NEVER
from astrarium.network.ns3 import Ns3
from astrarium.network.ns3.medium import Ns3Network

SIZE = 1 << 18
HEAD = ("case", "dims", "npus", "bytes", "transport", "version", "first_ps", "median_ps", "p99_ps", "last_ps")
Transport = Literal["udp", "tcp"]
TRANSPORTS: tuple[Transport, ...] = ("udp", "tcp")
TORI = ((4, 4), (8, 8), (8, 16))


def ends(dims: tuple[Dim, ...], pairs: list[tuple[int, int]], transport: Transport) -> tuple[str, list[int]]:
    network = Ns3Network(NetworkPlan(Backend.FOREIGN, dims), Ns3(transport=transport))
    found: list[int] = []
    for number, (source, destination) in enumerate(pairs):
        network.sim_send(SIZE, source, destination, lambda: found.append(network.sim_get_time()), number)
    while (following := network.next_event_time()) < NEVER:
        network.advance(following)
    return network.version, sorted(found)


def main() -> None:
    cases: list[tuple[str, tuple[Dim, ...], list[tuple[int, int]]]] = [
        ("incast", (Dim(Shape.SWITCH, n, 50.0, 500.0),), [(s, 0) for s in range(1, n)]) for n in (16, 64, 128)]
    for sides in TORI:
        n = sides[0] * sides[1]
        pairs = [(i, (7 * i + 3) % n) for i in range(n) if (7 * i + 3) % n != i]
        cases.append(("permutation", tuple(Dim(Shape.RING, side, 50.0, 500.0) for side in sides), pairs))
    with Path(sys.argv[1]).open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(HEAD)
        for case, dims, pairs in cases:
            for transport in TRANSPORTS:
                version, found = ends(dims, pairs, transport)
                shape = " x ".join(f"{dim.shape.name.lower()} {dim.npus}" for dim in dims)
                p99 = found[round(0.99 * (len(found) - 1))]
                rows.writerow([case, shape, math.prod(dim.npus for dim in dims), SIZE, transport, version, found[0],
                               int(median(found)), p99, found[-1]])


main()
