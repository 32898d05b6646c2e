"""Hours of NPUs that training takes: GPU-hours, as papers and bills count them.

    hours of 10^12 tokens = NPUs with a rank x 10^12 / (tokens of a step) x time of a step

Failures, restarts and evaluations are not in it, as in `cost.running`.
"""

from __future__ import annotations

from astrarium.cost.figure import Figure, plain_number, without
from astrarium.cost.tokens import TERA, seconds_of, tokens_of
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.lower.jobs import all_npus
from astrarium.market import Cost
from astrarium.result import Result

__all__ = ["NPU_HOURS", "NPU_HOURS_PER_TERA_TOKENS"]

HOUR = 3600.0


def _hours(design: Design, result: Result, tokens: float, figure: str) -> float:
    return len(all_npus(design)) * seconds_of(result) / HOUR * tokens / tokens_of(figure, design)


def _check_run(design: Design) -> None:
    tokens_of("npu_hours", design)
    if design.cost.tokens is None:
        raise InputError("npu_hours", "is not known without cost.tokens", expected="tokens of the training run")


def _priced(design: Design) -> bool:
    """Whether a design says what it costs."""
    return design.cost != Cost() or not without(design, "hourly_price") or not without(design, "price")


def _shown(value: float) -> str:
    return f"{plain_number(value)} h"


NPU_HOURS_PER_TERA_TOKENS = Figure(
    of_both=lambda design, result: _hours(design, result, TERA, "npu_hours_per_tera_tokens"), over_cases="mean",
    check=lambda design: tokens_of("npu_hours_per_tera_tokens", design), label="GPU-hours of 10^12 tokens",
    shown=_shown, of_time=1, printed=_priced)
NPU_HOURS = Figure(
    of_both=lambda design, result: _hours(design, result, design.cost.tokens or 0.0, "npu_hours"), check=_check_run,
    label="GPU-hours of the training run", shown=_shown, of_time=1)
