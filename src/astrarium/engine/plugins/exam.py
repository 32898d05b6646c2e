"""What the exams share: the failure, and how it is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["ExamError", "demand", "demand_int", "refuses"]

T = TypeVar("T")


class ExamError(AssertionError):
    """A plug-in failed its exam; says what is broken."""


def demand(holds: bool, sentence: str) -> None:
    """ExamError with `sentence` unless `holds`."""
    if not holds:
        raise ExamError(sentence)


def demand_int(value: object, what: str, least: int = 0) -> int:
    """`value` when it is an int (no bool, no float) of at least `least`."""
    demand(isinstance(value, int) and not isinstance(value, bool), f"{what} gave {value!r}, not an int")
    assert isinstance(value, int)
    demand(value >= least, f"{what} gave {value}, less than {least}")
    return value


def refuses(call: Callable[[], object], sentence: str) -> None:
    """ExamError with `sentence` unless `call` raises some exception."""
    try:
        call()
    except Exception:  # any refusal will do
        return
    raise ExamError(sentence)
