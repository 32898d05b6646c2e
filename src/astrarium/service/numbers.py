"""Figures with their exact values, units, and text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from astrarium.report.tables.summary import makespan_words
from astrarium.service.answer import Number
from astrarium.units import format_bytes, format_time

if TYPE_CHECKING:
    from astrarium.result import Result

__all__ = ["UNITS", "of_figures", "of_result", "size", "time_ns", "time_ps"]

UNITS: Mapping[str, str] = MappingProxyType({
    "makespan": "ns", "exposed_comm": "ns", "compute_time": "ns", "peak_memory": "byte", "tier_use": "1", "ttft": "ns",
    "tpot": "ns", "network_cost": "USD", "network_bandwidth": "byte/ns", "energy": "J", "system_cost": "USD",
    "operation_energy": "J", "capital_cost": "USD", "embodied_carbon": "kg", "power_peak": "W", "power_mean": "W",
    "site_energy": "J", "energy_cost": "USD", "cost_per_hour": "USD/h", "training_cost": "USD",
    "owned_cost_per_tera_tokens": "USD", "energy_per_tera_tokens": "kWh", "carbon": "kg",
    "carbon_per_tera_tokens": "kg", "mfu": "1", "hfu": "1", "model_tflops_per_npu": "TFLOP/s",
    "tokens_per_second": "1/s", "tokens_per_second_per_npu": "1/s", "samples_per_second": "1/s",
    "cost_per_tera_tokens": "USD", "npu_hours": "h", "npu_hours_per_tera_tokens": "h", "slowdown": "1",
    **{f"{what}_per_mega_{tokens}": unit for tokens in ("tokens", "input_tokens")
       for what, unit in (("cost", "USD"), ("energy", "J"), ("carbon", "kg"))}})
"""Figure -> the unit of its value."""


def time_ps(name: str, label: str, ps: int) -> Number:
    """A time of a run, exact."""
    return Number(name, label, int(ps), "ps", format_time(ps / 1000))


def time_ns(name: str, label: str, ns: float | None) -> Number:
    """A time that a model gives as a fraction of ns."""
    return Number(name, label, ns, "ns", "" if ns is None else format_time(ns))


def size(name: str, label: str, count: float | None) -> Number:
    """A number of bytes."""
    return Number(name, label, count, "byte", "unknown" if count is None else format_bytes(count))


def of_result(result: Result) -> Iterator[Number]:
    """The times of the rank that finishes last, and its memory."""
    row = int(result.outcome.row[result.last_rank])
    yield Number("makespan", "makespan", result.at_least_ps, "ps", makespan_words(result))
    for name, label in (("compute", "compute"), ("exposed_comm", "exposed communication"), ("bubble", "idle")):
        yield time_ps(name, label, int(getattr(result.ranks, name)[row]))
    peak = result.peak_memory
    yield size("peak_memory", "peak memory", None if peak is None else float(peak))


def of_figures(found: Mapping[str, float]) -> Iterator[Number]:
    """Figures that a run or a plan names."""
    from astrarium.cost import FIGURES

    for name, value in found.items():
        figure = FIGURES[name]
        exact = None if math.isnan(value) else value
        yield Number(name, figure.label or name, exact, UNITS.get(name, ""), figure.shown(value))
