"""Figures of designs and runs: `run` prints them with its times, and searches may minimise or require them."""

from __future__ import annotations

from astrarium.cost.figure import Figure
from astrarium.cost.known import FIGURES, figures, sentence

__all__ = ["FIGURES", "Figure", "figures", "sentence"]
