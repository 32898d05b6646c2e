"""Learning a model of traces from examples.

Order: programs (`fold`) by a prefix tree (`order`), how often loops run as counts of the conditions (`laws`).
Dependencies: per site, which earlier tokens a node waits for, and how many occurrences back. Sizes: per token, or per
site where those differ, a law of the conditions. Collectives that gather gradients: `buckets`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from astrarium.arrays import F64, I64
from astrarium.errors import InputError
from astrarium.synthesise.apart import told_apart
from astrarium.synthesise.buckets import Bucket, site_codes
from astrarium.synthesise.counts import Loop, learn_loops
from astrarium.synthesise.examples import VALUES, Example
from astrarium.synthesise.fold import Folder, Program, bodies_of
from astrarium.synthesise.gather import learn_buckets, learned_as_buckets
from astrarium.synthesise.laws import Law, fit_law, table
from astrarium.synthesise.order import Orders, learn_orders
from astrarium.synthesise.pieces import Pieces, learn_pieces
from astrarium.synthesise.tokens import Token
from astrarium.synthesise.waits import Waits, learn_waits

__all__ = ["Model", "SizeKey", "learn"]

FEWEST = 8              # examples that a law of its own needs
EQUAL = 1e-6
SizeKey = tuple[int | None, int, int]


class Size(msgspec.Struct, frozen=True):
    """An attribute of a site (`before` None: of a token wherever it is); no law: always 0."""

    before: int | None
    token: int
    column: int
    law: Law | None


class Model(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was learned. `names` are the conditions in order; `low`, `high` their span over all examples."""

    names: list[str]
    low: list[float]
    high: list[float]
    tokens: list[Token]
    orders: Orders
    loops: list[Loop]
    waits: list[Waits]
    sizes: list[Size]
    buckets: list[Bucket]
    examples: int
    longest: int
    pieces: list[Pieces] = []


class Coded(Struct, frozen=True, eq=False):
    """Examples with tokens numbered over all of them: `order` [examples][nodes], `main` the nodes outside buckets.
    `gathered` are the tokens of buckets, `after` those that take on what another one has gathered."""

    examples: Sequence[Example]
    names: list[str]
    tokens: list[Token]
    order: list[I64]
    main: list[I64]
    gathered: set[int]
    after: dict[int, int]


def learn(examples: Sequence[Example]) -> Model:
    """The model of `examples`. InputError where there are none, or their conditions differ in names."""
    coded = main_of(examples)
    rows = [each.conditions for each in examples]
    x, sizes = table(rows, coded.names), table(rows, coded.names, sizes=True)
    programs = programs_of(coded)
    raw = x[:, :len(coded.names)]
    return Model(coded.names, raw.min(axis=0).tolist(), raw.max(axis=0).tolist(), coded.tokens,
                 learn_orders([program for program, _ in programs], x),
                 learn_loops(programs, [each.name for each in coded.tokens], x),
                 learn_waits(examples, coded.order, coded.main, coded.gathered), _sizes(coded, sizes),
                 learn_buckets(examples, coded.order, coded.gathered, coded.after, x, sizes), len(examples),
                 max(each.size for each in coded.order),
                 learn_pieces(examples, coded.order, coded.main, coded.tokens, programs, x, sizes))


def main_of(examples: Sequence[Example]) -> Coded:
    """Examples with tokens of one numbering. InputError where there are none, or their conditions differ in names."""
    if not examples:
        raise InputError("synthesise", "no examples", expected="at least one trace")
    names = sorted(examples[0].conditions)
    for each in examples:
        if sorted(each.conditions) != names:
            raise InputError("synthesise", f"an example has the conditions {', '.join(sorted(each.conditions))}",
                             expected=", ".join(names) + ", as the first one")
    number: dict[Token, int] = {}
    order = []
    for each in examples:
        own = np.array([number.setdefault(token, len(number)) for token in each.tokens], np.int64)
        order.append(own[each.token] if own.size else np.zeros(0, np.int64))
    found = told_apart(examples, order, list(number), learned_as_buckets(examples, order, len(number)))
    bucket = np.array([token in found.gathered for token in range(len(found.tokens))], np.bool_)
    return Coded(examples, names, found.tokens, order, [np.flatnonzero(~bucket[each]) for each in order],
                 found.gathered, found.after)


def programs_of(coded: Coded) -> list[tuple[Program, list[int]]]:
    """Every example's main nodes as a program and the counts of its loops."""
    orders = [order[main] for order, main in zip(coded.order, coded.main, strict=True)]
    folder = Folder(bodies_of(orders))
    return [folder.fold(each) for each in orders]


# ------------------------------------------------------------ sizes
def _sizes(coded: Coded, x: F64) -> list[Size]:
    """Laws of the mean of each example; per site where a token's differ within one example."""
    fitted: dict[bytes, Law] = {}
    return [Size(before, token, column, _law(seen, x, fitted))
            for (before, token, column), seen in size_rows(coded).items()]


def size_rows(coded: Coded) -> dict[SizeKey, dict[int, F64]]:
    """(token before, or None; token; column) -> row of the example -> values there. In order of the first row, there
    tokens before sites."""
    base, few = len(coded.tokens) + 1, len(coded.examples) < FEWEST
    seen: dict[SizeKey, dict[int, F64]] = defaultdict(dict)
    uneven: set[tuple[int, int]] = set()
    for row, (order, main) in enumerate(zip(coded.order, coded.main, strict=True)):
        for token, column, values in _parts(coded.examples[row], main, order[main], range(len(VALUES))):
            seen[None, token, column][row] = values
            if np.ptp(values) > EQUAL * values.max():
                uneven.add((token, column))
    for row, (order, main) in enumerate(zip(coded.order, coded.main, strict=True)):
        columns = () if few else sorted({column for _, column in uneven})
        for code, column, values in _parts(coded.examples[row], main, site_codes(order[main], base), columns):
            if (code % base, column) in uneven:
                seen[code // base, code % base, column][row] = values
    rows = {key: found for key, found in seen.items() if key[0] is None or len(found) >= FEWEST}

    def first(key: SizeKey) -> tuple[int, bool, int, int]:
        before, token, column = key
        return next(iter(rows[key])), before is not None, token if before is None else before * base + token, column

    return {key: rows[key] for key in sorted(rows, key=first)}


def _parts(each: Example, main: I64, keys: I64, columns: Iterable[int]) -> Iterator[tuple[int, int, F64]]:
    """(key, column, values that are there) of the main nodes of every key; equal values take the room of one."""
    if not keys.size:
        return
    sort = np.argsort(keys, kind="stable")
    found, begin = np.unique(keys[sort], return_index=True)
    for key, part in zip(found.tolist(), np.split(sort, begin[1:]), strict=True):
        for column in columns:
            values = each.values[main[part], column]
            values = values[~np.isnan(values)]
            if values.size:
                yield key, column, values if np.ptp(values) else np.broadcast_to(values[:1].copy(), values.shape)


def _law(seen: Mapping[int, F64], x: F64, fitted: dict[bytes, Law]) -> Law | None:
    """The law of positive means; None where most are 0. Its residuals include those of nodes about the mean. `fitted`
    has the laws of means by content (rows and values), and gets this one: many tokens have the same means."""
    rows = np.array([row for row, values in sorted(seen.items()) if values.mean() > 0], np.int64)
    if 2 * rows.size <= len(seen):
        return None
    means = np.array([float(seen[row].mean()) for row in rows.tolist()])
    key = rows.tobytes() + means.tobytes()      # as many bytes of the one as of the other
    law = fitted[key] if key in fitted else fitted.setdefault(key, fit_law(x[rows], means))
    spread = np.concatenate([np.log(np.maximum(seen[row], 1e-9) / seen[row].mean()) for row in rows.tolist()])
    if np.ptp(spread) < EQUAL:
        return law
    own = np.quantile(spread, np.linspace(0.05, 0.95, 10))
    return Law(law.coefficient, law.exponent, law.log, (np.array(law.residual) + own).tolist())
