"""The nodes of a step by what their numbers depend on, each with a formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64, I64
from astrarium.errors import InputError
from astrarium.serving.steps.features import decode_features, line, prompt_features, token_features, windows_of
from astrarium.serving.steps.formulas import CHECKS, Formula, formula_of, is_close, numbers_of
from astrarium.serving.steps.grids import Row
from astrarium.serving.steps.nodes import InseparableError, Node, sized_nodes
from astrarium.serving.steps.points import Point, Sort, points_of
from astrarium.workload.graph import Forms
from astrarium.workload.graph.layout import Size
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.replica import Replica

__all__ = ["Formulas", "Lowered", "Split", "split_of"]

WINDOW, SURE = 10, 15    # points for the features of a window, of which some see less, and for others
PAIRS = 6       # steps of as many tokens that tell whether a size depends on these alone
SMOOTH = 8     # points between a number of tokens and twice as many
GROUPS = ("tokens", "heads", "decode", "prompts")


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
    """The nodes of steps of one sort by what their numbers depend on: tokens, tokens that are sampled, the decoding
    sequences, the prompts. `curved`: the features of tokens."""

    sort: Sort
    curved: Curved
    tokens: Formulas
    heads: Formulas
    decode: Formulas
    prompts: Formulas

    def of(self, drawn: Lowered) -> Split | None:
        """The split of another sort of steps, if all its nodes are here; its nodes may be fewer."""
        sort = drawn.sort
        if sort.new not in (0, self.sort.new) or (sort.padded and not sort.new) or sort.prompts > self.sort.prompts:
            return None
        groups = {**dict(zip(GROUPS, self.groups, strict=True)), "others": self.prompts}
        features = drawn.features(self.curved.names)
        left = [(name, node, formula, formula(features[name])) for name in features
                for node, formula in groups[name].nodes]
        times = [0] * len(left)
        for node, numbers in drawn.nodes:
            found = next((place for place, (_, other, _, given) in enumerate(left) if _kind(other) == _kind(node)
                          and times[place] + node.times <= other.times and is_close(given, numbers)), None)
            if found is None:
                return None
            times[found] += node.times
        if times == [node.times for _, node, _, _ in left]:
            return self
        return Split(sort, self.curved, *(Formulas(tuple(
            (node._replace(times=count), formula) for (name, node, formula, _), count in zip(left, times, strict=True)
            if count and name == group), groups[group].points) for group in GROUPS))

    @property
    def groups(self) -> tuple[Formulas, ...]:
        """In the order of GROUPS."""
        return self.tokens, self.heads, self.decode, self.prompts


class Lowered(Struct, frozen=True, eq=False):
    """Steps of one sort: their nodes, each with its numbers [points, numbers]; sizes of dims of each step."""

    replica: Replica
    sort: Sort
    points: Sequence[Point]
    nodes: Sequence[tuple[Node, F64]]
    sizes: Sequence[Mapping[str, Size]]

    @staticmethod
    def of(replica: Replica, sort: Sort, count: int, forms: Forms) -> Lowered:
        """`count` drawn steps. Raises InseparableError where they do not run the same nodes."""
        points = points_of(sort, replica, count)
        try:
            made = [sized_nodes(replica, point.packed, forms) for point in points]
        except InputError as why:
            raise InseparableError(f"not every step is possible: {why.message}") from why
        steps = [nodes for nodes, _ in made]
        names = [[node.step.name for node in nodes] for nodes in steps]
        if any(each != names[0] for each in names):
            raise InseparableError("steps of one kind run other kernels")
        nodes = [(node, np.array([numbers_of(each[number].step) for each in steps]))
                 for number, node in enumerate(steps[0])]
        return Lowered(replica, sort, points, nodes, [sizes for _, sizes in made])

    def features(self, names: Sequence[str]) -> dict[str, F64]:
        """Features by group [points, features]; `names` of sizes that curve with tokens."""
        tokens = np.array([point.tokens for point in self.points])
        curves = [np.array([float(sizes[name]) for sizes in self.sizes]) for name in names]
        return {"tokens": token_features(tokens, curves),
                **_features(self.sort, self.points, windows_of(self.replica))}


def split_of(replica: Replica, sort: Sort, forms: Forms) -> Split:
    """The nodes of steps of a sort. Raises InseparableError where a node depends on more than one of these."""
    windows = len(windows_of(replica))
    drawn = Lowered.of(replica, sort, WINDOW * (windows - 1) + SURE + CHECKS, forms)
    curved = _curved(drawn)
    features = drawn.features(curved.names)
    groups: dict[str, list[tuple[Node, Formula]]] = {name: [] for name in (*GROUPS, "others")}
    for node, numbers in drawn.nodes:
        for name, columns in features.items():
            found = formula_of(columns, numbers, 2 if name == "tokens" else None)
            if found is not None:
                _add(groups[name], node, found)
                break
        else:
            raise InseparableError(f"{node.step.name} depends on tokens and sequences together")
    return Split(sort, curved, *(Formulas(tuple(groups[name]), features.get(name, np.zeros((0, 0))))
                                 for name in GROUPS))


def _add(known: list[tuple[Node, Formula]], node: Node, formula: Formula) -> None:
    """One more node, or an equal one as often again."""
    for number, (other, same) in enumerate(known):
        if _kind(node) == _kind(other) and np.allclose(formula.weights, same.weights, 1e-9, 1e-9):
            known[number] = other._replace(times=other.times + node.times), same
            return
    known.append((node, formula))


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
        return token_features(tokens, [np.array([row(each) for each in tokens.tolist()]) for row in self._rows])


def _curved(drawn: Lowered) -> Curved:
    """The sizes that depend on nothing but tokens, and not along a line."""
    replica, names = drawn.replica, []
    tokens = np.array([point.tokens for point in drawn.points])
    alone = [replica.sizes(Packed((Sequences(1, each, 0),))) for each in tokens[:PAIRS].tolist()]
    for name in drawn.sizes[0]:
        values, same = (np.array([[float(each.get(name, 0))] for each in step]) for step in (drawn.sizes, alone))
        if (values[:PAIRS] == same).all() and formula_of(line(tokens), values) is None:
            names.append(name)
    return Curved(replica, tuple(names))
