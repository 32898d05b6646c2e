"""Design-space search: spaces, objectives, agents and studies."""

from __future__ import annotations

from astrarium.search.choice import Choice
from astrarium.search.space import Point, Space
from astrarium.search.spacefile import dump_space, load_space

__all__ = ["Choice", "Point", "Space", "dump_space", "load_space"]
