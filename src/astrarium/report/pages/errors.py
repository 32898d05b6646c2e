"""Errors of predictions row by row: per source of measured rows a strip with one dot per row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from astrarium.report.pages.html import note, row, signs
from astrarium.report.svg.charts import Area, Mark, Ruler, ruler_line, strip
from astrarium.validate.predict import RATES, Prediction, Value

__all__ = ["Dot", "error_strips"]

EDGE = 0.5          # errors at the ends of a strip; larger ones are drawn as triangles there
BAND = 0.2          # errors that are shaded
BIN = 0.02          # dots so close to each other are drawn above each other
SPREAD = 90.0       # px that the dots of a bin may take upwards
RULER = Ruler(-EDGE, EDGE)


class Dot(Struct, frozen=True):
    """A predicted row and the value that it is scored by."""

    made: Prediction
    value: Value

    @property
    def error(self) -> float:
        """Relative error of the time (of memory: of its bytes)."""
        return self.value.time_error

    @property
    def words(self) -> str:
        """Case, measured, predicted, error, and of a row that does not state everything what was assumed."""
        assumed = "" if self.made.meant.stated else f"; assumed: {', '.join(self.made.meant.assumed)}"
        return (f"{self.made.row.case}: {self.value.metric} {self.value.measured:.4g} measured, "
                f"{self.value.predicted:.4g} predicted, {_percent(self.error, '+')}{assumed}")


def error_strips(sources: Mapping[str, Sequence[Dot]], colours: Mapping[str, str], what: str) -> Iterator[str]:
    """One strip per source of rows with the same metric, a legend, and a ruler; `what` has the errors (`memory`)."""
    every = [dot for dots in sources.values() for dot in dots]
    shapes = {"a row": Mark(0, "dot", "#4477aa")}
    if any(abs(dot.error) > EDGE for dot in every):
        shapes[f"a row beyond {100 * EDGE:.0f} %"] = Mark(0, "right", "#4477aa")
    yield signs(shapes)
    for source, dots in sources.items():
        size = np.abs([dot.error for dot in dots])
        median, p90 = float(np.median(size)), float(np.quantile(size, 0.9))
        words = _words(dots, median, p90)
        yield row(source, words, _strip(f"{source}: {words}", dots, colours[source], median, p90))
    yield row("", "", ruler_line(RULER, lambda error: f"{100 * error:+.0f} %" if abs(error) > 1e-9 else "0 %"))
    rates = " (a rate that is too low is a time that is too long)" if every[0].value.metric in RATES else ""
    yield note(f"Error of {what}{rates}: right of 0 it is predicted larger than measured. Half of a source's rows lie "
               "between the solid lines (median), 90 % between the dashed ones (p90); grey: up to "
               f"{100 * BAND:.0f} % away from 0.")


def _words(dots: Sequence[Dot], median: float, p90: float) -> str:
    beyond = sorted(dot.error for dot in dots if abs(dot.error) > EDGE)
    more = f", {len(beyond)} beyond {100 * EDGE:.0f} % ({_percent(beyond[0], '+')}" if beyond else ""
    more += f" to {_percent(beyond[-1], '+')})" if len(beyond) > 1 else ")" if beyond else ""
    return f"{len(dots)} row{'s' if len(dots) > 1 else ''}: median {_percent(median)}, p90 {_percent(p90)}{more}"


def _percent(error: float, sign: str = "") -> str:
    return f"{100 * error:{sign}.1f} %"


def _strip(label: str, dots: Sequence[Dot], colour: str, median: float, p90: float) -> str:
    step, height, places = _stacked([dot.error for dot in dots])
    marks = [Mark(dot.error, "dot" if abs(dot.error) <= EDGE else "right" if dot.error > 0 else "left", colour,
                  down=step * place, says=dot.words) for dot, place in zip(dots, places, strict=True)]
    rules = [(0.0, "#888", "")]
    rules += [(side * value, "#222", dashes) for value, dashes in ((median, ""), (p90, "4 3")) for side in (-1, 1)
              if value <= EDGE]
    return strip(RULER, label, height, [Area(-BAND, BAND, "#ececec", height)], marks, rules)


def _stacked(errors: Sequence[float]) -> tuple[float, float, list[int]]:
    """(px between dots, height of the strip, place of each above or below the middle): 0, -1, 1, -2, ... in a bin."""
    held: dict[int, int] = {}
    places = []
    for error in errors:
        bin_ = round(min(max(error, -EDGE), EDGE) / BIN)
        count = held[bin_] = held.get(bin_, 0) + 1
        places.append(count // 2 * (-1 if count % 2 == 0 else 1))
    most = max(held.values())
    step = min(7.0, SPREAD / most)
    return step, 16 + step * most, places
