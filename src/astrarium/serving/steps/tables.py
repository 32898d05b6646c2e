"""How long a step takes, from tables: a sum over kernels of its tokens, of its sampled tokens, of its decoding
sequences and of each prompt, each made from the graph and the times that a run has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from astrarium.arrays import F64, I64
from astrarium.engine.plugins.kernels import Columns, KernelTable
from astrarium.serving.shape import Prompt, Shape
from astrarium.serving.steps.exact import Times
from astrarium.serving.steps.features import decode_features, edge_of, limit_of, line, prompt_features, windows_of
from astrarium.serving.steps.formulas import Formula, kernels_of
from astrarium.serving.steps.grids import MOST, Plane, Row, past_nodes, prompt_nodes
from astrarium.serving.steps.nodes import InseparableError, Node, whose
from astrarium.serving.steps.points import Sort
from astrarium.serving.steps.split import Formulas, Lowered, Split, split_of
from astrarium.vocab import NodeKind
from astrarium.workload.inference.chain import Exchange

__all__ = ["Tables"]

FINE, COARSE = 256, 16     # points between a number and twice as much
EQUAL = 0.01
FEW = 2         # steps that tell whether formulas of others serve


def _timed(times: Times, nodes: Sequence[tuple[Node, Formula]], features: F64) -> F64:
    """Times in ps [points] of all nodes together at points with `features`."""
    total = np.zeros(len(features))
    kernels: list[Columns] = []
    runs, place = list[tuple[int, slice]](), 0
    for (step, count), formula in nodes:
        numbers = formula(features)
        if step.kind == NodeKind.COMM_COLL and step.op is not None:
            sizes = np.rint(numbers[:, 0]).astype(np.int64).tolist()
            total += count * np.array(times.exchanges(Exchange(step.op, size, step.axes) for size in sizes))
        else:
            equal = bool((np.abs(numbers - numbers[0]) < EQUAL).all())
            kernels.append(kernels_of(step, numbers[:1] if equal else numbers, place))
            runs.append((count, slice(place, place := place + len(kernels[-1].place))))
    lasts = times.kernels(KernelTable(kernels))
    for count, places in runs:
        total += count * lasts[places]
    return total


class _Tokens:
    """Times by a number of tokens: products at most of them, collectives and what moves bytes at some."""

    def __init__(self, times: Times, formulas: Formulas, features: Callable[[I64], F64]) -> None:
        shaped = [bool(node.step.kernel and node.step.kernel.shape) for node, _ in formulas.nodes]

        def row(chosen: bool, fine: int, least: float) -> Row:
            nodes = [each for each, has in zip(formulas.nodes, shaped, strict=True) if has == chosen]
            return Row(lambda at: _timed(times, nodes, features(np.maximum(1, at))), fine, least, tiled=chosen)

        one = row(True, FINE, 0.0)(1)
        self._rows = row(True, FINE, one), row(False, COARSE, one)
        self._known: dict[int, float] = {0: 0.0}

    def __call__(self, tokens: int) -> float:
        """Time in ps."""
        found = self._known.get(tokens)
        if found is None:
            found = self._known[tokens] = self._rows[0](tokens) + self._rows[1](tokens)
        return found


class Tables:
    """Times in ps of steps of one pass of a model, whose decoding sequences have `new` tokens each.

    Raises InseparableError, at any call, where no tables give the time of such a step.
    """

    def __init__(self, times: Times, new: int = 1) -> None:
        self._times, self._new, self._windows = times, new, windows_of(times.replica)
        self._edge, self._limit = edge_of(times.replica) or MOST, limit_of(times.replica) or MOST
        self._sorts: dict[tuple[bool, ...], _Sort | InseparableError] = {}
        self._splits: list[Split] = []
        self._tried: set[Sort] = set()
        self._made: list[tuple[Formulas, Any]] = []

    def of(self, shape: Shape, /) -> int:
        """Time of a step."""
        count, context, padding, new = shape.count, shape.context, shape.padding, self._new
        tokens, heads = count * new + padding, count * new
        for size, past, samples in shape.prompts:
            tokens += size
            heads += samples
            if size == 1:       # with the decoding sequences
                count, context = count + 1, context + past
        if new > 1 and count != shape.count:
            raise InseparableError("prompts of one token beside drafts of several")
        self._check(count, context, max([size + past for size, past, _ in shape.prompts], default=0))
        if not context and count + padding:     # no decoding sequence has a cache
            count, padding = count + padding, 0
        decodes = context > 0, count > 0 and not context
        prompts = _counted(shape.prompts)
        several = not count and len(prompts) > 1
        parts = [(size, past, number, self._sort((*decodes, past == 0, past > 0, several,
                                                  past == 0 and size > self._edge)))
                 for (size, past, _), number in prompts if size > 1]
        if parts:
            sort = max(parts, key=itemgetter(1))[3]     # one with a past, if there is any
        elif context:
            sort = self._sort((True, tokens != heads, False, False, False, False))
        else:
            raise InseparableError("sequences of one token and nothing else")
        total = sort.tokens(tokens) + sort.heads(heads)
        total += sum(each(many) for each, many in zip(sort.shared, shape.shared or (tokens, tokens), strict=False))
        if count:
            total += sort.row(count, padding)(context / count)
        for size, past, number, own in parts:
            total += own.plane(number)(size, past)
        return round(total)

    def decoding(self, count: int, context: int, steps: int, padding: int = 0, /) -> I64:
        """Times of successive decode steps [steps]."""
        heads = count * self._new
        self._check(count, context + count * (steps - 1))
        sort = self._sort((True, padding > 0, False, False, False, False))
        found = sort.row(count, padding).along(context / count, steps)
        found += sort.tokens(heads + padding) + sort.heads(heads) + sum(each(heads + padding) for each in sort.shared)
        return np.rint(found).astype(np.int64)

    def _check(self, count: int, context: int, longest: int = 0) -> None:
        """Raise InseparableError where sequences are longer than what is modelled."""
        if max(longest, context / max(1, count) + self._new) > self._limit:
            raise InseparableError(f"sequences of more than {self._limit} tokens")

    def _sort(self, key: tuple[bool, ...]) -> _Sort:
        """The tables of a sort of steps: (decoding sequences, and the rest as in Sort)."""
        found = self._sorts.get(key)
        if found is None:
            try:
                found = self._new_sort(Sort(self._new * key[0], *key[1:]))
            except InseparableError as why:
                found = why
            self._sorts[key] = found
        if isinstance(found, InseparableError):
            raise found
        return found

    def _new_sort(self, sort: Sort) -> _Sort:
        """From formulas of a sort that was split before, or of a wider one, if its steps have all nodes of these."""
        replica, forms = self._times.replica, self._times.forms
        drawn = Lowered.of(replica, sort, FEW, forms)
        found = next(filter(None, (split.of(drawn) for split in self._splits)), None)
        wide = sort.wide(self._new)
        if found is None and wide not in self._tried:
            self._tried.add(wide)
            try:
                self._splits.append(split_of(replica, wide, forms))
                found = self._splits[-1].of(drawn)
            except InseparableError:
                pass        # steps with less may do
        split = found or split_of(replica, sort, forms)
        parts = (0, 1, 2) if replica.mesh.size(("dp",)) > 1 else (0,)
        tokens, *shared = (
            self._shared(Formulas(tuple(each for each in split.tokens.nodes
                                        if len(parts) == 1 or whose(each[0].step) == part), split.tokens.points),
                         lambda each: _Tokens(self._times, each, split.curved)) for part in parts)
        return _Sort(tokens, shared, self._shared(split.heads, lambda each: _Tokens(self._times, each, line)),
                     self._shared(split.decode, lambda each: self._rows(each, split.sort.new or 1, tokens)),
                     self._shared(split.prompts, lambda each: self._planes(each, tokens)))

    def _shared(self, formulas: Formulas, make: Callable[[Formulas], Any]) -> Any:
        """The tables of a group of nodes: those of another sort of steps that has the same."""
        for known, table in self._made:
            if known.agrees(formulas):
                return table
        self._made.append((formulas, make(formulas)))
        return self._made[-1][1]

    def _rows(self, formulas: Formulas, new: int, tokens: _Tokens) -> _Rows:
        def at(count: I64, means: I64, padding: I64) -> F64:
            features = decode_features(count, count * means, padding, new, self._windows)
            return _timed(self._times, formulas.nodes, features)
        return _Rows(at, lambda count: tokens(count * new))

    def _planes(self, formulas: Formulas, tokens: _Tokens) -> _Planes:
        def at(count: I64, size: I64, past: I64) -> F64:
            return _timed(self._times, formulas.nodes, prompt_features(count, size, past, self._windows))
        return _Planes(at, tokens)


class _Rows:
    """Attention of decoding sequences: a row for each number of them (and padding), by mean tokens in their caches."""

    def __init__(self, function: Callable[[I64, I64, I64], F64], least: Callable[[int], float]) -> None:
        self._function, self._least = function, least
        self._rows: dict[tuple[int, int], Row] = {}

    def __call__(self, count: int, padding: int) -> Row:
        found = self._rows.get((count, padding))
        if found is None:
            found = self._rows[count, padding] = Row(
                lambda means: self._function(np.full(len(means), count), means, np.full(len(means), padding)), FINE,
                self._least(count))
        return found


class _Planes:
    """Attention of prompts: a plane for each number of equal ones, by their tokens and those in their caches."""

    def __init__(self, function: Callable[[I64, I64, I64], F64], tokens: _Tokens) -> None:
        self._function, self._tokens = function, tokens
        self._planes: dict[int, Plane] = {}
        self._sizes, self._pasts = prompt_nodes(), past_nodes()

    def __call__(self, count: int) -> Plane:
        found = self._planes.get(count)
        if found is None:
            found = self._planes[count] = Plane(self._sizes, self._pasts, lambda sizes, pasts: self._function(
                np.full(len(sizes), count), sizes, pasts), self._tokens)
        return found


class _Sort(NamedTuple):
    """The tables of steps of one sort. `shared`: of nodes whose size tokens of other ranks of dp make (see Shape)."""

    tokens: _Tokens
    shared: Sequence[_Tokens]
    heads: _Tokens
    row: _Rows
    plane: _Planes


def _counted(prompts: Sequence[Prompt]) -> Sequence[tuple[Prompt, int]]:
    """Different prompts and how often each is there."""
    if len(prompts) < 2:
        return [(each, 1) for each in prompts]
    counts: dict[Prompt, int] = {}
    for each in prompts:
        counts[each] = counts.get(each, 0) + 1
    return tuple(counts.items())
