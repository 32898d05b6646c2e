"""Pipeline schedules: in which order a stage runs forward and backward of its micro-batches. One file each."""

from __future__ import annotations

from astrarium.workload.schedule.base import KIND, PipelineSchedule, load_schedule, schedules
from astrarium.workload.schedule.units import BACKWARD, FORWARD, WEIGHT, Units, units

__all__ = ["BACKWARD", "FORWARD", "KIND", "WEIGHT", "PipelineSchedule", "Units", "load_schedule", "schedules", "units"]
