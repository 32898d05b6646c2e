"""A Shortlist as one HTML page that needs nothing else: layouts, their intervals, and plots of the best one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from astrarium.lower.kept import Kept
from astrarium.planner.shortlist import Line, Shortlist
from astrarium.report.pages.about import About, about, download
from astrarium.report.pages.figures import figures
from astrarium.report.pages.html import Download, escape, note, page, section, table, table_of
from astrarium.report.pages.page import Page, ShownRun
from astrarium.report.tables.shortlist import HEAD, caution, counted, intervals, money, remarks, row_of
from astrarium.report.tables.today import changes, single_changes, verdict
from astrarium.simulate import simulate
from astrarium.units import format_time

__all__ = ["PAGE", "plan_page", "step_first"]

EXPECTED = "80 % of measurements are expected within these ranges."


def plan_page(found: Shortlist) -> str:
    """The page."""
    title = f"{found.model} on {counted(found)} x {' or '.join(dict.fromkeys(line.device for line in found.lines))}"
    drawn = [("Today", found.today), ("The fastest layout" if found.objective.name == "time" else "The best layout",
                                      found.best)]
    parts = list(_layouts(found))
    for name, line in drawn:
        parts += _line(name, line) if line is not None else []
    best = found.best
    lead = (f"{drawn[1][0]}: {best.label}, {format_time(best.time)} a step of {found.tokens:,} tokens, MFU "
            f"{100 * best.mfu:.1f} %. All figures are simulated.")
    if found.today is not None:
        lead = " ".join(verdict(found.today, found))
    facts = about(found.best.design)
    return page(title, lead, parts, About({**facts.facts, "model": str(found.model), "layout": best.label,
                                           "with": "; ".join(found.models)}, facts.files))


def _lines(found: Shortlist) -> list[tuple[str, Line]]:
    return [*((str(place), line) for place, line in enumerate(found.lines, 1)),
            *([("now", found.today)] if found.today is not None else [])]


def step_first(cells: Sequence[str]) -> tuple[str, ...]:
    """Cells of a row under HEAD with the memory after step, MFU and tokens, so that a phone shows layout and step."""
    return (*cells[:2], *cells[3:6], cells[2], *cells[6:])


def _layouts(found: Shortlist) -> Iterator[str]:
    best = "fastest" if found.objective.name == "time" else "best"
    several = len({line.device for line in found.lines}) > 1 or len(found.counts) > 1
    rows = [(*step_first(row_of(place, line, several, found.factor)),
             Download("save", f"{place}.yaml", download(line.design)["design.yaml"])) for place, line in _lines(found)]
    parts = [table((*step_first(HEAD), "design"), rows, "<<" + ">" * (len(HEAD) - 1), "Layouts")]
    if any(line.figures for line in found.lines):
        prices = money(found)
        parts.append(table(prices.head, prices.rows, prices.align, "Prices"))
    if caution(found):
        parts.insert(0, note(caution(found)))
    yield section(f"Layouts, the {best} first", *parts)
    yield from figures("plan", found)
    within = intervals(found)
    yield section("Intervals of the predictions", *([note(EXPECTED)] if within.rows else []),
                  *map(note, within.title.splitlines()),
                  table(within.head, within.rows, within.align, "Intervals") if within.rows else "")
    lost = [(place, line.lost) for place, line in _lines(found) if line.lost]
    if lost:
        yield section("Slower than 1 by" if found.objective.name == "time" else "More than 1 by",
                      table(("", "why"), lost, "<<", "Slower than 1 by"))
    if found.today is not None:
        yield from (table_of(each) for each in (single_changes(found.today, found), changes(found.today, found))
                    if each is not None)
    yield section("Rules, assumptions and prices" if any(line.figures for line in found.lines) else
                  "Rules and assumptions", '<p class="note">' + "<br>".join(map(escape, remarks(found))) + "</p>")


def _line(name: str, line: Line) -> Iterator[str]:
    """The plots of one line's run: pipeline, memory, kernels; where its time goes if ranks differ, as the plot of all
    layouts shows the mean."""
    shown = ShownRun(line.design, simulate(line.design, kept=Kept()), name)
    alike = ("breakdown",) if len(np.unique(shown.result.outcome.row)) == 1 else ()
    yield from figures("run", shown, without=("critical_path", "links", "traffic", "busbw", *alike), of=f"{name}: ")


PAGE = Page("plan", plan_page)
