"""Rules of the base's workload as constraints of a space, so that no agent proposes what the workload would refuse."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.search.axes import Axis
from astrarium.search.components import ContradictionError, Rule, components_of, feasible, levels_of
from astrarium.search.diagram import Level
from astrarium.search.expression import Const, Node, Op, names_in
from astrarium.search.scope import Scope

__all__ = ["model_rules"]

WHERE = "the workload's rules"
_NAME = re.compile(r"[a-z]\w*(?:\.\w+)+")


def model_rules(base: Design | None, axes: Sequence[Axis], scope: Scope, own: Sequence[Rule],
                changed: Sequence[str] = ()) -> tuple[Rule, ...]:
    """Those conditions of the base's workload that cut designs which the space's `own` constraints leave.

    Left to the workload itself, design by design: conditions on a continuum, on fields that the base does not have or
    that are chosen as a whole, on paths that cases have `changed`, and such as join too many knobs.
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
    """A condition, where it means something for this space."""
    try:
        return Rule(text, scope.node(text, WHERE), WHERE)
    except InputError:
        return None


def _cuts(rule: Rule, others: Sequence[Rule], axes: Sequence[Axis], levels: dict[str, Level]) -> bool:
    """Whether some design meets the others and not this one; no where that is too much to find out."""
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
    """Knobs that a rule joins, directly or through others, and these others."""
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
