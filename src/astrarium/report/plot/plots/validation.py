"""Measured rows and their predictions: against each other, and errors by source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from astrarium.errors import InputError
from astrarium.report.plot.colours import PALETTE, ranked
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import Axis, Column, Layer, Plot, spread
from astrarium.validate.predict import Prediction, Value
from astrarium.validate.verdict import Validation

__all__ = ["ERRORS", "MEASURED", "errors", "groups", "measured"]

BAND = 0.1
SOURCES = 9         # with a colour of their own
EDGE = 0.5          # errors at the ends of the axis; larger ones are drawn there
KINDS = {"unseen": "no fit has seen", "fitted": "a stack was fitted on", "incomplete": "do not state everything"}


class _Dot(Struct, frozen=True):
    kind: str
    made: Prediction
    value: Value


def _dots(made: Validation) -> list[_Dot]:
    """Everything that can be drawn on logarithmic axes."""
    return [_Dot("incomplete" if not each.meant.stated else "fitted" if fitted else "unseen", each, value)
            for each, fitted in zip(made.found, made.fitted, strict=True) if isinstance(each, Prediction)
            for value in each.values if value.measured > 0 and value.predicted > 0]


def groups(made: Validation) -> list[tuple[str, str]]:
    """(metric, kind of rows) of everything that `measured` can draw."""
    return list(dict.fromkeys((dot.value.metric, dot.kind) for dot in _dots(made)))


def _metric(dots: Sequence[_Dot], metric: str | None, kind: str | None) -> tuple[str, list[_Dot]]:
    """(metric, its dots): the one with most rows where none is named."""
    counts: dict[str, int] = {}
    for dot in dots:
        counts[dot.value.metric] = counts.get(dot.value.metric, 0) + 1
    if not counts or (metric is not None and metric not in counts):
        raise InputError("metric", f"no row was predicted{f' by {metric}' if metric else ''}",
                         expected=f"one of {', '.join(counts)}" if counts else "rows that can be predicted")
    chosen = metric or max(counts, key=lambda name: counts[name])
    return chosen, [dot for dot in dots if dot.value.metric == chosen and kind in (None, dot.kind)]


def measured(answer: Validation, metric: str | None = None, kind: str | None = None) -> Plot:
    """Predicted against measured values of a metric, a colour for each source; dashed lines: 10 % away.

    Args:
        answer: measured rows with their predictions.
        metric: which one, such as step_s or busbw_GBs; None: the one of most rows.
        kind: only rows that no fit has seen (unseen), that a stack was fitted on (fitted), or that do not state
            everything (incomplete).

    Raises:
        InputError: where no row was predicted by this metric.
    """
    name, dots = _metric(_dots(answer), metric, kind)
    shown, left = spread(dots)
    sources = sorted({dot.made.row.source for dot in dots}, key=lambda each: (
        -sum(dot.made.row.source == each for dot in dots), each))
    named = {source: source if place < SOURCES or len(sources) == SOURCES + 1 else f"{len(sources) - SOURCES} more"
             for place, source in enumerate(sources)}
    every = [value for dot in dots for value in (dot.value.measured, dot.value.predicted)]
    low, high = min(every) / 1.3, max(every) * 1.3
    columns = {
        "colour": Column("source", [named[dot.made.row.source] for dot in shown]),
        "case": Column("row", [dot.made.row.case for dot in shown]),
        "x": Column("measured", [dot.value.measured for dot in shown], "number"),
        "y": Column("predicted", [dot.value.predicted for dot in shown], "number"),
        "error": Column("error", [dot.value.error for dot in shown], "share"),
        "kind": Column("rows", [KINDS[dot.kind] for dot in shown])}
    within = sum(abs(dot.value.error) <= BAND for dot in dots)
    lines = [Layer("line", {"x": Column("", [low, high], "number"),
                            "y": Column("", [low * share, high * share], "number")},
                   colour="muted", size=1.2, dash=share != 1) for share in (1.0, 1 - BAND, 1 + BAND)]
    rows = f"rows that {KINDS[kind]}" if kind else "rows"
    return Plot(f"Predicted against measured: {name}", f"{len(dots):,} {rows}; {within:,} lie within "
                f"{100 * BAND:.0f} % (dashed) of what was measured (line).{left}",
                (*lines, Layer("point", columns, size=40, opacity=0.8)),
                Axis(f"measured {name}", "number", log=True, low=low, high=high),
                Axis(f"predicted {name}", "number", log=True, low=low, high=high),
                ranked(named[source] for source in sources), zoom=True, height=420)


def errors(answer: Validation, metric: str | None = None, kind: str | None = None) -> Plot:
    """The error of every predicted row, a row of dots for each source, with the median and the 90 % line of each.

    Args:
        answer: measured rows with their predictions.
        metric: as of `measured`.
        kind: as of `measured`.

    Raises:
        InputError: where no row was predicted by this metric.
    """
    name, dots = _metric(_dots(answer), metric, kind)
    shown, left = spread(dots)
    sources = list(dict.fromkeys(dot.made.row.source for dot in dots))
    sizes = {source: np.abs([dot.value.time_error for dot in dots if dot.made.row.source == source])
             for source in sources}
    rows = {source: f"{source}: {len(size)} row{'s' if len(size) > 1 else ''}, median "
            f"{100 * float(np.median(size)):.1f} %, p90 {100 * float(np.quantile(size, 0.9)):.1f} %"
            for source, size in sizes.items()}
    inside = [dot for dot in shown if abs(dot.value.time_error) <= EDGE]
    layers = [Layer("rule", {"x": Column("", [0.0], "share")}, colour="muted", size=1),
              Layer("point", _errors(inside, rows), colour=PALETTE[0], opacity=0.55, size=45)]
    for side, shape in ((1, "triangle-right"), (-1, "triangle-left")):
        beyond = [dot for dot in shown if side * dot.value.time_error > EDGE]
        if beyond:
            layers.append(Layer("point", _errors(beyond, rows), colour=PALETTE[1], shape=shape, size=70))
    for share, quantile in ((False, 0.5), (True, 0.9)):
        at = {source: float(np.quantile(size, quantile)) for source, size in sizes.items()}
        marks = [(rows[source], value, min(side * value, EDGE)) for source, value in at.items() for side in (-1, 1)
                 if value <= EDGE]
        layers.append(Layer("point", {"y": Column("", [each[0] for each in marks]),
                                      "x": Column("", [each[2] for each in marks], "share"),
                                      "what": Column("p90" if share else "median", [each[1] for each in marks],
                                                     "share")},
                            colour="ink", shape="diamond" if share else "square", size=26))
    beyond_edge = sum(abs(dot.value.time_error) > EDGE for dot in dots)
    return Plot(f"Errors by source: {name}", "Right of the line the time is predicted too long (memory: too large). "
                "Small squares: the median, diamonds: 90 % of the rows lie within."
                + (f" {beyond_edge} rows beyond {100 * EDGE:.0f} % are triangles at the ends." if beyond_edge else "")
                + left,
                tuple(layers), Axis("error", "share", low=-EDGE - 0.02, high=EDGE + 0.02),
                Axis(order=tuple(rows.values())))


def _errors(dots: Sequence[_Dot], rows: dict[str, str]) -> dict[str, Column]:
    return {"y": Column("", [rows[dot.made.row.source] for dot in dots]),
            "case": Column("row", [dot.made.row.case for dot in dots]),
            "measured": Column("measured", [dot.value.measured for dot in dots], "number"),
            "predicted": Column("predicted", [dot.value.predicted for dot in dots], "number"),
            "x": Column("", [min(max(dot.value.time_error, -EDGE), EDGE) for dot in dots], "share"),
            "error": Column("error", [dot.value.time_error for dot in dots], "share"),
            "assumed": Column("assumed", [", ".join(map(str, dot.made.meant.assumed)) or "nothing" for dot in dots])}


MEASURED, ERRORS = Drawing(("validate",), measured), Drawing(("validate",), errors)
