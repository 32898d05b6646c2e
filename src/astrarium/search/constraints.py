"""Constraints of a space: solved component by component, so that every point asked for is feasible.

Axes that share a constraint form a component, whose feasible combinations a diagram holds; contradictions are named.
The base's workload brings constraints, too. A projector moves any wish to the nearest feasible point.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from msgspec import Struct

from astrarium.cache import Cache
from astrarium.design import Design
from astrarium.engine.connected import connected
from astrarium.errors import InputError
from astrarium.search.axes import Axis
from astrarium.search.choice import plain
from astrarium.search.diagram import Diagram, Level, compile_diagram, free_diagram, reordered
from astrarium.search.expression import CONDITIONS, FALSE, TRUE, Const, Node, Op, Ref, names_in
from astrarium.search.scope import Scope, used

__all__ = ["Component", "ContradictionError", "Projector", "Rule", "components_of", "levels_of", "model_rules"]

WHERE = "the workload's rules"
_NAME = re.compile(r"[a-z]\w*(?:\.\w+)+")
PINNED = 1e6
HELD = 1 << 14


class ContradictionError(InputError):
    """Constraints that contradict each other: no design meets all of them."""


class Rule(Struct, frozen=True):
    """One constraint: its text, its tree, and where it was written."""

    text: str
    node: Node
    where: str


class Component(Struct, frozen=True):
    """Some axes (`places`: their numbers, in the diagram's order) and their feasible combinations."""

    places: tuple[int, ...]
    diagram: Diagram


def levels_of(axes: Sequence[Axis], scope: Scope) -> dict[str, Level]:
    """The diagram level of every axis with a list of values."""
    found = {}
    for axis in axes:
        if axis.size:
            when = TRUE if axis.when is None else scope.node(axis.when, f"{axis.name}.when")
            values = tuple(Const(plain(value)) for value in axis.values)
            found[axis.name] = Level(axis.name, values, when, Const(plain(axis.otherwise)))
        elif axis.when is not None:
            raise InputError(f"{axis.name}.when", "belongs to a continuum, which is always chosen",
                             expected="a step, or values")
    return found


def components_of(axes: Sequence[Axis], rules: Sequence[Rule], levels: Mapping[str, Level]) -> tuple[Component, ...]:
    """The components in the order of their first axes. Raises ContradictionError if no design meets all rules, and
    InputError for a rule that is not a condition on axes with values, or that joins too many."""
    place = {axis.name: index for index, axis in enumerate(axes)}
    found = []
    for order, own, diagram in _diagrams(place, rules, levels):
        if not diagram.count:
            raise _contradiction(order, own, levels)
        found.append(Component(tuple(place[name] for name in order), diagram))
    return tuple(found)


def feasible(axes: Sequence[Axis], rules: Sequence[Rule], levels: Mapping[str, Level]) -> bool:
    """Whether some design meets every rule. Raises InputError if the rules join too many axes to tell."""
    place = {axis.name: index for index, axis in enumerate(axes)}
    return all(diagram.count for _, _, diagram in _diagrams(place, rules, levels))


def _diagrams(place: Mapping[str, int], rules: Sequence[Rule],
              levels: Mapping[str, Level]) -> Iterator[tuple[Sequence[str], Sequence[Rule], Diagram]]:
    """Yield (axes in the order of the levels, rules on them, diagram) of every component; a diagram may be empty."""
    for rule in rules:
        _settled_rule(rule, levels)
    group = _groups([names_in(rule.node) for rule in rules]
                    + [(name, *names_in(level.when)) for name, level in levels.items()])
    for names in sorted(group, key=lambda names: min(place[name] for name in names)):
        own = [rule for rule in rules if set(names_in(rule.node)) & set(names)]
        names.sort(key=place.__getitem__)
        if len(names) == 1 and not own and levels[names[0]].when == TRUE:
            yield names, own, free_diagram(names[0], len(levels[names[0]].values))
            continue
        needs = {name: names_in(levels[name].when) for name in names}
        order = reordered(tuple(dict.fromkeys([*used([rule.node for rule in own]), *names])), needs)
        yield order, own, _compiled(order, own, levels)


def _settled_rule(rule: Rule, levels: Mapping[str, Level]) -> None:
    if isinstance(rule.node, Const):
        if rule.node == FALSE:
            raise InputError(rule.where, f"{rule.text!r} never holds", expected="a constraint that some design meets")
        if rule.node != TRUE:
            raise InputError(rule.where, f"{rule.text!r} is {rule.node.value!r}, not true or false",
                             expected="a comparison")
    elif not _is_truth(rule.node, levels):
        raise InputError(rule.where, f"{rule.text!r} is not true or false", expected="a comparison")
    for name in names_in(rule.node):
        if name not in levels:
            raise InputError(rule.where, f"{rule.text!r} uses {name}, which is a continuum",
                             expected=f"a step or values for {name}, or a requirement instead of a constraint")


def _is_truth(node: Node, levels: Mapping[str, Level]) -> bool:
    """Whether a tree is a condition rather than a number."""
    if isinstance(node, Const):
        return isinstance(node.value, bool)
    if isinstance(node, Ref):
        return node.name not in levels or all(isinstance(each.value, bool) for each in levels[node.name].values)
    if node.name == "if":
        return all(_is_truth(arg, levels) for arg in node.args[1:])
    return node.name in CONDITIONS


def _groups(links: Sequence[Sequence[str]]) -> list[list[str]]:
    """Group names that are linked, directly or through others."""
    number = {name: place for place, name in enumerate(dict.fromkeys(chain.from_iterable(links)))}
    pairs = [(number[names[0]], number[name]) for names in links for name in names]
    leader = connected(len(number), *np.array(pairs, np.int64).reshape(-1, 2).T).tolist()
    return [[name for name, place in number.items() if leader[place] == each] for each in sorted(set(leader))]


def _compiled(order: Sequence[str], rules: Sequence[Rule], levels: Mapping[str, Level]) -> Diagram:
    where = rules[0].where if rules else order[0]
    try:
        return compile_diagram([levels[name] for name in order], [rule.node for rule in rules], where)
    except InputError as error:
        text = " and ".join(repr(rule.text) for rule in rules) or "a condition"
        raise InputError(where, f"{text} {error.message}" if error.path in ("", where) else str(error),
                         expected=error.expected) from None


def _contradiction(order: Sequence[str], rules: Sequence[Rule], levels: Mapping[str, Level]) -> ContradictionError:
    """The error for a smallest set of contradicting rules: each of them is needed for the contradiction."""
    kept = list(rules)
    for rule in rules:
        fewer = [each for each in kept if each is not rule]
        if not _compiled(order, fewer, levels).count:
            kept = fewer
    if len(kept) == 1:
        return ContradictionError(kept[0].where, f"no design meets {kept[0].text!r}",
                                  expected="a constraint that some of the values meet")
    texts = " and ".join(repr(rule.text) for rule in kept)
    return ContradictionError(kept[0].where, f"no design meets {texts} together",
                              expected="constraints that do not contradict")


def model_rules(base: Design | None, axes: Sequence[Axis], scope: Scope, own: Sequence[Rule],
                changed: Sequence[str] = ()) -> tuple[Rule, ...]:
    """The conditions of the base's workload that exclude designs which meet the space's `own` constraints.

    Not among them, and checked by the workload design by design: conditions on a continuum, on fields that the base
    does not have or that are chosen as a whole, on paths that cases have `changed`, and such as join too many knobs.
    """
    every: Sequence[Sequence[str]] = () if base is None else getattr(base.workload, "conditions", ())
    conditions = [texts for texts in every if not any(map(partial(_mentions, changed), texts))]
    levels = levels_of(axes, scope)
    found: list[Rule] = []
    for texts in conditions:
        rule = next((rule for text in texts if (rule := _rule(text, scope)) is not None), None)
        if rule is not None and not isinstance(rule.node, Const) and set(names_in(rule.node)) <= levels.keys() \
                and _cuts(rule, [*own, *found], axes, levels):
            found.append(rule)
    return tuple(found)


def _mentions(changed: Sequence[str], text: str) -> bool:
    """Whether a condition depends on one of these paths."""
    names = _NAME.findall(text.replace("network.npus", "network.dims"))
    return any(f"{name}.".startswith(f"{path}.") or f"{path}.".startswith(f"{name}.") or path.startswith(f"{name}[")
               for name in names for path in changed)


def _rule(text: str, scope: Scope) -> Rule | None:
    """The rule of a condition; None if it names fields that this space does not have."""
    try:
        return Rule(text, scope.node(text, WHERE), WHERE)
    except InputError:
        return None


def _cuts(rule: Rule, others: Sequence[Rule], axes: Sequence[Axis], levels: dict[str, Level]) -> bool:
    """Whether some design meets the other rules but not this one; False if they join too many axes to tell."""
    names, linked = _linked(rule, others, levels)
    part = [axis for axis in axes if axis.name in names]
    known = {name: levels[name] for name in names}
    broken = Rule(rule.text, Op("not", (rule.node,)), WHERE)
    try:
        if not feasible(part, [*linked, broken], known):
            return False
    except InputError:      # it joins too much
        return False
    try:
        components_of(part, [*linked, rule], known)
    except ContradictionError:       # the space names it
        return True
    except InputError:
        return False
    return True


def _linked(rule: Rule, others: Sequence[Rule], levels: dict[str, Level]) -> tuple[set[str], list[Rule]]:
    """The knobs that a rule joins, directly or through other rules, and these rules."""
    def of(node: Node, more: Sequence[str] = ()) -> set[str]:
        return {*names_in(node), *more} & levels.keys()
    sets = [of(each.node) for each in others] + [of(level.when, [name]) for name, level in levels.items()]
    names, before = of(rule.node), 0
    while len(names) != before:
        before = len(names)
        for each in sets:
            if each & names:
                names |= each
    return names, [each for each in others if of(each.node) & names]


class Projector:
    """Finds the feasible point nearest to a wish: one number per axis, the index of a value (a fraction lies between
    two values), or the value of a continuum.

    The nearest point has the smallest sum of distances over axes: |wish - index| / (size - 1) where the values are
    ordered, else 0 or 1; ties go to the smaller index, axis by axis.
    """

    def __init__(self, axes: Sequence[Axis], components: Sequence[Component]):
        self.axes, self.components = tuple(axes), tuple(components)
        self.part_of: dict[int, Component] = {place: part for part in components for place in part.places}
        free = [part.places[0] for part in self.components
                if len(part.places) == 1 and part.diagram.count == self.axes[part.places[0]].size]
        self._free = tuple((place, self.axes[place].size - 1) for place in free)
        self._bound = tuple(part for part in self.components if part.places[0] not in free)
        self._continua = tuple((place, axis.domain) for place, axis in enumerate(self.axes) if not axis.size)
        self._nearest_of: Cache[tuple[int, ...]] = Cache(HELD)

    def project(self, wish: Sequence[float], pinned: int = -1) -> tuple[Any, ...]:
        """The nearest feasible point. `pinned`: an axis that keeps its wish if any feasible point has it."""
        found: list[Any] = [None] * len(self.axes)
        for place, last in self._free:
            found[place] = min(last, max(0, round(wish[place])))
        for part in self._bound:
            for place, value in zip(part.places, self._nearest(part, wish, pinned)):
                found[place] = value
        for place, domain in self._continua:
            found[place] = min(domain.high, max(domain.low, float(wish[place])))
        return tuple(found)

    def _nearest(self, part: Component, wish: Sequence[float], pinned: int) -> tuple[int, ...]:
        diagram = part.diagram
        wishes = [wish[place] for place in part.places]
        whole = [int(each) for each in wishes]
        if whole == wishes and diagram.number(whole) >= 0:
            return tuple(whole)
        key = (part.places[0], pinned if pinned in part.places else -1, *wishes)
        return self._nearest_of.get(key, lambda: diagram.nearest(
            [self._costs(place, wish[place], place == pinned) for place in part.places]))

    def _costs(self, place: int, wish: float, pinned: bool) -> list[float]:
        axis = self.axes[place]
        if axis.ordered:
            span = max(1, axis.size - 1)
            costs = [abs(index - wish) / span for index in range(axis.size)]
        else:
            costs = [0.0 if index == round(wish) else 1.0 for index in range(axis.size)]
        if pinned:
            costs = [cost and cost + PINNED for cost in costs]
        return [*costs, 0.0 if wish == -1 else 1.0]

    def moved(self, point: Sequence[Any], place: int, rng: random.Random, reach: float = 1.0) -> tuple[Any, ...]:
        """A random neighbour of a point. Axis `place` takes another value (of an ordered axis within `reach`, a share
        of its range); the other axes move as little as the constraints allow. The point itself if it has no
        neighbour."""
        axis, wish = self.axes[place], list(point)
        if not axis.size:
            width = reach * (axis.domain.high - axis.domain.low)
            wish[place] = point[place] + rng.uniform(-width, width)
            return self.project(wish)
        wish[place] = self._another(axis, point[place], rng, reach)
        return self.project(wish, pinned=place)

    @staticmethod
    def _another(axis: Axis, now: int, rng: random.Random, reach: float) -> int:
        if axis.size == 1:
            return 0
        if axis.ordered and reach < 1 and now >= 0:
            width = max(1, round(reach * (axis.size - 1)))
            low, high = max(0, now - width), min(axis.size - 1, now + width)
        else:
            low, high = 0, axis.size - 1
        value = rng.randint(low, high - (low <= now <= high))
        return value + (low <= now <= value)
