"""The only door of this room to the pure-Python engine, `astrarium.oracle`.

That room builds on this one (plans, outcomes, plug-ins), so it is loaded by name, and only by a run that needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from astrarium.engine.outcome import Outcome
    from astrarium.engine.plan import Plan
    from astrarium.engine.plugins.feeder import Feeder
    from astrarium.engine.plugins.given import Team

__all__ = ["Oracle", "oracle"]


class Oracle(Protocol):
    """An engine that simulates every rank and every message."""

    def execute(self, plan: Plan, *, record: bool = False, team: Team | None = None) -> Outcome:
        """Run `plan` to its end."""

    def feed(self, plan: Plan, feeder: Feeder, team: Team) -> dict[str, Any]:
        """Run what a workload plug-in hands out on a Plan of empty programs."""


def oracle() -> Oracle:
    """The pure-Python engine."""
    return cast(Oracle, import_module("astrarium.oracle"))
