"""Design-space search: spaces, objectives, agents and studies."""

from __future__ import annotations

from astrarium.search.choice import Choice
from astrarium.search.goal import Case, Goal, Objective
from astrarium.search.run import search
from astrarium.search.space import Point, Space
from astrarium.search.spacefile import dump_space, load_space
from astrarium.search.store import Trial
from astrarium.search.study import Progress, Study

__all__ = ["Case", "Choice", "Goal", "Objective", "Point", "Progress", "Space", "Study", "Trial", "dump_space",
           "load_space", "search"]
