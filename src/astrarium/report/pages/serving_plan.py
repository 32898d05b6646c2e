"""A ServingPlan as one HTML page that needs nothing else: engines, intervals of their rates, loads, figures by load."""

from __future__ import annotations

from collections.abc import Iterator

from astrarium.planner.serving.shortlist import Line, ServingPlan
from astrarium.report.pages.about import About
from astrarium.report.pages.figures import figures
from astrarium.report.pages.html import escape, note, page, section, table, table_of
from astrarium.report.pages.page import Page
from astrarium.report.tables.serving_plan import front_table, head_of, row_of, serving_plan_remarks

__all__ = ["PAGE", "serving_plan_page"]


def serving_plan_page(found: ServingPlan) -> str:
    """The page."""
    service = found.service
    devices = ", ".join(dict.fromkeys(line.device for line in found.lines))
    lead = f"{service.mix.words.capitalize()}, within {service.slo}. All figures are simulated."
    return page(f"{service.name} {found.goal.text}: {devices}", lead, [
        *_engines(found), *figures("plan_serving", found), table_of(front_table(found)),
        section("Rules and assumptions",
                '<p class="note">' + "<br>".join(map(escape, serving_plan_remarks(found))) + "</p>")],
        About({"model": str(service.name), "device": devices, "with": "; ".join(found.models)}))


def _lines(found: ServingPlan) -> list[tuple[str, Line]]:
    return [*((str(place), line) for place, line in enumerate(found.lines, 1)),
            *([("now", found.today)] if found.today is not None else [])]


def _engines(found: ServingPlan) -> Iterator[str]:
    yield section("Engines, the best first",
                  table(head_of(found), [row_of(place, line, found) for place, line in _lines(found)], "", "Engines"),
                  *(note(f"{place} beside 1: {line.lost}") for place, line in _lines(found) if line.lost))


PAGE = Page("plan_serving", serving_plan_page)
