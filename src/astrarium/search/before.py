"""What is known of a design before its run: lower bounds of figures, the requirements that they rule out, and the time
from which on a run cannot be worth it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from astrarium.cost import Figure
from astrarium.design import Design
from astrarium.lower.kept import Kept
from astrarium.search.expression import Const, Interval, Node, Op, bounds, names_in, put_all

__all__ = ["Unmet", "longest", "lower_bounds", "most_slack", "range_of", "ruled_out", "said", "slack_of"]

MAKESPAN = "makespan"
EVER = 1e21         # ns, beyond all makespans
SLACK = {"<=": (1, 0), "<": (1, 0), ">=": (0, 1), ">": (0, 1)}


class Unmet(Struct, frozen=True):
    """A requirement (its number) that no run of a design can meet. `slack`: the margin is at most this (below 0);
    `because`: the figures that decide it, and their lower bounds."""

    number: int
    slack: float
    because: str


def slack_of(node: Node) -> Node | None:
    """The margin of a comparison (negative: it is not met); None for another condition."""
    if not isinstance(node, Op) or node.name not in SLACK:
        return None
    more, less = SLACK[node.name]
    return Op("+", (node.args[more], Op("*", (Const(-1), node.args[less]))))


def lower_bounds(figures: Mapping[str, Figure], designs: Sequence[tuple[float, Design]], kept: Kept
                 ) -> dict[str, Interval]:
    """The range of each of `figures` (by name) that has a lower bound before a run. `designs`: weight and design of
    each case."""
    found: dict[str, Interval] = {}
    for name, figure in figures.items():
        if figure.at_least is None:
            continue
        least = [(weight, figure.at_least(design, kept)) for weight, design in designs]
        total = max(value for _, value in least) if figure.over_cases == "largest" else sum(
            weight * value for weight, value in least) / (
                sum(weight for weight, _ in least) if figure.over_cases == "mean" else 1.0)
        found[name] = max(figure.least, total), math.inf
    return found


def ruled_out(slacks: Sequence[Node | None], known: Mapping[str, float], ranges: Mapping[str, Interval],
              figures: Mapping[str, Figure]) -> Unmet | None:
    """The first requirement that a design cannot meet. `slacks`: as `slack_of` says; `known`: values of axes and of
    figures of the design; `ranges`: those of other `figures`."""
    for number, node in enumerate(slacks):
        names = () if node is None else [name for name in names_in(node) if name in ranges]
        if node is None or not names:
            continue
        most = most_slack(node, known, ranges)
        if most < 0:
            return Unmet(number, most, said({name: ranges[name] for name in names}, figures))
    return None


def said(ranges: Mapping[str, Interval], figures: Mapping[str, Figure]) -> str:
    """The lower bounds of figures as text."""
    return ", ".join(f"{name} is at least {figures[name].shown(least)}" for name, (least, _) in ranges.items())


def most_slack(node: Node, known: Mapping[str, float], ranges: Mapping[str, Interval]) -> float:
    """The largest value of a tree: its names are `known`, or within `ranges`."""
    return float(range_of(node, known, ranges)[1])


def range_of(node: Node, known: Mapping[str, float], ranges: Mapping[str, Interval]) -> Interval:
    """The range of a tree: its names are `known`, or within `ranges`."""
    return bounds(put_all(node, {name: Const(known[name]) for name in names_in(node) if name in known}), ranges)


def longest(node: Node, known: Mapping[str, float], ranges: Mapping[str, Interval],
            beyond: Callable[[Interval], bool]) -> float:
    """A makespan, in ns: the range of a tree with any larger one is `beyond`. Infinity if there is none. `known`,
    `ranges`: as in `ruled_out`."""
    tree = put_all(node, {name: Const(known[name]) for name in names_in(node) if name in known})

    def over(time: float) -> bool:
        return beyond(bounds(tree, {**ranges, MAKESPAN: (time, math.inf)}))

    if not over(EVER):
        return math.inf
    low, high = 1e-3, EVER
    while high > low * (1 + 1e-9):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if over(middle) else (middle, high)
    return high
