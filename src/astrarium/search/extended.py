"""A study whose space grew: verdicts of the designs that it holds already, as those of the new space.

A value that is added to a knob, and a knob that is added with the base's value, change no design that was tried. The
verdict of such a design is the same if base, derived paths, goal and inputs are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from astrarium.errors import AstrariumError
from astrarium.search.inputs import differing, inputs_of, of_values
from astrarium.search.space import Space, space_plain
from astrarium.search.studyfile import Plan, StoredStudy, design_keys
from astrarium.search.trial import Verdict

__all__ = ["tried"]


def tried(stored: StoredStudy, plan: Plan) -> dict[bytes, Verdict]:
    """Key of a design (as `design_keys` gives it) -> its verdict, of the designs of a study that the plan's space has;
    none if their values need not be equal. A trial that a limit stopped is left out."""
    if not _comparable(stored, plan):
        return {}
    key, found = design_keys(plan), dict[bytes, Verdict]()
    for trial in stored.trials():
        if trial.same_as is None and not trial.verdict.stopped:
            values = stored.plan.space.values(trial.point)
            try:
                point = plan.space.point_of(_with_base(plan.space, values))
            except AstrariumError:      # a value that is gone
                continue
            found[key(point)] = trial.verdict
    return found


def _comparable(stored: StoredStudy, plan: Plan) -> bool:
    mine, theirs = plan.described(), stored.plan.described()
    goal = all(mine[name] == theirs[name] for name in ("objectives", "requirements", "cases"))
    one, other = space_plain(plan.space), space_plain(stored.plan.space)
    return goal and not stored.functions and stored.inputs is not None and all(
        one.get(part) == other.get(part) for part in ("base", "derived")) and \
        not differing(of_values(stored.inputs), of_values(inputs_of(plan.space, plan.goal)))


def _with_base(space: Space, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the space's own knobs; those of a knob that is new are the base's."""
    known = {axis.name: values.get(axis.name, axis.otherwise) for axis in space.axes}
    return {axis.name: known[axis.name] for axis in space.axes if axis.when is None or axis.name in values}
