"""A trace on real hardware: its communication on torch.distributed, its compute as products or sleeps, measured."""

from __future__ import annotations

from astrarium.profile.execute.group import Group, joined_group
from astrarium.profile.execute.loop import Measured, Settings
from astrarium.profile.execute.program import Program, program
from astrarium.profile.execute.rank import measured_trace, replay_rank, write_durations

__all__ = ["Group", "Measured", "Program", "Settings", "joined_group", "measured_trace", "program", "replay_rank",
           "write_durations"]
