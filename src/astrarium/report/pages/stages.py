"""The stages of a training step as HTML: the pipeline with its bubbles, and memory when it is fullest and over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from astrarium.planner.timeline import Unit, units_of
from astrarium.report.pages.html import bar, key, note, section, wide
from astrarium.report.svg.charts import COLOURS, over_time
from astrarium.result import Result
from astrarium.units import format_bytes, format_time
from astrarium.workload.footprint import KINDS, footprints
from astrarium.workload.training import recipe_of
from astrarium.workload.transformer import Transformer

__all__ = ["SHOWN", "memory_bars", "memory_over_time", "pipeline"]

SHOWN = 16          # stages
DRAWN = 2_000       # passes of a stage, and points of a line: beyond, neighbours are drawn as one
WAYS = {"forward": "#4477aa", "backward": "#228833", "step": "#ccbb44"}
HELD = dict(zip(KINDS, COLOURS))


def pipeline(name: str, result: Result, workload: Transformer, layout: str = "") -> Iterator[str]:
    """Per stage which micro-batch runs when."""
    yield section(f"Pipeline of {name}", *_stages(result, workload, layout))


def _stages(result: Result, workload: Transformer, layout: str) -> Iterator[str]:
    span = result.makespan_ps / 1000
    units = units_of(result, workload) if span else ()
    if not units:
        yield note("Not drawn: the run has too many nodes, or ends at once.")
        return
    yield key({"forward": "forward", "backward": "backward", "step": "optimizer"}, WAYS)
    yield note(f"{layout + ': ' if layout else ''}0 to {format_time(span)}; grey: nothing computes.")
    yield from (_gantt(place, each, span) for place, each in list(enumerate(units))[:SHOWN])
    if max(map(len, units)) > DRAWN:
        yield note(f"A stage has up to {max(map(len, units)):,} passes: neighbours are drawn together, each way as "
                   "wide as its time.")
    if len(units) > SHOWN:
        yield note(f"The first {SHOWN} of {len(units)} stages are drawn.")


def _gantt(stage: int, units: Sequence[Unit], span: float) -> str:
    each = -(-len(units) // DRAWN)
    boxes = [box for at in range(0, len(units), each) for box in _boxes(units[at:at + each])]
    text = "".join(f'<rect x="{1000 * start / span:.2f}" y="1" height="18" fill="{WAYS[way]}" stroke="#fff" '
                   f'stroke-width="0.4" width="{max(0.3, 1000 * time / span):.2f}"/>' for way, start, time in boxes)
    return (f'<div class="gantt"><span>stage {stage}</span><svg viewBox="0 0 1000 20" preserveAspectRatio="none" '
            f'role="img" aria-label="stage {stage}">{text}</svg></div>')


def _boxes(units: Sequence[Unit]) -> Iterator[tuple[str, float, float]]:
    """(way, start, ns) of passes that are drawn together: each way as wide as all of its time."""
    start = units[0].start
    for way in WAYS:
        time = sum(unit.end - unit.start for unit in units if unit.way == way)
        if time > 0:
            yield way, start, time
            start += time


def memory_bars(name: str, workload: Transformer, capacity: float) -> Iterator[str]:
    """Memory of a stage at its peak, and the capacity (infinite: none)."""
    yield section(f"Memory of {name}, when it is fullest", *_held(workload, capacity), half=True)


def _held(workload: Transformer, capacity: float) -> Iterator[str]:
    found = footprints(recipe_of(workload))
    whole = 1.04 * max(capacity if capacity < float("inf") else 0.0, *(each.total for each in found))
    yield key({kind: kind for kind in KINDS}, HELD)
    if capacity < float("inf"):
        yield note(f"Red: the capacity, {format_bytes(capacity)}.")
    for place, each in list(enumerate(found))[:SHOWN]:
        yield bar(f"stage {place}" if len(found) > 1 else "every NPU", format_bytes(each.total),
                  {kind: getattr(each, kind) for kind in KINDS}, whole, HELD, mark=capacity)
    if len(found) > SHOWN:
        yield note(f"The first {SHOWN} of {len(found)} stages are drawn.")


def memory_over_time(name: str, result: Result, capacity: float) -> Iterator[str]:
    """What the first and the last rank hold over the run, as far as it knows of tensors, beside the capacity."""
    rows = list(dict.fromkeys([int(result.outcome.row[0]), int(result.outcome.row[-1])]))
    ranks = [int(np.flatnonzero(result.outcome.row == row)[0]) for row in rows]
    named = [(f"rank {rank}", *result.memory.over_time(row)) for rank, row in zip(ranks, rows)]
    scale, unit = (1e12, "s") if result.makespan_ps > 1e12 else (1e9, "ms")
    drawn = [(who, time / scale, held / 1e9) for who, time, held in named if time.size]
    if not drawn:
        return
    limit = {"capacity": capacity / 1e9} if capacity < float("inf") else {}
    yield section(f"Memory of {name} over time", wide(over_time(
        [(who, *_thinned(time.tolist(), held.tolist())) for who, time, held in drawn], unit, "GB", limit)), half=True)


def _thinned(time: list[float], held: list[float]) -> tuple[list[float], list[float]]:
    """At most DRAWN points: of neighbours the one that holds most."""
    each = -(-len(time) // DRAWN)
    kept = [max(range(at, min(at + each, len(time))), key=held.__getitem__) for at in range(0, len(time), each)]
    return [time[place] for place in kept], [held[place] for place in kept]
