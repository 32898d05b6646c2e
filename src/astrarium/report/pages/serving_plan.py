"""A ServingPlan as one HTML page that needs nothing else: engines, intervals of their rates, loads, figures by load."""

from __future__ import annotations

from collections.abc import Iterator

from astrarium.planner.serving.shortlist import Line, ServingPlan
from astrarium.report.pages.about import About
from astrarium.report.pages.html import escape, note, page, row, section, table, wide
from astrarium.report.pages.page import Page
from astrarium.report.svg.charts import Area, Mark, Ruler, points, ruler_line, strip
from astrarium.report.tables.serving_plan import front_table, head_of, row_of, serving_plan_remarks
from astrarium.units import format_time

__all__ = ["PAGE", "serving_plan_page"]

HEIGHT = 26     # px of a row
MARGIN = 0.04   # of the ruler, at both ends


def serving_plan_page(found: ServingPlan) -> str:
    """The page."""
    service = found.service
    devices = ", ".join(dict.fromkeys(line.device for line in found.lines))
    lead = f"{service.mix.words.capitalize()}, within {service.slo}. All figures are simulated."
    return page(f"{service.name} {found.goal.text}: {devices}", lead, [
        *_engines(found), *_rates(found), *_loads(found),
        section("Rules and assumptions",
                '<p class="note">' + "<br>".join(map(escape, serving_plan_remarks(found))) + "</p>")],
        About({"model": str(service.name), "device": devices, "with": "; ".join(found.models)}))


def _lines(found: ServingPlan) -> list[tuple[str, Line]]:
    return [*((str(place), line) for place, line in enumerate(found.lines, 1)),
            *([("now", found.today)] if found.today is not None else [])]


def _name(place: str, line: Line) -> str:
    engine = line.trial.candidate.engine
    return f"{place}: {line.device}, {engine.words}, {engine.format}"


def _engines(found: ServingPlan) -> Iterator[str]:
    yield section("Engines, the best first",
                  table(head_of(found), [row_of(place, line, found) for place, line in _lines(found)], "", "Engines"),
                  *(note(f"{place} beside 1: {line.lost}") for place, line in _lines(found) if line.lost))


def _rates(found: ServingPlan) -> Iterator[str]:
    """Rates of a GPU with their intervals, on one ruler."""
    every = [(place, line, *_of_gpu(line)) for place, line in _lines(found)]
    ends = [end for _, _, rate, low, high in every for end in (rate, low, high)]
    margin = MARGIN * ((max(ends) - min(ends)) or max(ends))
    rows: list[str] = []
    ruler, best = Ruler(min(ends) - margin, max(ends) + margin), every[0]
    for place, line, rate, low, high in every:
        around = f" ({low:,.3g} to {high:,.3g})" if line.span else " (no interval)"
        words = f"{rate:,.3g}{around}" + (", undecided against 1" if line.tie else "")
        areas = [Area(best[3], best[4], "#ececec", HEIGHT), Area(low, high, "#8fb0d0", 8)] if line.span else []
        mark = Mark(rate, "diamond" if line is best[1] else "dot", "#174a7c", filled=line.span is not None,
                    says=_name(place, line))
        rows.append(row(_name(place, line), words, strip(ruler, words, HEIGHT, areas, [mark],
                                                         [(best[2], "#555", "3 3")]), beside=True))
    rows.append(row("", "", ruler_line(ruler, lambda value: f"{value:,.3g}"), beside=True))
    within = found.best.within
    rows.append(note(("" if within is None else f"{within.words}. ") + "Grey and dashed: interval and rate of "
                     "the best."))
    yield section("Requests per second and GPU", *rows)


def _of_gpu(line: Line) -> tuple[float, float, float]:
    npus, rate = line.trial.candidate.engine.npus, line.trial.rate
    low, high = line.span or (rate, rate)
    return rate / npus, low / npus, high / npus


def _loads(found: ServingPlan) -> Iterator[str]:
    """The front, and figures with limits by load."""
    tried = [(place, line, sorted([*line.trial.lower, *line.trial.found.tried], key=lambda each: each.rate))
             for place, line in _lines(found)]
    groups = [(f"line {place}", [(line.point(each).user, line.point(each).npu) for each in some
                                    if not each.served.saturated]) for place, line, some in tried]
    front = front_table(found)
    yield section("Tokens per second of a user and of a GPU",
                  wide(points([group for group in groups if group[1]], "output tokens/s of a user",
                              "output tokens/s of a GPU")),
                  note(front.title), table(front.head, front.rows, front.align, "Front"))
    for limit in found.service.slo.limits:
        yield section(f"{limit}, by requests per second of an engine", wide(points(
            [(f"line {place}", [(each.rate, limit.of(each.served)) for each in some if not each.served.saturated])
             for place, _, some in tried], "requests/s of an engine", f"{limit.metric.upper()} {limit.statistic}",
            y_shown=format_time)), half=True)


PAGE = Page("plan_serving", serving_plan_page)
