"""Measured rows and predictions as one HTML page that needs nothing else: per metric plots and the errors of every
row, and the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from astrarium.report.pages.errors import Dot, error_strips
from astrarium.report.pages.html import escape, key, note, page, section, table_of, wide
from astrarium.report.pages.page import Page
from astrarium.report.svg.charts import COLOURS, against
from astrarium.report.tables.validation import validation_tables
from astrarium.validate.predict import Prediction
from astrarium.validate.score import scored
from astrarium.validate.verdict import Validation

__all__ = ["PAGE", "validation_page"]

BAND = 0.1
SOURCES = 9        # with their own colour
KINDS = {"unseen": "rows that no fit has seen", "fitted": "rows on which a stack was fitted",
         "incomplete": "rows that do not state everything"}
Dots = Mapping[str, Sequence[Dot]]


def validation_page(made: Validation) -> str:
    """The page."""
    rows, judged = len(made.found), sum(isinstance(each, Prediction) for each in made.found)
    parts = [*_metrics(made), *(table_of(table) for table in validation_tables(made))]
    return page("Measured and predicted", f"{rows:,} rows, {judged:,} of them predicted. Time is simulated.", parts)


def _metrics(made: Validation) -> Iterator[str]:
    """Per metric and kind of rows, beside each other where the page is wide enough: plot, and errors by source."""
    groups: dict[str, dict[str, dict[str, list[Dot]]]] = {}
    for kind, dot in _dots(made):
        kinds = groups.setdefault(dot.value.metric, {})
        kinds.setdefault(kind, {}).setdefault(dot.made.row.source, []).append(dot)
    for metric, kinds in groups.items():
        shown = "".join("<section>" + "\n".join(_group(metric, words, kinds[kind])) + "</section>"
                        for kind, words in KINDS.items() if kind in kinds)
        yield section(metric, f'<div class="pair">{shown}</div>')


def _dots(made: Validation) -> Iterator[tuple[str, Dot]]:
    """(kind of the row, dot) of everything that can be drawn on logarithmic axes."""
    for each, fitted in zip(made.found, made.fitted, strict=True):
        if isinstance(each, Prediction):
            kind = "incomplete" if not each.meant.stated else "fitted" if fitted else "unseen"
            yield from ((kind, Dot(each, value)) for value in each.values if value.measured > 0 and value.predicted > 0)


def _group(metric: str, words: str, sources: Dots) -> Iterator[str]:
    """Plot and strips of the rows of one kind. Only the metric that a row is scored by has it in a strip."""
    count = sum(map(len, sources.values()))
    yield f"<h3>{escape(words.capitalize())} ({count:,})</h3>"
    large = sorted(sources, key=lambda name: (-len(sources[name]), name))
    colours = {name: COLOURS[min(place, SOURCES)] for place, name in enumerate(large)}
    yield from _plot({name: sources[name] for name in large}, colours)
    which = "mem_GiB" if metric == "mem_GiB" else "time"
    judged = {name: [dot for dot in sources[name] if dot.value is scored(dot.made, which)] for name in large}
    judged = {name: dots for name, dots in judged.items() if dots}
    if judged:
        yield from error_strips(judged, colours, "memory" if which == "mem_GiB" else "the time")
    else:
        yield note("These rows are scored by another metric that they state.")


def _plot(sources: Dots, colours: Mapping[str, str]) -> Iterator[str]:
    """Predicted against measured; sources after the largest ones share a colour."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for place, (name, dots) in enumerate(sources.items()):
        shown = name if place < SOURCES else f"{len(sources) - SOURCES} more sources"
        groups.setdefault(shown, []).extend((dot.value.measured, dot.value.predicted) for dot in dots)
    names = {name: f"{name} ({len(points)})" for name, points in groups.items()}
    yield key(names, dict(zip(names, colours.values())))
    yield wide(against(list(groups.items()), "measured", "predicted", BAND))
    every = [point for points in groups.values() for point in points]
    within = sum(abs(y / x - 1) <= BAND for x, y in every)
    yield note(f"Line: predicted = measured; dashed: {100 * BAND:.0f} % away. {within:,} of {len(every):,} lie within.")


PAGE = Page("validate", validation_page)
