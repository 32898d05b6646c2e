"""A model, lengths, limits of latency and devices in, the engines that serve the most requests out (design/0026)."""

from astrarium.planner.serving.launch import LAUNCHES, launch_text, read_launched
from astrarium.planner.serving.planning import plan_serving, plan_serving_from
from astrarium.planner.serving.shortlist import Line, ServingPlan
from astrarium.planner.serving.write import write_serving

__all__ = ["LAUNCHES", "Line", "ServingPlan", "launch_text", "plan_serving", "plan_serving_from", "read_launched",
           "write_serving"]
