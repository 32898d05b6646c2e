"""A plug-in agent in a study: what it does wrong is an error that names it."""

from __future__ import annotations

from collections.abc import Sequence

from astrarium.errors import AstrariumError, PluginError
from astrarium.search.agents.base import Agent, Values
from astrarium.search.space import Point, Space

__all__ = ["PluginAgent"]


class PluginAgent:
    """`agent` with its answers checked. Raises PluginError for an exception (its cause) and for points that are not in
    the space or too many."""

    def __init__(self, who: str, agent: Agent, space: Space):
        self.who, self.agent, self.space = who, agent, space

    def ask(self, count: int) -> list[Point]:
        """The agent's points."""
        try:
            found = [tuple(point) for point in self.agent.ask(count)]
        except Exception as error:
            raise self._raised("ask", error) from error
        if len(found) > count:
            raise PluginError(self.who, f"ask({count}) gave {len(found)} points; expected at most {count}")
        for point in found:
            if len(point) != len(self.space.axes):
                raise PluginError(self.who, f"ask({count}) gave {point}; expected a value for each of "
                                  f"{len(self.space.axes)} knobs")
            if not self._known(point):
                raise PluginError(self.who, f"ask({count}) gave {point}, which is not in the space; expected points of "
                                  "space.sample or space.projector.project")
        return found

    def tell(self, points: Sequence[Point], values: Sequence[Values]) -> None:
        """Tells the agent."""
        try:
            self.agent.tell(points, values)
        except Exception as error:
            raise self._raised("tell", error) from error

    def _known(self, point: Point) -> bool:
        try:
            return self.space.number(point) >= 0
        except (TypeError, IndexError):
            return False

    def _raised(self, method: str, error: Exception) -> PluginError | AstrariumError:
        return error if isinstance(error, AstrariumError) else PluginError(
            self.who, f"{method} raised {type(error).__name__}: {error}")
