"""Plots of plans: figures of merit with their intervals, and loads of serving engines."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.planner.serving.shortlist import Line as Engine
from astrarium.planner.serving.shortlist import ServingPlan
from astrarium.planner.shortlist import Line, Shortlist
from astrarium.report.plot.colours import PALETTE, ranked
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.units import format_time

__all__ = ["INTERVALS", "LOADS", "intervals", "loads"]

MARGIN = 0.04       # of the axis, at both ends
KINDS = {"best": ("diamond", 90.0, PALETTE[2]), "undecided against the best": ("circle", 60.0, PALETTE[0]),
         "worse than the best": ("square", 50.0, PALETTE[5]), "no interval": ("circle", 60.0, "#999999")}


class _Row(Struct, frozen=True):
    name: str
    kind: str
    value: float
    low: float | None
    high: float | None


def intervals(answer: Shortlist | ServingPlan) -> Plot:
    """What the lines of a plan reach (step time; of serving requests per second and NPU), and the interval in which it
    is expected to be measured, below each other; dashed: the best.

    Args:
        answer: a plan of training or of serving.
    """
    if isinstance(answer, Shortlist):
        several = len({line.device for line in answer.lines}) > 1
        now = [("now", answer.today)] if answer.today is not None else []
        lines = [*((str(place), line) for place, line in enumerate(answer.lines, 1)), *now]
        return _drawn("Predicted step times and their intervals", "step time", "time",
                      [_training(place, line, answer.lines[0], several) for place, line in lines])
    engines = [*((str(place), line) for place, line in enumerate(answer.lines, 1)),
               *([("now", answer.today)] if answer.today is not None else [])]
    return _drawn("Requests per second and NPU", "requests per NPU", "per_second",
                  [_serving(place, line, answer.lines[0]) for place, line in engines])


def _training(place: str, line: Line, best: Line, several: bool) -> _Row:
    low, high = line.within.around(line.time) or (None, None)
    kind = ("no interval" if not line.within.known else "best" if line is best else
            "undecided against the best" if line.tie else "worse than the best")
    return _Row(f"{place}: {line.device + ': ' if several else ''}{line.label}", kind, line.time, low, high)


def _serving(place: str, line: Engine, best: Engine) -> _Row:
    npus = line.trial.candidate.engine.npus
    low, high = line.span or (None, None)
    kind = ("no interval" if line.span is None else "best" if line is best else
            "undecided against the best" if line.tie else "worse than the best")
    return _Row(_engine(place, line), kind, line.trial.rate / npus, None if low is None else low / npus,
                None if high is None else high / npus)


def _engine(place: str, line: Engine) -> str:
    engine = line.trial.candidate.engine
    return f"{place}: {line.device}, {engine.words}, {engine.format}"


def _drawn(title: str, what: str, quantity: str, rows: Sequence[_Row]) -> Plot:
    ends = [end for row in rows for end in (row.value, row.low, row.high) if end is not None]
    margin = MARGIN * ((max(ends) - min(ends)) or max(ends))
    known = [row for row in rows if row.low is not None]
    layers = [Layer("rule", {"x": Column("", [rows[0].value], quantity)}, colour="muted", dash=True)]
    if known:
        layers.append(Layer("bar", {
            "y": Column("", [row.name for row in known]),
            "x": Column("from", [row.low or 0.0 for row in known], quantity),
            "x2": Column("to", [row.high or 0.0 for row in known], quantity),
            what: Column(what, [row.value for row in known], quantity)}, colour=PALETTE[0], opacity=0.4, share=0.4))
    used = [kind for kind in KINDS if any(row.kind == kind for row in rows)]
    for kind in used:
        some = [row for row in rows if row.kind == kind]
        shape, size, _ = KINDS[kind]
        layers.append(Layer("point", {
            "y": Column("line", [row.name for row in some]), "colour": Column("", [kind] * len(some)),
            "x": Column(what, [row.value for row in some], quantity),
            "low": Column("from", [_or_nan(row.low) for row in some], quantity),
            "high": Column("to", [_or_nan(row.high) for row in some], quantity)}, shape=shape, size=size))
    ties = sum(row.kind == "undecided against the best" for row in rows)
    said = (f"{ties} of {len(rows)} lines are undecided against the best: one of the two is within the interval of "
            "the other. Bars: where the value is expected to be measured." if known else
            "No line has an interval: nothing like it was measured.")
    return Plot(title, said, tuple(layers), Axis(what, quantity, zero=False, low=min(ends) - margin,
                                                 high=max(ends) + margin),
                Axis(order=tuple(row.name for row in rows), tall=True), {kind: KINDS[kind][2] for kind in used})


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def loads(answer: ServingPlan) -> Plot:
    """Output tokens per second of an NPU against those of a user, a line for each engine over the loads that were
    tried.

    Args:
        answer: a plan of serving.

    Raises:
        InputError: where every load that was tried saturated its engine.
    """
    lines = [*((str(place), line) for place, line in enumerate(answer.lines, 1)),
             *([("now", answer.today)] if answer.today is not None else [])]
    rows = []
    for place, line in lines:
        for each in sorted([*line.trial.lower, *line.trial.found.tried], key=lambda one: one.rate):
            if not each.served.saturated:
                point = line.point(each)
                rows.append((_engine(place, line), point.user, point.npu, each.rate, "yes" if point.holds else "no"))
    if not rows:
        raise InputError("loads", "every load saturated its engine", expected="a plan with lower loads")
    columns = {"colour": Column("engine", [row[0] for row in rows]),
               "x": Column("tokens of a user", [row[1] for row in rows], "per_second"),
               "y": Column("tokens of an NPU", [row[2] for row in rows], "per_second"),
               "rate": Column("requests", [row[3] for row in rows], "per_second"),
               "holds": Column("limits hold", [row[4] for row in rows])}
    return Plot("Tokens of a user and of an NPU", f"{len(rows)} loads of {len(lines)} engines; one up and right of "
                f"another is better. The best line has a first token in {format_time(_ttft(answer.best))} (mean).",
                (Layer("line", columns, size=1.5), Layer("point", columns, size=45)),
                Axis("output tokens of a user", "per_second"), Axis("output tokens of an NPU", "per_second"),
                ranked(row[0] for row in rows), zoom=True)


def _ttft(line: Engine) -> float:
    return float(line.figures["ttft_mean_ns"])


INTERVALS, LOADS = Drawing(("plan", "plan_serving"), intervals), Drawing(("plan_serving",), loads)
