"""The dialogue with an agent outside this process: messages as plain data, one line of JSON each.

`opening` describes the search once, `told` a trial, `read` decodes an answer, `points_of` finds the points that it
proposes, and `explained` answers a question. The sender chooses how lines travel (`agents.command`: standard input and
output of a program).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from astrarium.config import to_plain
from astrarium.cost import sentence
from astrarium.errors import InputError, nearest
from astrarium.search.agents.base import Told
from astrarium.search.axes import Axis, Point
from astrarium.search.choice import jsonable
from astrarium.search.explain import explain
from astrarium.search.expression import compiled
from astrarium.search.goal import FUNCTION, Goal
from astrarium.search.space import Space

__all__ = ["PROTOCOL", "Answer", "Dialogue", "InfeasibleError"]

PROTOCOL = 1
PS = 1e12       # in a second
SHOWN = 200     # characters of an answer in a message


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an agent answers to `ask`: designs (knob -> value), or `stop` if it has nothing left to propose. Or it asks
    why the makespans of two designs differ (`explain`), and is asked again. `note` is for readers of a log."""

    propose: list[dict[str, Any]] = []
    explain: list[dict[str, Any]] = []
    stop: bool = False
    note: str = ""


class InfeasibleError(InputError):
    """An answer that breaks a constraint; `nearest`: a feasible one."""

    nearest: Mapping[str, Any]


class Dialogue:
    """What an agent of a space and a goal is sent, and what its answers mean. `figures`: the names of those of a
    verdict (`Judge.figures`)."""

    def __init__(self, space: Space, goal: Goal, figures: Sequence[str]):
        self.space, self.goal, self._figures = space, goal, figures

    def opening(self, batch: int, seed: int) -> dict[str, Any]:
        """The first message: knobs with their values and units, what holds of them, what is wanted, the base."""
        space, goal = self.space, self.goal
        objectives = [{"name": each.name, "sense": "maximize" if each.maximize else "minimize",
                       "measure": each.measure if isinstance(each.measure, str) else FUNCTION}
                      for each in goal.objectives]
        base = None if space.base is None else jsonable(to_plain(space.base))
        return {"type": "space", "protocol": PROTOCOL, "knobs": [_knob(axis) for axis in space.axes],
                "derived": dict(space.derived), "constraints": [rule.text for rule in space.rules],
                "designs": space.count, "objectives": objectives, "requirements": list(goal.requirements),
                "figures": {name: sentence(name) for name in self._figures},
                "cases": [each.name for each in goal.cases], "base": base, "batch": batch, "seed": seed}

    def told(self, each: Told) -> dict[str, Any]:
        """A trial: its knobs and what follows from them, objectives (null: it has none) and figures, the margin by
        which it meets each requirement (below 0: it does not), and why it was refused."""
        verdict, values = each.verdict, each.verdict.values
        every, chosen = self.space.values(each.point), self._chosen_values(each.point)
        derived = {path: jsonable(every[path]) for path in self.space.scope.derived}
        return {"type": "trial", "trial": each.trial, "values": chosen, "derived": derived,
                "objectives": None if values is None else dict(zip([one.name for one in self.goal.objectives], values)),
                "feasible": verdict.feasible, "figures": dict(zip(self._figures, verdict.figures)),
                "slacks": dict(zip(self.goal.requirements, verdict.slacks)), "problem": verdict.problem}

    def refused(self, error: InputError) -> dict[str, Any]:
        """Why an answer was refused; `nearest`: the feasible design nearest to it, where it breaks a constraint."""
        nearest = error.nearest if isinstance(error, InfeasibleError) else None
        return {"type": "refused", "problem": str(error), "nearest": nearest}

    def read(self, line: bytes) -> Answer:
        """Decode an answer. Raises InputError for anything else."""
        try:
            return msgspec.json.decode(line, type=Answer)
        except (msgspec.DecodeError, RecursionError) as error:
            said = line[:SHOWN].decode(errors="replace")
            raise InputError("answer", f"{said!r} is no answer ({error})",
                             expected='{"propose": [{knob: value, ...}]} or {"stop": true}') from None

    def explained(self, answer: Answer) -> dict[str, Any]:
        """Split the difference of the makespans of the two designs of `Answer.explain` by knob, in seconds, and say
        where the time of the last rank goes. Raises InputError unless these are two designs that run."""
        if len(answer.explain) != 2:
            raise InputError("explain", f"has {len(answer.explain)} designs", expected="two")
        one, two = (self.space.design(self._point(f"explain[{number}]", values))
                    for number, values in enumerate(answer.explain))
        found = explain(one, two)
        changes = [{"knobs": [each.knob for each in change.knobs], "contribution": change.contribution / PS}
                   for change in found.changes]
        return {"type": "explanation", "before": found.before / PS, "after": found.after / PS, "exact": found.exact,
                "changes": changes, "times": [{name: ps / PS for name, ps in times.items()} for times in found.times]}

    def points_of(self, answer: Answer, count: int) -> list[Point]:
        """The points that an answer proposes; none: it stops. Raises InputError for anything else than 1 to `count`
        feasible designs."""
        if answer.stop:
            return []
        if not 1 <= len(answer.propose) <= count:
            raise InputError("propose", f"has {len(answer.propose)} designs", expected=f"1 to {count}, or stop: true")
        return [self._point(f"propose[{number}]", values) for number, values in enumerate(answer.propose)]

    def _point(self, where: str, values: Mapping[str, Any]) -> Point:
        axes = self.space.axes
        known = {axis.name for axis in axes}
        for name in values:
            if name not in known:
                raise InputError(f"{where}.{name[:60]}", "is not a knob of this space",
                                 expected="one of " + ", ".join(sorted(known)), did_you_mean=nearest(name, known))
        try:
            point = self.space.point_of(values)
            feasible = self.space.number(point) >= 0
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(where, f"{str(dict(values))[:SHOWN]} is no design ({error})") from None
        if not feasible:
            broken = InfeasibleError(where, f"breaks {self._broken(point)}", expected="a feasible design")
            broken.nearest = self._chosen_values(self.space.projector.project(point))
            raise broken
        for axis, value in zip(axes, point):
            if not axis.size and not axis.domain.low <= value <= axis.domain.high:
                raise InputError(f"{where}.{axis.name}", f"{value!r} is out of range",
                                 expected=f"{axis.domain.low!r} to {axis.domain.high!r}")
        return point

    def _chosen_values(self, point: Point) -> dict[str, Any]:
        """Knob -> value, as an answer has them."""
        derived = self.space.scope.derived
        return {name: jsonable(value) for name, value in self.space.values(point).items() if name not in derived}

    def _broken(self, point: Point) -> str:
        """The first constraint that a point does not meet."""
        slots = {axis.name: index for index, axis in enumerate(self.space.axes)}
        numbers = self.space.numbers(point)
        for rule in self.space.rules:
            if not compiled(rule.node, slots)(numbers):
                return f"the constraint {rule.text!r}"
        wrong = next(axis for axis, index in zip(self.space.axes, point)
                     if (index == -1) == self._chosen(axis, numbers))
        return f"the condition of {wrong.name} ({wrong.when})"

    def _chosen(self, axis: Axis, numbers: Sequence[Any]) -> bool:
        if axis.when is None:
            return True
        slots = {each.name: index for index, each in enumerate(self.space.axes)}
        return bool(compiled(self.space.scope.node(axis.when, axis.name), slots)(numbers))


def _knob(axis: Axis) -> dict[str, Any]:
    """A knob for the opening: `values` with their units, or the ends of a continuum; `when`: an answer names it only
    where this holds."""
    domain = axis.domain
    what: dict[str, Any] = {"name": axis.name}
    if axis.size:
        what |= {"values": jsonable(domain.values), "ordered": domain.ordered}
    else:
        low, high = (axis.fields[0].computed(end) if axis.fields else end for end in (domain.low, domain.high))
        what |= {"from": jsonable(low), "to": jsonable(high), "log": domain.log}
    return {**what, "base": jsonable(axis.otherwise), "help": axis.fields[0].knob.help if axis.fields else "",
            "when": axis.when}
