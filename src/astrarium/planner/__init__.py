"""A model and devices in, the fastest layouts that fit out."""

from astrarium.planner.layout import Layout
from astrarium.planner.planning import plan
from astrarium.planner.shortlist import Line, Shortlist

__all__ = ["Layout", "Line", "Shortlist", "plan"]
