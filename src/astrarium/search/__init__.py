"""Design-space search: spaces, objectives, agents and studies."""

from __future__ import annotations

from astrarium.search.axes import Point
from astrarium.search.choice import Choice
from astrarium.search.goal import Case, Goal, Objective
from astrarium.search.searchfile import dump_space, load_space
from astrarium.search.space import Space
from astrarium.search.study import Progress, Study, search
from astrarium.search.trial import Trial

__all__ = ["Case", "Choice", "Goal", "Objective", "Point", "Progress", "Space", "Study", "Trial", "dump_space",
           "load_space", "search"]
