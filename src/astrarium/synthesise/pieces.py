"""Collectives of one name that come one after the other and share what is to be sent: as many as a limit asks for.

So ZeRO gathers weights after the optimizer's step. How many there are is no combination of conditions, but the whole of
the bytes is a law, and so is the limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from astrarium.arrays import F64, I64
from astrarium.synthesise.examples import VALUES, Example
from astrarium.synthesise.fold import Program, loops
from astrarium.synthesise.laws import LARGEST, Law, fit_count, fit_law, fit_limit, forms_of
from astrarium.synthesise.tokens import Token
from astrarium.vocab import NodeKind

__all__ = ["Pieces", "learn_pieces"]

SIZE = VALUES.index("comm_size")
FEWEST = 8              # examples
SAME = 1e-6


class Pieces(msgspec.Struct, frozen=True):
    """A token of which there are `total / limit` one after the other, rounded down, at least one, of equal bytes."""

    token: int
    total: Law
    limit: Law

    def at(self, x: F64) -> tuple[int, float]:
        """(how many, bytes of each) at conditions [1, conditions]."""
        total, limit = float(self.total.at(x)[0]), float(self.limit.at(x)[0])
        count = max(1, int(min(total / max(limit, 1.0), LARGEST)))
        return count, total / count


def learn_pieces(examples: Sequence[Example], orders: Sequence[I64], mains: Sequence[I64], tokens: Sequence[Token],
                 programs: Sequence[tuple[Program, list[int]]], x: F64, sizes: F64) -> list[Pieces]:
    """Learn the collectives of a separate loop whose numbers nothing else explains. x and sizes [examples,
    conditions], for counts and for sizes."""
    found = []
    for token in _alone(orders, mains, tokens, programs):
        rows = [row for row, order in enumerate(orders) if (order == token).any()]
        values = [examples[row].values[orders[row] == token, SIZE] for row in rows]
        if len(rows) < FEWEST or any(not each.min() > 0 or np.ptp(each) > SAME * each.max() for each in values):
            continue
        counts = np.array([each.size for each in values])
        plain = fit_count(x[rows], counts.astype(np.float64), forms_of(x)).at(x[rows])
        pieces = _fitted(token, counts, np.array([each.sum() for each in values]), sizes[rows])
        told = np.array([pieces.at(sizes[[row]])[0] for row in rows])
        if (told != counts).sum() < (plain != counts).sum():
            found.append(pieces)
    return found


def _alone(orders: Sequence[I64], mains: Sequence[I64], tokens: Sequence[Token],
           programs: Sequence[tuple[Program, list[int]]]) -> list[int]:
    """Collectives whose nodes, wherever there are any, are all of one loop of nothing else."""
    coll = {number for number, token in enumerate(tokens) if token.kind == NodeKind.COMM_COLL}
    for order, main, (program, counts) in zip(orders, mains, programs, strict=True):
        there = Counter(order[main].tolist())
        looped: Counter[int] = Counter()
        times: Counter[int] = Counter()
        for (_, body), count in zip(sorted(loops(program).items()), counts, strict=True):
            if len(body) == 1:
                looped[body[0]] += count
                times[body[0]] += 1
        coll -= {token for token in coll & set(there) if times[token] != 1 or looped[token] != there[token]}
    return sorted(coll & {body[0] for program, _ in programs for body in loops(program).values() if len(body) == 1})


def _fitted(token: int, counts: I64, totals: F64, x: F64) -> Pieces:
    """A limit that fits all examples where there is one, else a law."""
    low, high = totals / (counts + 1), np.where(counts > 1, totals / counts, np.inf)
    limit = fit_limit(x, low, high)
    if limit is None:
        rows = np.flatnonzero(np.isfinite(high))
        limit = fit_law(x[rows], np.sqrt(low[rows] * high[rows])) if rows.size else fit_law(x, totals)
    return Pieces(token, fit_law(x, totals), limit)
