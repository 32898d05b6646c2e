"""Figures of designs and runs: `run` prints them with its times, and searches may minimise or require them."""

from __future__ import annotations

from astrarium.cost.capital import bill
from astrarium.cost.figure import Figure
from astrarium.cost.known import FIGURES, figures, sentence
from astrarium.network.cost import network_bandwidth, network_cost

__all__ = ["FIGURES", "Figure", "bill", "figures", "network_bandwidth", "network_cost", "sentence"]
