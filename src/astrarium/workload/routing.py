"""Which experts tokens choose, and what the busiest rank gets of it.

Loads of experts are equal, those of a power law, or measured. The power law is that of aiconfigurator's measured
expert layers (its collector's `sample_power_law`): loads have the density x^-a between 1 and 0.8 of the tokens (between
0.01 and 2 where tokens choose fewer experts than there are); here its quantiles in random order replace the draw.

Redundant experts are copies of the busiest ones: each goes to the expert with the highest load per copy, then copies
are packed, the busiest first, onto the rank with the least load that has room (DeepSeek's EPLB, its global policy).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from astrarium.arrays import F64
from astrarium.config import Config, Knob, Problem

__all__ = ["Busiest", "Routing", "busiest", "loads_of"]


def _one_source(routing: Routing) -> Iterator[Problem]:
    if routing.loads is not None and routing.skew:
        yield Problem("skew", "has no effect together with loads", "0, or no loads")
    if routing.loads is not None and not sum(routing.loads):
        yield Problem("loads", "are all 0", "a load above 0")


class Routing(Config, frozen=True, kw_only=True):
    """How often tokens choose each expert; left out: all equally often."""

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_one_source,)
    skew: Annotated[float, Knob("Exponent of the power law of experts' loads (aiconfigurator's rows: 1.01, 1.2); 0: "
                                "equal loads.", ge=0, lt=10)] = 0.0
    loads: Annotated[Sequence[float] | None, Knob("Measured load of every expert, in any unit, in the order in which "
                                                  "experts lie on ranks.", ge=0)] = None
    seed: Annotated[int, Knob("Seed of the order in which a power law's loads fall on experts (NumPy's PCG64).", ge=0,
                              lt=2**63)] = 0


class Busiest(NamedTuple):
    """`rows` of the busiest rank over the mean of all; `hit`: the most experts (and copies) of a rank that get a token.
    """

    rows: float
    hit: float


def loads_of(routing: Routing, experts: int, top_k: int, tokens: float) -> F64:
    """Share of all rows that go to each expert [experts]; at most 1 / top_k, since a token chooses an expert once."""
    if routing.loads is not None:
        found = np.array(routing.loads, np.float64)
    elif routing.skew:
        low, high = (1.0, 0.8 * tokens) if tokens * top_k > experts else (0.01, 2.0)
        order = np.random.Generator(np.random.PCG64(routing.seed)).permutation(experts)
        found = _quantiles(routing.skew, low, max(low, high), experts)[order]
    else:
        found = np.ones(experts)
    return _capped(found / found.sum(), 1.0 / top_k)


def busiest(loads: F64, ranks: int, redundant: int, top_k: int, tokens: float) -> Busiest:
    """What the busiest of `ranks` ranks gets, with `redundant` copies, of `tokens` tokens."""
    copies = np.ones(len(loads), np.int64)
    for _ in range(redundant):
        copies[int(np.argmax(loads / copies))] += 1
    slots = np.repeat(loads / copies, copies)
    per_rank = len(slots) // ranks
    table = _packed(slots, ranks, per_rank) if redundant else slots.reshape(ranks, per_rank)
    hit = 1.0 - (1.0 - np.minimum(1.0, top_k * table)) ** tokens
    return Busiest(float(table.sum(axis=1).max()) * ranks, float(hit.sum(axis=1).max()))


def _quantiles(skew: float, low: float, high: float, count: int) -> F64:
    """Quantiles of the density x^-skew between low and high, at the middles of `count` equal parts."""
    middles = (np.arange(count) + 0.5) / count
    if abs(skew - 1.0) < 1e-9:
        return np.asarray(low * (high / low) ** middles)
    power = 1.0 - skew
    return np.asarray((low**power + middles * (high**power - low**power)) ** (1.0 / power))


def _capped(shares: F64, most: float) -> F64:
    """Shares of which none is above `most`; what is cut goes to the others, in proportion."""
    while shares.max() > most * (1 + 1e-12):
        full = shares >= most
        rest = shares[~full].sum()
        left = 1.0 - most * int(full.sum())
        shares = np.where(full, most, shares * (left / rest) if rest else left / max(1, int((~full).sum())))
    return shares


def _packed(slots: F64, ranks: int, room: int) -> F64:
    """Loads [ranks, room]: each slot, the busiest first, on the rank with the least load that has room."""
    queue = [(0.0, rank) for rank in range(ranks)]
    table: list[list[float]] = [[] for _ in range(ranks)]
    for load in np.sort(slots)[::-1].tolist():
        total, rank = heapq.heappop(queue)
        table[rank].append(load)
        if len(table[rank]) < room:
            heapq.heappush(queue, (total + load, rank))
    return np.array(table)
