"""What a plan says of a job that runs today: the verdict, and what changes of its layout bring."""

from __future__ import annotations

from collections.abc import Iterator

from astrarium.cost.interval import tied
from astrarium.planner.launch.stacks import needs
from astrarium.planner.shortlist import Line, Shortlist
from astrarium.report.tables.interval import tie_words
from astrarium.report.tables.table import Table
from astrarium.units import format_bytes, format_time

__all__ = ["changes", "no_gain", "single_changes", "verdict"]

SHOWN = 8       # changes of one part


def verdict(today: Line, found: Shortlist) -> Iterator[str]:
    """The answer in sentences: how far today's step is from its prediction, what a change of one part brings, and
    what line 1 does."""
    if found.measured is not None:
        yield from _measured(today, found, found.measured)
        best = found.changes[0] if found.changes else None
        if best is None:
            yield "No change of one part of today's layout makes it faster."
        else:
            yield (f"Of the changes of one part, {best.part} {best.before} to {best.after} brings most: "
                   f"{_gain(today, best.line, found)}{_doubts(today, best.line, found)}.")
    broken = found.broken(today)
    if found.best.layout == today.layout or today.value <= found.best.value:
        why = f" (left out by {' and '.join(broken)}: see the rules)" if broken else \
            " (it leaves less memory free than --reserve says)" if today.memory > today.room else ""
        yield f"No layout that was compared is faster than today's{why}."
    else:
        yield f"Line 1, {found.best.label}: {_gain(today, found.best, found)}{_doubts(today, found.best, found)}."


def _measured(today: Line, found: Shortlist, measured: float) -> Iterator[str]:
    """The measured step beside the prediction."""
    said = (f"today: {format_time(measured)} a step, MFU {100 * today.mfu / found.factor:.1f} %, measured; predicted "
            f"{format_time(today.time)} ({100 * (today.time / measured - 1):+.1f} %)")
    around = today.within.around(today.time)
    if around is None:
        yield f"{said}, without an interval."
        return
    span = f"{format_time(around[0])} to {format_time(around[1])}"
    if around[0] <= measured <= around[1]:
        yield f"{said}, within the interval of the prediction, {span}."
    elif measured > around[1]:
        yield (f"{said}. It is outside the interval of the prediction, {span}: something costs time that the launch "
               "does not say (input, other software, slow links or GPUs), and no layout changes that. Look for it "
               "first; a recording of a step shows where its time goes (astrarium trace collect, trace link, "
               "explain --trace).")
    else:
        yield (f"{said}. It is outside the interval of the prediction, {span}: the launch or the device is another one "
               "than that of the measurement.")


def _gain(today: Line, line: Line, found: Shortlist) -> str:
    if found.objective.name == "time":
        return f"predicted {100 * (today.value / line.value - 1):.1f} % faster"
    return f"predicted {100 * (1 - line.value / today.value):.1f} % less {found.objective.name}"


def _doubts(today: Line, line: Line, found: Shortlist) -> str:
    """Why a predicted gain is no advice yet, and what the layout needs."""
    said = []
    if _tie(today, line):
        said.append("one is within the interval of the other: measure it before you rely on it")
    if line.within.extrapolated:
        said.append("extrapolated (" + "; ".join(line.within.extrapolated) + ")")
    wants = needs(found.framework, line.layout.zero)
    if wants and line.layout.zero > today.layout.zero:
        said.append(f"it needs {wants}")
    return "".join(f"; {each}" for each in said)


def _about(today: Line, line: Line) -> str:
    said = [tie_words(line.time, (today.time, today.within), "now")] if _tie(today, line) else []
    return ", ".join(said + (["extrapolated"] if line.within.extrapolated else []))


def _tie(today: Line, line: Line) -> bool:
    return bool(tied((today.time, today.within), (line.time, line.within)))


def changes(today: Line, found: Shortlist) -> Table | None:
    """What line 1 changes; None if it is not better than today's layout."""
    before, after = today.layout.plain, found.best.layout.plain
    rows = [(name, str(before[name]), str(after[name])) for name in after if before[name] != after[name]]
    if not rows or today.value <= found.best.value:
        return None
    tie = "; one is within the interval of the other" if _tie(today, found.best) else ""
    return Table(f"line 1 against today's layout: {_gain(today, found.best, found)}{tie}", "<>>", rows,
                 ("", "now", "1"))


def single_changes(today: Line, found: Shortlist) -> Table | None:
    """What one change of today's layout brings; None if nothing does."""
    if not found.changes:
        return None
    rows = [(each.part, f"{each.before} to {each.after}", str(each.line.layout),
             format_time(each.line.time * found.factor), f"{100 * (today.value / each.line.value - 1):+.1f} %",
             f"{format_bytes(each.line.memory)} of {format_bytes(each.line.capacity)}", _about(today, each.line))
            for each in found.changes[:SHOWN]]
    return Table("one change at a time, by what it brings (predicted)", "<<<>>><", rows,
                 ("", "change", "layout", "step", "gain", "memory", ""))


def no_gain(found: Shortlist) -> Table:
    """The changes of one part that bring nothing, with the reason."""
    return Table("changes without a gain", "<<<",
                 [(each.part, f"{each.before} to {each.after}", each.why) for each in found.no_gain])
