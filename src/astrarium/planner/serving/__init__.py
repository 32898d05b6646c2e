"""A model, lengths, limits of latency and devices in, the engines that serve the most requests out (design/0026)."""

from astrarium.planner.serving.planning import plan_serving
from astrarium.planner.serving.shortlist import Line, ServingPlan
from astrarium.planner.serving.write import write_serving

__all__ = ["Line", "ServingPlan", "plan_serving", "write_serving"]
