"""Recording PyTorch steps: both profilers at once, process groups, one folder for all ranks."""

from __future__ import annotations

from astrarium.profile.collector.session import Recording, collect

__all__ = ["Recording", "collect"]
