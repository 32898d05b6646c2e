"""A space taken apart: axes that share a constraint form a component; contradictions are named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
from msgspec import Struct

from astrarium.engine.connected import connected
from astrarium.errors import InputError
from astrarium.search.axes import Axis
from astrarium.search.diagram import Diagram, Level, compile_diagram, free_diagram, reordered
from astrarium.search.expression import CONDITIONS, FALSE, TRUE, Const, Node, Ref, names_in
from astrarium.search.scope import Scope, plain, used

__all__ = ["Component", "ContradictionError", "Rule", "components_of", "levels_of"]


class ContradictionError(InputError):
    """Constraints that no design meets together."""


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
    """The diagram level of every axis that is no continuum."""
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
    """The components, by their first axis. Raises ContradictionError where no design meets every constraint."""
    place = {axis.name: index for index, axis in enumerate(axes)}
    found = []
    for order, own, diagram in _diagrams(place, rules, levels):
        if not diagram.count:
            raise _contradiction(order, own, levels)
        found.append(Component(tuple(place[name] for name in order), diagram))
    return tuple(found)


def feasible(axes: Sequence[Axis], rules: Sequence[Rule], levels: Mapping[str, Level]) -> bool:
    """Whether some design meets every constraint. Raises InputError where that is too much to find out."""
    place = {axis.name: index for index, axis in enumerate(axes)}
    return all(diagram.count for _, _, diagram in _diagrams(place, rules, levels))


def _diagrams(place: Mapping[str, int], rules: Sequence[Rule],
              levels: Mapping[str, Level]) -> Iterator[tuple[Sequence[str], Sequence[Rule], Diagram]]:
    """(axes in the order of the levels, rules on them, diagram) of every component; a diagram may have no path."""
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
    """Names that are linked, directly or through others."""
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
    """Names a smallest set of the constraints that no design meets: each one is needed for the contradiction."""
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
