"""A model and devices in, the fastest layouts that fit out; launch arguments of frameworks read and
written."""

from astrarium.planner.layout import Layout
from astrarium.planner.planning import plan
from astrarium.planner.shortlist import Line, Shortlist
from astrarium.planner.today import plan_from

__all__ = ["Layout", "Line", "Shortlist", "plan", "plan_from"]
