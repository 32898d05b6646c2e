"""Figures of designs and runs: what `run` prints beside its times, and what searches may minimise or require."""

from __future__ import annotations

from astrarium.cost.figure import Figure
from astrarium.cost.known import FIGURES, figures, sentence

__all__ = ["FIGURES", "Figure", "figures", "sentence"]
