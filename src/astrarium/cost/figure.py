"""A figure: one number of a design, of its run, or of both. One file defines it, one line of the registry names it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct

from astrarium.design import Design
from astrarium.engine import Record
from astrarium.errors import InputError
from astrarium.lower.kept import Kept

__all__ = ["Figure", "plain_number", "refuse_without", "without"]


class Figure(Struct, frozen=True):
    """One figure, in ns, bytes, byte/ns or what its sentence says.

    `of_result`, `of_both` or `of_design` computes it of what a run gives (a Result; of serving designs a Served), of
    this and the design, or of the design (`record`: node times must be kept, and unless "nodes"
    traffic, too). Over several cases of a search it is
    `added` with their weights, the `mean` by weight, or the `largest` counts. `least` is its smallest possible value.
    `of_time`: 1 for a figure that grows as the step time does, -1 for a rate that falls so; both have
    the interval of the step time. `at_least` gives a lower bound of the figure before a run, 0 where none is known: a
    search does not run a design that cannot meet a requirement. `check` raises InputError for a design that does not
    say what it needs. `run` prints figures that have a `label`, as `shown` writes them, of designs that pass the check
    and are to have it `printed` (None: all). `of_catalog`: `run` takes the catalog's prices of the device if the design
    has none; searches take none.
    """

    of_result: Callable[[Any], float] | None = None
    of_both: Callable[[Any, Any], float] | None = None
    of_design: Callable[[Design], float] | None = None
    record: Record = False
    over_cases: Literal["added", "mean", "largest"] = "added"
    least: float = 0.0
    check: Callable[[Design], object] | None = None
    at_least: Callable[[Design, Kept], float] | None = None
    label: str = ""
    shown: Callable[[float], str] = str
    of_time: int = 0
    of_catalog: bool = False
    printed: Callable[[Design], bool] | None = None

    def measure(self, design: Design, result: Any) -> float:
        """The figure of a run; NaN for one of designs alone."""
        if self.of_both is not None:
            return self.of_both(design, result)
        return math.nan if self.of_result is None else self.of_result(result)


def plain_number(value: float) -> str:
    """For a person, without an exponent where the number is large: 2,057,880, or 12.35."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"


def without(design: Design, name: str) -> Sequence[str]:
    """Paths of the fields `name` of `compute` sections that say nothing."""
    owners = [("compute", design.compute)]
    owners += [(f"npu_types[{place}].compute", kind.compute) for place, kind in enumerate(design.npu_types)
               if kind.compute is not None]
    return [f"{path}.{name}" for path, compute in owners if getattr(compute, name, None) is None]


def refuse_without(figure: str, missing: Sequence[str], example: str) -> None:
    """Raise InputError that names what is missing."""
    if missing:
        raise InputError(figure, "is not known without " + ", ".join(missing), expected=example)
