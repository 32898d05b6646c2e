"""Networks and collectives drawn with a seed, and every candidate of algorithm x composition x chunks for them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import astrarium as ar
from astrarium.collective.algorithms import supporting
from astrarium.lower.kept import Kept
from astrarium.vocab import CommOp

__all__ = ["COMMON", "OTHERS", "Case", "chosen_time", "draw", "exhaustive"]

OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
COMMON = ("ring", "switch", "switch", "fully_connected", "torus", "one_way")
OTHERS = ("mesh", "hypercube")
SIZES = (2, 3, 4, 4, 5, 6, 8, 8, 8, 12, 16)
MOST = 256          # NPUs
CHUNKS = (1, 2, 4, 8, 16, 32, 64)
FEW = 8             # chunks, beyond which only candidates are tried that are not yet so much slower than the best:
WORSE = 2.5

Candidate = tuple[tuple[str, ...], str, int]


@dataclass(frozen=True)
class Case:
    """A collective of all NPUs of a network; `payload` in bytes."""

    network: ar.Network
    op: str
    payload: int

    def design(self, **collective: object) -> ar.Design:
        """The case with these fields of `collective`."""
        return ar.Design(workload=ar.SingleCollective(self.op, f"{self.payload} B"), network=self.network,
                         collective=ar.Collective(**collective))


def draw(seed: int, number: int, shapes: Sequence[str] = COMMON) -> Case:
    """One to three dims of the shapes, 10 to 900 GB/s a link, 50 ns to 10 us a hop, 1 kB to 8 GB."""
    rng, dims, total = random.Random(f"choice {seed} {number}"), [], 1
    for _ in range(rng.choice((1, 2, 2, 3))):
        dim, npus = _dim(rng, rng.choice(shapes), MOST // total)
        dims.append(dim)
        total *= npus
    return Case(ar.Network(dims), rng.choice(OPS), int(10**rng.uniform(3, 9.903)))


def _dim(rng: random.Random, shape: str, most: int) -> tuple[object, int]:
    link = {"bandwidth": f"{10**rng.uniform(1, 2.954):.4g} GB/s", "latency": f"{10**rng.uniform(1.7, 4):.4g} ns"}
    npus = rng.choice(SIZES)
    if shape == "hypercube":
        npus = rng.choice((2, 4, 8, 16))
    npus = npus if npus <= most else 2
    if shape == "torus":
        sides = (npus, 4 if 4 * npus <= most else 2)
        return ar.Torus(sides, **link), sides[0] * sides[1]
    if shape == "one_way":
        return ar.Ring(npus, one_way=True, **link), npus
    return {"ring": ar.Ring, "switch": ar.Switch, "fully_connected": ar.FullyConnected, "mesh": ar.Mesh,
            "hypercube": ar.Hypercube}[shape](npus, **link), npus


def _candidates(case: Case) -> Iterator[tuple[tuple[str, ...], str]]:
    """Lists of algorithms and compositions that are not the same by their definition."""
    dims, names = len(case.network.flat), supporting(CommOp[case.op.upper()])
    parted = case.op == "all_reduce" and dims > 1
    for algorithms in itertools.product(names, repeat=dims):
        yield from ((algorithms, composition) for composition in
                    ("baseline", *(("blueconnect",) if parted else ()), "themis"))


def exhaustive(case: Case) -> tuple[int, Candidate, int]:
    """(the least simulated makespan in ps, a candidate that has it, how many were simulated)."""
    kept, found = Kept(), dict[Candidate, int]()

    def simulated(algorithms: tuple[str, ...], composition: str, chunks: int) -> int:
        design = case.design(composition=composition, chunks=chunks, **{case.op: list(algorithms)})
        time = ar.simulate(design, record=False, kept=kept).makespan_ps
        found[algorithms, composition, chunks] = time
        return time

    few = {pair: [simulated(*pair, chunks) for chunks in CHUNKS if chunks <= FEW][-1] for pair in _candidates(case)}
    least = min(found.values())
    for pair, time in few.items():
        if time <= WORSE * least:
            least = min(least, *(simulated(*pair, chunks) for chunks in CHUNKS if chunks > FEW))
    best = min(found, key=lambda candidate: found[candidate])
    return found[best], best, len(found)


def chosen_time(case: Case) -> tuple[int, str]:
    """(makespan in ps, composition, algorithms and chunks) that the default has."""
    result = ar.simulate(case.design(), record=False)
    return result.makespan_ps, result.plan.collectives[0].how
