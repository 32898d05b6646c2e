"""Measured rows beside predictions as one HTML page that needs nothing else: plots per metric, and the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from astrarium.report.html_page import escape, key, note, page, table_of
from astrarium.report.svg import COLOURS, against
from astrarium.report.validation import validation_tables
from astrarium.validate.predict import Prediction
from astrarium.validate.verdict import Validation

__all__ = ["validation_page"]

BAND = 0.1
SOURCES = 9        # with a colour of their own
Points = Mapping[str, list[tuple[float, float]]]


def validation_page(made: Validation) -> str:
    """The page."""
    rows, judged = len(made.found), sum(isinstance(each, Prediction) for each in made.found)
    parts = [*_plots(made), *(table_of(table) for table in validation_tables(made))]
    return page("Measured and predicted", f"{rows:,} rows, {judged:,} of them predicted. Time is simulated.", parts)


def _plots(made: Validation) -> Iterator[str]:
    """Per metric: rows that no fit has seen, those that a fit has seen, and those that leave something open."""
    for metric in dict.fromkeys(metric for metric, _, _ in _values(made)):
        groups: dict[str, dict[str, list[tuple[float, float]]]] = {}
        for mine, kind, (source, *point) in _values(made):
            if mine == metric:
                groups.setdefault(kind, {}).setdefault(source, []).append((point[0], point[1]))
        for kind in ("unseen", "fitted", "incomplete"):
            if kind in groups:
                yield from _plot(metric, kind, groups[kind])


def _plot(metric: str, kind: str, sources: Points) -> Iterator[str]:
    words = {"unseen": "rows that no fit has seen", "fitted": "rows on which a stack was fitted",
             "incomplete": "rows that do not state everything"}[kind]
    large = sorted(sources, key=lambda name: (-len(sources[name]), name))
    named = [(name, sources[name]) for name in large[:SOURCES]]
    rest = [point for name in large[SOURCES:] for point in sources[name]]
    groups = [*named, *([(f"{len(large) - SOURCES} more sources", rest)] if rest else [])]
    count = sum(map(len, sources.values()))
    yield f"<h2>{escape(metric)}: {escape(words)} ({count:,})</h2>"
    names = {name: f"{name} ({len(points)})" for name, points in groups}
    yield key(names, {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)})
    yield '<div class="wide">' + against(groups, "measured", "predicted", BAND) + "</div>"
    within = sum(abs(y / x - 1) <= BAND for points in sources.values() for x, y in points)
    yield note(f"Line: predicted = measured; dashed: {100 * BAND:.0f} % away. {within:,} of {count:,} lie within.")


def _values(made: Validation) -> Iterator[tuple[str, str, tuple[str, float, float]]]:
    """(metric, kind, (source, measured, predicted)) of everything that can be drawn on logarithmic axes."""
    for each, fitted in zip(made.found, made.fitted, strict=True):
        if isinstance(each, Prediction):
            kind = "fitted" if fitted else "unseen" if each.meant.stated else "incomplete"
            for value in each.values:
                if value.measured > 0 and value.predicted > 0:
                    yield value.metric, kind, (each.row.source, float(value.measured), float(value.predicted))
