"""Launch arguments of training frameworks: read as a job and a layout, written for a layout."""

from astrarium.planner.launch.given import Launch
from astrarium.planner.launch.read import Today, npus_of, read_launch, today_of
from astrarium.planner.launch.stacks import as_framework
from astrarium.planner.launch.write import launch_arguments

__all__ = ["Launch", "Today", "as_framework", "launch_arguments", "npus_of", "read_launch", "today_of"]
