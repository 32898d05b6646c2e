"""When each stage of a pipeline runs which micro-batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.planner.timeline import Unit, units_of
from astrarium.report.plot.colours import PALETTE
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import SPANS, Axis, Column, Layer, Plot
from astrarium.result import Result
from astrarium.units import format_time
from astrarium.workload.transformer import Transformer

__all__ = ["PLOT", "pipeline"]

SHOWN = 64          # stages
WAYS = {"forward": PALETTE[0], "backward": PALETTE[2], "optimizer": PALETTE[3]}
WORDS = {"step": "optimizer"}


def pipeline(result: Result, design: Design) -> Plot:
    """The pipeline of a training step: a row for each stage, of its first rank; gaps are idle or communicate.

    Args:
        result: the run of `design`, with node times.
        design: a design whose workload is a `Transformer`.

    Raises:
        InputError: of another workload, of a run without node times or with more than 2,000,000 compute nodes.
    """
    workload = design.workload
    if not isinstance(workload, Transformer):
        raise InputError("pipeline", f"the workload is a {type(workload).__name__}", expected="a Transformer")
    units = units_of(result, workload) if result.recorded and result.makespan_ps else ()
    if not units:
        raise InputError("pipeline", "the run has no node times, or more than 2,000,000 compute nodes",
                         expected="simulate(design) of fewer NPUs or micro-batches")
    drawn = units[:SHOWN]
    each = -(-sum(map(len, drawn)) // SPANS)
    rows = [(f"stage {stage}", *box) for stage, mine in enumerate(drawn) for box in _boxes(mine, each)]
    columns = {"y": Column("stage", [row[0] for row in rows]), "colour": Column("pass", [row[1] for row in rows]),
               "batch": Column("micro-batch", [row[2] for row in rows]),
               "x": Column("start", [row[3] for row in rows], "time"),
               "x2": Column("end", [row[4] for row in rows], "time")}
    used = {name: colour for name, colour in WAYS.items() if name in set(columns["colour"].values)}
    return Plot("Pipeline", _sentence(result, units, each), (Layer("bar", columns, share=0.8),),
                Axis("time", "time"), Axis(order=tuple(f"stage {stage}" for stage in range(len(drawn)))), used,
                zoom=True)


def _boxes(units: Sequence[Unit], each: int) -> Iterator[tuple[str, str, float, float]]:
    """(pass, micro-batches, start, end) in ns; of every `each` neighbours together, each pass as wide as its time."""
    for at in range(0, len(units), each):
        some = units[at:at + each]
        start = some[0].start
        for way in ("forward", "backward", "step"):
            mine = [unit for unit in some if unit.way == way]
            if mine:
                first = mine[0].start if each == 1 else start
                end = first + sum(unit.end - unit.start for unit in mine)
                batches = f"{mine[0].batch} to {mine[-1].batch}" if len(mine) > 1 else str(mine[0].batch)
                yield WORDS.get(way, way), "all" if way == "step" else batches, first, end
                start = end


def _sentence(result: Result, units: Sequence[Sequence[Unit]], each: int) -> str:
    span = result.makespan_ps / 1000
    busy = [sum(unit.end - unit.start for unit in mine) / span for mine in units]
    least, most = (f"{100 * end(busy):.1f} %" for end in (min, max))
    what = "step" if result.at_least_ps == result.makespan_ps else "run"      # the step is longer, if ports are needed
    said = (f"{f'{len(units):,} stages' if len(units) > 1 else 'One stage'} of a {what} of {format_time(span)}; passes "
            f"and the optimizer, with the communication inside them, take {least}"
            + (f" to {most}" if most != least else "") + " of it.")
    said += f" {each:,} neighbouring passes are drawn as one, each pass as wide as its time." if each > 1 else ""
    return said + (f" The first {SHOWN} stages are drawn." if len(units) > SHOWN else "")


PLOT = Drawing(("run",), lambda found: pipeline(found.result, found.design))
