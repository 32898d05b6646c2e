"""Pipeline schedules: in which order a stage runs forward and backward of its micro-batches. One file each."""

from __future__ import annotations

from astrarium.workload.schedule.table import SCHEDULES, Line
from astrarium.workload.schedule.units import BACKWARD, FORWARD, WEIGHT, Units

__all__ = ["BACKWARD", "FORWARD", "SCHEDULES", "WEIGHT", "Line", "Units"]
