"""A recorded trace's operators run with PyTorch: which can be, in what order, on what tensors, how long they take."""

from __future__ import annotations

from astrarium.profile.execute.real.plan import Plan, device_for, plan_of
from astrarium.profile.execute.real.rank import Times, new_durations, replay_operators
from astrarium.profile.execute.real.report import Findings, findings, most_bytes, refuse_faults

__all__ = ["Findings", "Plan", "Times", "device_for", "findings", "most_bytes", "new_durations", "plan_of",
           "refuse_faults", "replay_operators"]
