"""What one change of a job that runs today would bring, and the measured step that predictions are scaled to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from astrarium.errors import InputError, StallError
from astrarium.lower.kept import Kept
from astrarium.planner.explore import memory_of, workload_of
from astrarium.planner.launch import Today
from astrarium.planner.layout import Layout
from astrarium.planner.machine import Machine
from astrarium.planner.shortlist import SMALL, Change, Line, NoGain, reason
from astrarium.units import Time, format_bytes
from astrarium.workload.transformer import Transformer

__all__ = ["Measured", "measured_of", "neighbours", "single_changes"]

PLACED = ("virtual_stages", "schedule")      # parts that only pipelines have
OF_PART: Mapping[str, tuple[str, ...]] = {"recompute": ("recompute",), "pp": ("stage_layers",),
                                          "virtual_stages": ("stage_layers",)}
"""Part of a layout -> beginnings of the fields of a launch that are about its present value."""
RANKS = ("tp", "cp", "pp", "ep", "zero")     # parts with which the ranks of a shard change


class Measured(Struct, frozen=True):
    """What a step was measured to take: `step` ns, or `mfu` (0 to 1)."""

    step: float | None = None
    mfu: float | None = None

    def of(self, now: Line) -> float:
        """ns of the step; `now`: the line of the job, whose peak and FLOPs MFU is of."""
        if self.step is not None:
            return self.step
        assert self.mfu is not None
        return now.time * now.mfu / self.mfu


def measured_of(text: str) -> Measured:
    """A time (`21.3s`) or MFU (`38%`). Raises InputError for what is neither."""
    share = text.strip().endswith("%")
    try:
        found = float(text.strip()[:-1]) / 100 if share else float(Time(text))
    except (ValueError, InputError):
        found = 0.0
    if not 0 < found < (1 if share else math.inf):
        raise InputError("measured", f"{text[:60]!r}", expected="the time of a step such as 21.3s, or MFU such as 38%")
    return Measured(mfu=found) if share else Measured(found)


def neighbours(now: Layout, every: Iterable[Layout]) -> Iterator[tuple[str, Layout]]:
    """(part, layout) of the layouts that differ from `now` in one part. The number of replicas follows from the
    others, as do the parts of pipelines where there is none, and `tp_sequence` without tensor parallelism."""
    for layout in every:
        parts = {name for name in Layout.__struct_fields__ if getattr(layout, name) != getattr(now, name)} - {"dp"}
        if "pp" in parts and 1 in (layout.pp, now.pp):
            parts -= set(PLACED)
        if "tp" in parts and 1 in (layout.tp, now.tp):
            parts -= {"tp_sequence"}
        if len(parts) == 1:
            yield parts.pop(), layout


def single_changes(today: Today, now: Line, machine: Machine, every: Iterable[Layout], kept: Kept,
                   line_of: Callable[[Layout, Transformer], Line]) -> tuple[tuple[Change, ...], tuple[NoGain, ...]]:
    """The single changes that fit the memory and make the step of `now` shorter, the largest gain first; and values of
    parts that bring nothing, each with the reason.

    Args:
        today: the job as it runs.
        now: its line.
        machine: what it runs on.
        every: layouts that the rules allow.
        kept: caches of simulations.
        line_of: (layout, workload) -> Line, simulated.
    """
    found, others = list[Change](), dict[tuple[str, str], NoGain]()
    least = dict[tuple[str, str], float]()       # of values that several layouts have (pp, with its virtual stages)
    for part, layout in neighbours(today.layout, every):
        change = part, _shown(now.layout, part), _shown(layout, part)
        made = _line(today, part, layout, machine, kept, line_of)
        value = math.inf if isinstance(made, str) else made.value
        if not isinstance(made, str) and value < now.value:
            found.append(Change(*change, made))
        elif (place := (part, change[2])) not in least or value < least[place]:
            least[place] = value
            others[place] = NoGain(*change, made if isinstance(made, str) else _loss(made, now))
    gains = {(each.part, each.after) for each in found}
    return (tuple(sorted(found, key=lambda each: (each.line.value, each.line.layout))),
            tuple([others[place] for place in sorted(others.keys() - gains, key=lambda each: (each[0], least[each]))]))


def _line(today: Today, part: str, layout: Layout, machine: Machine, kept: Kept,
          line_of: Callable[[Layout, Transformer], Line]) -> Line | str:
    """The line of a single change, or why there is none."""
    try:
        workload = _workload(today, part, layout)
        memory = memory_of(workload, kept)
        if memory > machine.room:
            return f"does not fit: {format_bytes(memory)} of {format_bytes(machine.room)} that are not reserved"
        return line_of(layout, workload)
    except InputError as error:
        return f"cannot be simulated: {error.message}"
    except StallError:
        return "cannot be simulated: the step stalls"


def _loss(line: Line, now: Line) -> str:
    """How much worse a line is than today's, and by what."""
    if line.value <= now.value * (1 + SMALL):
        return "as fast"
    return f"{100 * (now.value / line.value - 1):+.1f} %, step {reason(line, now)}"


def _workload(today: Today, part: str, layout: Layout) -> Transformer:
    """The job with the layout, and with the fields of its launch that are not about the part."""
    of_part = (*OF_PART.get(part, ()), *(("zero_ranks",) if part in RANKS else ()))
    fields = {name: value for name, value in today.fields.items() if not name.startswith(of_part or ("\0",))}
    return workload_of(today.job, layout, **fields)


def _shown(layout: Layout, part: str) -> str:
    value = layout.plain[part]
    return str(value) if not isinstance(value, bool) else ("on" if value else "off")
