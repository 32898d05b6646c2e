"""Drawing new traces from a model: an order, dependencies and sizes for conditions that no example had."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64, I64
from astrarium.errors import InputError, nearest
from astrarium.synthesise.buckets import Bucket, Filled, fill, site_codes
from astrarium.synthesise.counts import Counts, loop_sites
from astrarium.synthesise.examples import VALUES
from astrarium.synthesise.fold import Program, expand
from astrarium.synthesise.join import Drawn, join
from astrarium.synthesise.laws import Law, table
from astrarium.synthesise.layout import layout_of
from astrarium.synthesise.learn import Model, SizeKey
from astrarium.synthesise.order import walk
from astrarium.synthesise.waits import Context, Motif, contexts_of
from astrarium.trace.work import Generated

__all__ = ["sample", "within"]

MOST = 200_000_000      # nodes of one rank
COMM = VALUES.index("comm_size")


def within(model: Model, conditions: Mapping[str, float]) -> list[str]:
    """One sentence per condition outside the span of the examples."""
    out = []
    for name, low, high in zip(model.names, model.low, model.high, strict=True):
        if name != "stage" and not low <= conditions[name] <= high:
            out.append(f"{name} is {conditions[name]:g}, learnt from {low:g} to {high:g}")
    return out


def sample(model: Model, conditions: Mapping[str, float], *, seed: int = 0, jitter: bool = False,
           extrapolate: bool = False) -> Generated:
    """A valid trace of tp * dp * pp ranks for `conditions` (all that the model names, the stage aside).

    Every node waits for earlier ones only; groups agree, and messages have their receives. `jitter` draws sizes from
    the residuals of the laws, else they are their centre. InputError for a condition that is missing or unknown, and,
    unless `extrapolate`, for one outside what was learnt.
    """
    wanted = [name for name in model.names if name != "stage"]
    for name in conditions:
        if name not in wanted:
            raise InputError(f"synthesise: {name}", "is no condition of this model", expected=", ".join(wanted),
                             did_you_mean=nearest(name, wanted))
    missing = [name for name in wanted if name not in conditions]
    if missing:
        raise InputError(f"synthesise: {missing[0]}", "has no value", expected="all of " + ", ".join(wanted))
    outside = [] if extrapolate else within(model, conditions)
    if outside:
        raise InputError("synthesise", "; ".join(outside),
                         expected="conditions within; --extrapolate (`extrapolate`) where that is meant")
    layout = layout_of(conditions)
    rng = np.random.Generator(np.random.PCG64(seed))
    drawer = _Drawer(model, rng, jitter)
    stages = [drawer.stage({**conditions, "stage": float(stage)}) for stage in range(layout.pp)]
    return join(model.tokens, stages, layout)


class _Drawer:
    """Tables of a model, and what draws one stage."""

    def __init__(self, model: Model, rng: np.random.Generator, jitter: bool) -> None:
        self.model, self.rng, self.jitter = model, rng, jitter
        self.loops = Counts(model.loops)
        self.waits = {tuple(each.context): each for each in model.waits}
        self.sizes: dict[SizeKey, Law | None] = {
            (each.before, each.token, each.column): each.law for each in model.sizes}
        self.pieces = {each.token: each for each in model.pieces}
        self.base = len(model.tokens) + 1

    def stage(self, conditions: Mapping[str, float]) -> Drawn:
        """Tokens, values and dependencies of the ranks of one stage."""
        x = table([conditions], self.model.names)
        sizes = table([conditions], self.model.names, sizes=True)
        program = walk(self.model.orders, x, self.rng)
        try:
            main = expand(program, self._counts(program, x, sizes), MOST)
        except ValueError as error:
            raise InputError("synthesise", f"no trace: {error}", expected="smaller conditions") from None
        codes, site = np.unique(site_codes(main, self.base), return_inverse=True)
        values = self._values(codes, site, sizes)
        return self._merged(main, values, x, sizes)

    def _counts(self, program: Program, x: F64, sizes: F64) -> list[int]:
        """How often each loop runs, in the order of the CLOSEs."""
        out = []
        for opened, body in loop_sites(program):
            if len(body) == 1 and body[0] in self.pieces:
                out.append(self.pieces[body[0]].at(sizes)[0])
                continue
            law = self.loops.at(program, opened, body)
            out.append(int(law.at(x)[0]) if law is not None else 1)
        return out

    def _values(self, codes: I64, site: I64, sizes: F64) -> F64:
        """[nodes, VALUES], NaN where an attribute is absent."""
        centre = np.full((codes.size, len(VALUES)), np.nan)
        residual = np.zeros((codes.size, len(VALUES), 10))
        for row, code in enumerate(codes.tolist()):
            before, token = divmod(code, self.base)
            for column in range(len(VALUES)):
                if (None, token, column) not in self.sizes:
                    continue
                law = self.sizes.get((before, token, column), self.sizes[None, token, column])
                if law is None:
                    centre[row, column] = 0.0
                    continue
                residual[row, column] = law.residual or np.zeros(10)
                pieces = self.pieces.get(token) if column == COMM else None
                centre[row, column] = law.at(sizes)[0] if pieces is None else pieces.at(sizes)[1]
        values = centre[site]
        if self.jitter:
            for column in range(len(VALUES)):
                values[:, column] *= np.exp(residual[site, column, self.rng.integers(0, 10, site.size)])
        return values

    def _merged(self, main: I64, values: F64, x: F64, sizes: F64) -> Drawn:
        """Buckets put where they fill, and who waits for whom."""
        line = _Line.of([(bucket, fill(bucket, main, x, sizes)) for bucket in self.model.buckets])
        key = np.concatenate([np.arange(main.size, dtype=np.float64), line.key])
        token = np.concatenate([main, line.token])
        extra = np.full((line.token.size, len(VALUES)), np.nan)
        extra[:, 0], extra[:, COMM] = 0.0, line.size
        order = np.argsort(key, kind="stable")
        place = np.empty(order.size, np.int64)
        place[order] = np.arange(order.size)
        contexts, context = contexts_of(main)
        there = set(np.flatnonzero(np.bincount(token)).tolist()) if token.size else set()
        motifs = [self._motifs(each, there) for each in contexts]
        kids, parents = _edges(main, context, motifs)
        lined, before = line.edges(main)
        child, parent = place[np.concatenate([*kids, lined])], place[np.concatenate([*parents, before])]
        more, befores = _after(place[:main.size], context, motifs, line, place[main.size:])
        child, parent = np.concatenate([child, *more]), np.concatenate([parent, *befores])
        good = parent < child
        size = max(1, token.size)
        pairs = np.unique(child[good] * size + parent[good])
        ptr = np.concatenate([[0], np.cumsum(np.bincount(pairs // size, minlength=token.size))]).astype(np.int64)
        if extra.size:
            values = np.concatenate([values, extra])[order]
        return Drawn(token[order], values, ptr, pairs % size)

    def _motifs(self, context: Context, there: set[int]) -> list[Motif]:
        """The most frequent set of existing parents, for the longest known end of a context."""
        for length in range(len(context), 0, -1):
            waits = self.waits.get(context[-length:])
            if waits is not None and (found := waits.at(there)) is not None:
                return found
        return []


class _Line(Struct, frozen=True, eq=False):
    """Collectives of all buckets in one line: their places among main nodes, and what they wait for."""

    key: F64
    token: I64
    size: F64
    since: I64
    after: I64
    piece: I64
    bucket: I64
    buckets: list[Bucket]

    @staticmethod
    def of(filled: list[tuple[Bucket, Filled]]) -> _Line:
        """Full ones go before what is left, at one place."""
        none = np.zeros(0)
        key = np.concatenate([none] + [each.after + np.where(each.rest, 0.75, 0.5) for _, each in filled])
        order = np.argsort(key, kind="stable")

        def whole(parts: list[I64]) -> I64:
            return np.concatenate([none, *parts])[order].astype(np.int64)

        number = whole([np.full(each.after.size, i) for i, (_, each) in enumerate(filled)])
        buckets = [bucket for bucket, _ in filled]
        size = np.concatenate([none] + [each.size for _, each in filled])[order]
        return _Line(key[order], whole([each.token for _, each in filled]), size,
                     whole([each.since for _, each in filled]), whole([each.after for _, each in filled]),
                     whole([each.piece for _, each in filled]), number, buckets)

    def edges(self, main: I64) -> tuple[I64, I64]:
        """(child, parent): the first piece of an event waits for its producers (and for the collective before), every
        other piece for the one before. Numbers: main nodes, then main.size + place in the line."""
        made = [np.flatnonzero(np.isin(main, bucket.producers)) for bucket in self.buckets]
        child, parent = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for number in range(self.token.size):
            bucket, mine = int(self.bucket[number]), main.size + number
            if number and (self.buckets[bucket].chained or self.piece[number]):
                child.append(np.array([mine]))
                parent.append(np.array([mine - 1]))
            if not self.piece[number]:
                low, high = np.searchsorted(made[bucket], [self.since[number], self.after[number] + 1])
                child.append(np.full(max(0, high - low), mine))
                parent.append(made[bucket][low:high])
        return np.concatenate(child), np.concatenate(parent)

    def last_pieces(self, token: int) -> I64:
        """Places in the line of the last piece of every event of a token."""
        mine = np.flatnonzero(self.token == token)
        return mine[np.append(np.diff(self.piece[mine]) <= 0, True)] if mine.size else mine


def _edges(main: I64, context: I64, motifs: list[list[Motif]]) -> tuple[list[I64], list[I64]]:
    """(child, parent) among main nodes."""
    at, nodes = _groups(main), _groups(context)
    child, parent = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for row, found in enumerate(motifs):
        for motif in found:
            known = at.get(motif.parent)
            if known is None:
                continue
            before = np.searchsorted(known, nodes[row])
            if not motif.back:
                begin = np.concatenate([[0], before[:-1]])
                child.append(np.repeat(nodes[row], before - begin))
                parent.append(known[begin[0]:before[-1]])
            for back in motif.back:
                good = before >= back
                child.append(nodes[row][good])
                parent.append(known[before[good] - back])
    return child, parent


def _after(place: I64, context: I64, motifs: list[list[Motif]], line: _Line,
           lined: I64) -> tuple[list[I64], list[I64]]:
    """What waits for buckets waits for every bucket so far, as places in the whole order."""
    nodes = _groups(context)
    child, parent = [], []
    for row, found in enumerate(motifs):
        for motif in found:
            mine = place[nodes[row]]
            for each in lined[line.last_pieces(motif.parent)].tolist():
                child.append(mine[mine > each])
                parent.append(np.full(int((mine > each).sum()), each))
    return child, parent


def _groups(keys: I64) -> dict[int, I64]:
    """Key -> where it is, ascending."""
    if not keys.size:
        return {}
    order = np.argsort(keys, kind="stable")
    kinds, begin = np.unique(keys[order], return_index=True)
    return dict(zip(kinds.tolist(), np.split(order, begin[1:]), strict=True))
