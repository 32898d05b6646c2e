"""The nodes of a step by what their numbers depend on, each with a formula."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.errors import InputError
from astrarium.serving.steps.features import decode_features, line, prompt_features, windows_of
from astrarium.serving.steps.formulas import CHECKS, F64, Formula, formula_of, numbers_of
from astrarium.serving.steps.grids import Row
from astrarium.serving.steps.nodes import InseparableError, Node, sized_nodes
from astrarium.workload.graph.layout import Size
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.replica import Replica

__all__ = ["Formulas", "Point", "Split", "split_of"]

I64 = npt.NDArray[np.int64]
WIDEST, SURE = 5, 6     # features of a window, and others
PAIRS = 6       # steps of as many tokens that tell whether a size depends on these alone
SMOOTH = 32     # points between a number of tokens and twice as many
SEED = 1
GROUPS = ("tokens", "heads", "decode", "prompts")


class Class(Struct, frozen=True):
    """Equal prompts, or parts of prompts: `count` of `size` tokens with `past` tokens in their caches, which sample."""

    count: int
    size: int
    past: int


NONE = Class(0, 1, 0)


class Point(Struct, frozen=True):
    """A step of one pass: `count` sequences with `new` tokens each and `context` in their caches in all, `padding`, and
    up to two classes of prompts."""

    count: int
    context: int
    padding: int = 0
    prompts: Class = NONE
    others: Class = NONE
    new: int = 1

    @property
    def tokens(self) -> int:
        """Tokens that go through the layers."""
        prompts = sum(each.count * each.size for each in (self.prompts, self.others))
        return self.count * self.new + self.padding + prompts

    @property
    def heads(self) -> int:
        """Tokens that are sampled."""
        return self.count * self.new + self.prompts.count + self.others.count

    @property
    def packed(self) -> Packed:
        """As a step of the graph."""
        return Packed((*decoding(self.count, self.context, self.padding, self.new), *(
            Sequences(each.count, each.size, each.past) for each in (self.prompts, self.others) if each.count)))


def decoding(count: int, context: int, padding: int, new: int) -> list[Sequences]:
    """Decoding sequences, as equal as can be, and padding."""
    mean, rest = divmod(context, count) if count else (0, 0)
    parts = (Sequences(count - rest, new, mean, new) if count else None,
             Sequences(rest, new, mean + 1, new) if rest else None,
             Sequences(padding, 1, 0, 0) if padding else None)
    return [part for part in parts if part is not None]


class Formulas(Struct, frozen=True, eq=False):
    """Nodes, each with a function from features [points, features] to its numbers [points, numbers]; `points`: where
    they were found."""

    nodes: Sequence[tuple[Node, Formula]]
    points: F64

    def agrees(self, other: Formulas) -> bool:
        """Whether nodes of another sort of steps do the same."""
        kinds, others = ([(node.times, _kind(node)) for node, _ in each.nodes] for each in (self, other))
        if kinds != others or self.points.shape[1] != other.points.shape[1]:
            return False
        return all(bool(np.allclose(one(each.points), two(each.points), 1e-6, 1e-6)) for each in (self, other)
                   for (_, one), (_, two) in zip(self.nodes, other.nodes, strict=True))


def _kind(node: Node) -> tuple[object, ...]:
    """What of a node is not a number."""
    step, kernel = node.step, node.step.kernel
    return step.kind, step.op, step.axes, kernel and (kernel.kind, kernel.precision, kernel.launches,
                                                                  kernel.held)


class Split(Struct, frozen=True, eq=False):
    """The nodes of steps of one kind by what their numbers depend on: tokens, tokens that are sampled, the decoding
    sequences, the prompts. `curved`: the features of tokens."""

    curved: Curved
    tokens: Formulas
    heads: Formulas
    decode: Formulas
    prompts: Formulas


class Sort(NamedTuple):
    """Which steps run the same kernels: those with decoding sequences (`new` tokens each, 0: none that has a cache),
    with padding, with prompts that have a past (`cached`) or none (`fresh`), with prompts of `several` classes."""

    new: int
    padded: bool = False
    fresh: bool = False
    cached: bool = False
    several: bool = False

    @property
    def prompts(self) -> bool:
        """Whether there are prompts."""
        return self.fresh or self.cached


def split_of(replica: Replica, sort: Sort) -> Split:
    """The nodes of steps of a sort. Raises InseparableError where a node depends on more than one of these."""
    windows = windows_of(replica)
    points = _points(sort, WIDEST * len(windows) + SURE + CHECKS)
    try:
        made = [sized_nodes(replica, point.packed) for point in points]
    except InputError as why:
        raise InseparableError(f"not every step is possible: {why.message}") from why
    steps = [nodes for nodes, _ in made]
    names = [[node.step.name for node in nodes] for nodes in steps]
    if any(each != names[0] for each in names):
        raise InseparableError("steps of one kind run other kernels")
    curved, alone = _curved(replica, points, [sizes for _, sizes in made])
    features = {"tokens": alone, **_features(sort, points, windows)}
    groups: dict[str, list[tuple[Node, Formula]]] = {name: [] for name in (*GROUPS, "others")}
    for number, node in enumerate(steps[0]):
        numbers = np.array([numbers_of(nodes[number].step) for nodes in steps])
        for name, columns in features.items():
            found = formula_of(columns, numbers, 2 if name == "tokens" else None)
            if found is not None:
                _add(groups[name], node, found)
                break
        else:
            raise InseparableError(f"{node.step.name} depends on tokens and sequences together")
    return Split(curved, *(Formulas(tuple(groups[name]), features.get(name, np.zeros((0, 0)))) for name in GROUPS))


def _add(known: list[tuple[Node, Formula]], node: Node, formula: Formula) -> None:
    """One more node, or an equal one as often again."""
    for number, (other, same) in enumerate(known):
        if _kind(node) == _kind(other) and np.allclose(formula.weights, same.weights, 1e-9, 1e-9):
            known[number] = other._replace(times=other.times + node.times), same
            return
    known.append((node, formula))


def _points(sort: Sort, count: int) -> list[Point]:
    """Steps that differ in everything."""
    draw, found = random.Random(SEED), []

    def up_to(most: int, least: int = 1) -> int:
        return int(least * (most / least) ** draw.random())

    def prompts(there: bool) -> Class:
        return Class(draw.randint(1, 3), up_to(1000, 2), up_to(9000) if sort.cached else 0) if there else NONE

    for _ in range(count):
        many = up_to(256) if sort.new else 0
        padding = up_to(8 if many else 256) if sort.padded else 0
        found.append(Point(many, many * up_to(9000) + draw.randrange(many or 1), padding, prompts(sort.prompts),
                           prompts(sort.several), sort.new))
    return found


def _features(sort: Sort, points: Sequence[Point], windows: Sequence[int | None]) -> dict[str, F64]:
    """Features by group [points, features]."""
    def of(name: str) -> I64:
        return np.array([getattr(point, name) for point in points])

    found = {"heads": line(of("heads"))}
    if sort.new:
        found["decode"] = decode_features(of("count"), of("context"), of("padding"), sort.new, windows)
    elif sort.padded:
        found["decode"] = decode_features(of("padding"), of("context"), of("count"), 1, windows)
    for name in ("prompts", "others"):
        drawn = [getattr(point, name) for point in points]
        if drawn[0].count:
            count, size, past = np.array([(each.count, each.size, each.past) for each in drawn]).T
            found[name] = prompt_features(count, size, past, windows)
    return found


class Curved(Struct, frozen=True, dict=True):
    """Features of token counts: 1, the tokens, and sizes of `replica`'s dims that are another function of them
    (`names`), each alone and times the tokens."""

    replica: Replica
    names: tuple[str, ...] = ()

    @cached_property
    def _rows(self) -> list[Row]:
        known: dict[int, list[float]] = {}

        def sizes(tokens: int) -> list[float]:
            if tokens not in known:
                found = self.replica.sizes(Packed((Sequences(1, tokens, 0),)))
                known[tokens] = [float(found[name]) for name in self.names]
            return known[tokens]

        def row(place: int) -> Row:
            return Row(lambda at: np.array([sizes(max(1, each))[place] for each in at.tolist()]), SMOOTH, 0.0)

        return [row(place) for place in range(len(self.names))]

    def __call__(self, tokens: I64) -> F64:
        """[points, features]."""
        columns = [np.array([row(each) for each in tokens.tolist()]) for row in self._rows]
        return np.concatenate([line(tokens), *(np.stack([each, each * tokens], axis=1) for each in columns)], axis=1)


def _curved(replica: Replica, points: Sequence[Point], sizes: Sequence[Mapping[str, Size]]) -> tuple[Curved, F64]:
    """The sizes that depend on nothing but tokens, and not along a line; the features at the points."""
    tokens, names = np.array([point.tokens for point in points]), []
    alone = [replica.sizes(Packed((Sequences(1, point.tokens, 0),))) for point in points[:PAIRS]]
    columns = [line(tokens)]
    for name in sizes[0]:
        values, same = (np.array([[float(each.get(name, 0))] for each in step]) for step in (sizes, alone))
        if (values[:PAIRS] == same).all() and formula_of(line(tokens), values) is None:
            names.append(name)
            columns += [values, values * tokens[:, None]]
    return Curved(replica, tuple(names)), np.concatenate(columns, axis=1)
