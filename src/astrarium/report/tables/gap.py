"""A recorded run and its prediction, as tables and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from astrarium.report.tables.table import Table
from astrarium.result.gap import Gap
from astrarium.units import format_time

__all__ = ["gap_plain", "gap_tables"]

SHOWN = 8       # ranks


def gap_tables(found: Gap, design: str, trace: str) -> Iterator[Table]:
    """The step, what the difference is made of, and the ranks where it is largest."""
    predicted, recorded = found.step
    rows = [("predicted", format_time(predicted)), ("recorded", _step(found, recorded)),
            ("difference", _signed(recorded - predicted) + _share(recorded - predicted, predicted))]
    yield Table(f"{design} beside {trace}", "<<", rows)
    whose = "a rank goes, mean over the ranks" if len(found.ranks) > 1 else f"rank {found.ranks[0]} goes"
    yield Table(f"where the time of {whose}", "<>>>>", list(_lines(found)),
                ["", "predicted", "recorded", "difference", "of it"])
    if len(found.ranks) > 1:
        yield _ranks(found)


def _step(found: Gap, recorded: float) -> str:
    return format_time(recorded) + (f", mean of {found.steps:,} steps" if found.steps > 1 else "")


def _lines(found: Gap) -> Iterator[list[str]]:
    gap = found.step[1] - found.step[0]
    for name in found.names:
        before, after = found.mean(name)
        if before or after:
            yield [name, format_time(before), format_time(after), _signed(after - before), _of(after - before, gap)]
    yield ["sum", *map(format_time, found.step), _signed(gap), _of(gap, gap)]
    before, after = found.hidden
    yield ["not in the sum: communication under kernels", format_time(before), format_time(after),
           _signed(after - before), ""]


def _ranks(found: Gap) -> Table:
    """Per rank what was recorded: who is slow, and who waits for whom."""
    names = [name for at, name in enumerate(found.names) if found.recorded[:, at].any()]
    busy = found.recorded[:, [at for at, name in enumerate(found.names) if name in names]]
    order = np.argsort(-np.abs(found.recorded - found.recorded.mean(axis=0)).sum(axis=1), kind="stable")[:SHOWN]
    lines = [[str(found.ranks[place]), *[format_time(int(ps) / 1000 / found.steps) for ps in busy[place]]]
             for place in sorted(order.tolist())]
    few = f", the {SHOWN} of {len(found.ranks):,} ranks that differ most" if len(found.ranks) > SHOWN else ""
    return Table(f"recorded, by rank{few}", "<" + ">" * len(names), lines, ["rank", *names])


def gap_plain(found: Gap) -> dict[str, Any]:
    """What `astrarium explain --trace --json` prints. `ranks` has the times of all steps that were recorded: of each
    rank the parts add up to the step, and to the recording."""
    def parts(times: Sequence[int]) -> dict[str, float]:
        return {name: ps / 1000 for name, ps in zip(found.names, times, strict=True)}

    return {"steps": found.steps, "predicted_ns": found.step[0], "recorded_ns": found.step[1],
            "parts": [{"part": name, "predicted_ns": found.mean(name)[0], "recorded_ns": found.mean(name)[1]}
                      for name in found.names],
            "hidden_communication_ns": dict(zip(("predicted", "recorded"), found.hidden)),
            "ranks": [{"rank": rank, "predicted_ns": parts(found.predicted[at].tolist()),
                       "recorded_ns": parts(found.recorded[at].tolist())} for at, rank in enumerate(found.ranks)]}


def _signed(ns: float) -> str:
    return ("-" if ns < 0 else "+") + format_time(abs(ns))


def _share(difference: float, whole: float) -> str:
    return f" ({difference / whole:+.1%})" if whole else ""


def _of(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else ""
