"""Memory over time beside the capacity, and what fills it at the peak."""

from __future__ import annotations

import math

import numpy as np

from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.report.plot.colours import ranked
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.report.plot.plots.breakdown import stacked
from astrarium.result import Result
from astrarium.units import format_bytes
from astrarium.workload.footprint import KINDS, footprints
from astrarium.workload.training import recipe_of
from astrarium.workload.transformer import Transformer

__all__ = ["FOOTPRINT", "PLOT", "capacity_rule", "footprint", "memory"]

POINTS = 700      # of a line: of neighbours the one that holds most


def memory(result: Result) -> Plot:
    """What the first and the last kind of rank hold over the run, and the capacity of an NPU.

    Args:
        result: a run with node times, of traces that name their tensors, or of a generated workload.

    Raises:
        InputError: where nothing is known of tensors.
    """
    if not result.recorded:
        raise InputError("memory", "no node times were recorded", expected="a Result of simulate(design)")
    rows = list(dict.fromkeys([int(result.outcome.row[0]), int(result.outcome.row[-1])]))
    ranks = [result.first_rank + int(np.flatnonzero(result.outcome.row == row)[0]) for row in rows]
    name, time, held = list[str](), list[float](), list[float]()
    binned = 1
    for rank, row in zip(ranks, rows):
        at, size = result.memory.over_time(row)
        each = -(-len(at) // POINTS) or 1
        binned = max(binned, each)
        for first in range(0, len(at), each):
            fullest = first + int(np.argmax(size[first:first + each]))
            name.append(f"rank {rank}")
            time.append(float(at[fullest]) / 1000)
            held.append(float(size[fullest]))
    if not time:
        raise InputError("memory", result.memory.problem or "the traces name no tensors",
                         expected="traces with tensors, or a generated workload")
    columns = {"colour": Column("rank", name), "x": Column("time", time, "time"),
               "y": Column("held", held, "bytes")}
    limit = float(result.memory.capacity[rows[0]])
    said = f"At most {format_bytes(max(held))}" + (f" of {format_bytes(limit)}" if math.isfinite(limit) else "")
    said += f". Of up to {binned} neighbouring points the one that holds most is drawn." if binned > 1 else "."
    layers = (Layer("line", columns, step=True), *([capacity_rule(limit, "y")] if math.isfinite(limit) else []))
    return Plot("Memory over time", said, layers, Axis("time", "time"), Axis("memory", "bytes"), ranked(name),
                zoom=True)


def capacity_rule(limit: float, channel: str) -> Layer:
    """A line at the capacity, bytes."""
    return Layer("rule", {channel: Column("capacity", [limit], "bytes")}, colour="limit", size=2)


def footprint(design: Design) -> Plot:
    """What fills the memory of each stage when it is fullest, and the capacity.

    Args:
        design: a design whose workload is a `Transformer`.

    Raises:
        InputError: of another workload.
    """
    workload = design.workload
    if not isinstance(workload, Transformer):
        raise InputError("footprint", f"the workload is a {type(workload).__name__}", expected="a Transformer")
    found = footprints(recipe_of(workload))
    rows = [(f"stage {place}" if len(found) > 1 else "every NPU", {kind: float(getattr(each, kind)) for kind in KINDS})
            for place, each in enumerate(found)]
    drawn = stacked("Memory when it is fullest", "memory", rows, "bytes", ranked(KINDS))
    if design.memory.capacity is None:
        return drawn
    limit = float(design.memory.capacity)
    return Plot(drawn.title, f"{drawn.sentence} Red: the capacity, {format_bytes(limit)}.",
                (*drawn.layers, capacity_rule(limit, "x")), drawn.x, drawn.y, drawn.colours)


PLOT = Drawing(("run",), lambda found: memory(found.result))
FOOTPRINT = Drawing(("run",), lambda found: footprint(found.design))
