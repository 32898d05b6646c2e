"""Learning a model of traces from examples, without torch.

Order: programs (`fold`) by a prefix tree (`order`), how often loops run as counts of the conditions (`laws`).
Dependencies: per site, which earlier tokens a node waits for, and how many occurrences back. Sizes: per token, or per
site where those differ, a law of the conditions. Collectives that gather gradients: `buckets`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from astrarium.errors import InputError
from astrarium.trace.synthesise.apart import told_apart
from astrarium.trace.synthesise.buckets import Bucket, learn_buckets, learned_as_buckets, site_codes
from astrarium.trace.synthesise.examples import VALUES, Example
from astrarium.trace.synthesise.fold import Folder, Program, bodies_of, loops
from astrarium.trace.synthesise.laws import Count, Law, fit_count, fit_law, forms_of, table
from astrarium.trace.synthesise.order import Orders, learn_orders
from astrarium.trace.synthesise.pieces import Pieces, learn_pieces
from astrarium.trace.synthesise.tokens import Token
from astrarium.trace.synthesise.waits import Waits, learn_waits

__all__ = ["Coded", "Loop", "Model", "Size", "SizeKey", "learn",
           "loop_sites", "main_of", "programs_of", "size_rows"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
FEWEST = 8              # examples that a law of its own needs
EQUAL = 1e-6
SizeKey = tuple[int | None, int, int]


class Loop(msgspec.Struct, frozen=True):
    """How often a loop runs: by its body and the symbol before it (-1: at the start; None: wherever it is)."""

    body: list[int]
    before: int | None
    count: Count


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


@dataclass(frozen=True, eq=False)
class Coded:
    """Examples with tokens numbered over all of them: `order` [examples][nodes], `main` the nodes outside buckets."""

    examples: Sequence[Example]
    names: list[str]
    tokens: list[Token]
    order: list[I64]
    main: list[I64]
    gathered: set[int]


def learn(examples: Sequence[Example]) -> Model:
    """The model of `examples`. InputError where there are none, or their conditions differ in names."""
    coded = main_of(examples)
    rows = [each.conditions for each in examples]
    x, sizes = table(rows, coded.names), table(rows, coded.names, sizes=True)
    programs = programs_of(coded)
    raw = x[:, :len(coded.names)]
    return Model(coded.names, raw.min(axis=0).tolist(), raw.max(axis=0).tolist(), coded.tokens,
                 learn_orders([program for program, _ in programs], x), _loops(programs, x),
                 learn_waits(examples, coded.order, coded.main, coded.gathered), _sizes(coded, sizes),
                 learn_buckets(examples, coded.order, coded.gathered, x, sizes), len(examples),
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
    gathered = learned_as_buckets(examples, order, len(number))
    tokens = told_apart(examples, order, list(number), gathered)
    bucket = np.array([token in gathered for token in range(len(tokens))], np.bool_)
    return Coded(examples, names, tokens, order, [np.flatnonzero(~bucket[each]) for each in order], gathered)


def programs_of(coded: Coded) -> list[tuple[Program, list[int]]]:
    """Every example's main nodes as a program and the counts of its loops."""
    orders = [order[main] for order, main in zip(coded.order, coded.main, strict=True)]
    folder = Folder(bodies_of(orders))
    return [folder.fold(each) for each in orders]


# ------------------------------------------------------------ loops
def _loops(programs: Sequence[tuple[Program, list[int]]], x: F64) -> list[Loop]:
    found: dict[tuple[Program, int | None], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row, (program, counts) in enumerate(programs):
        for (_, body, symbol), count in zip(loop_sites(program), counts, strict=True):
            found[body, symbol][row].append(count)
            found[body, None][row].append(count)
    out, forms = [], forms_of(x)
    for (body, before), seen in found.items():
        rows = sorted(seen)
        if before is None or len(rows) >= FEWEST:
            out.append(Loop(list(body), before,
                            fit_count(x[rows], np.array([float(np.median(seen[row])) for row in rows]), forms)))
    return out


def loop_sites(program: Program) -> Iterator[tuple[int, Program, int]]:
    """(position of the CLOSE, body, symbol before the OPEN) of every loop, in the order of the CLOSEs."""
    for at, body in sorted(loops(program).items()):
        opened = at - len(body) - 1
        yield at, body, program[opened - 1] if opened > 0 else -1


# ------------------------------------------------------------ sizes
def _sizes(coded: Coded, x: F64) -> list[Size]:
    """Laws of the mean of each example; per site where a token's differ within one example."""
    return [Size(before, token, column, _law(seen, x)) for (before, token, column), seen in size_rows(coded).items()]


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


def _law(seen: Mapping[int, F64], x: F64) -> Law | None:
    """The law of positive means; None where most are 0. Its residuals include those of nodes about the mean."""
    rows = [row for row, values in sorted(seen.items()) if values.mean() > 0]
    if 2 * len(rows) <= len(seen):
        return None
    law = fit_law(x[rows], np.array([float(seen[row].mean()) for row in rows]))
    spread = np.concatenate([np.log(np.maximum(seen[row], 1e-9) / seen[row].mean()) for row in rows])
    if np.ptp(spread) < EQUAL:
        return law
    own = np.quantile(spread, np.linspace(0.05, 0.95, 10))
    return Law(law.coefficient, law.exponent, law.log, (np.array(law.residual) + own).tolist())
