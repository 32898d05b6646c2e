"""A trace on real hardware: its communication on torch.distributed, its compute as products or sleeps, measured."""

from __future__ import annotations

from astrarium.trace.execute.feedback import measured_trace
from astrarium.trace.execute.loop import Measured, Settings
from astrarium.trace.execute.program import Program, program
from astrarium.trace.execute.rank import replay_rank

__all__ = ["Measured", "Program", "Settings", "measured_trace", "program", "replay_rank"]
