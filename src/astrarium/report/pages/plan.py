"""A Shortlist as one HTML page that needs nothing else: layouts, their intervals, where the time goes, the pipeline,
memory."""

from __future__ import annotations

from collections.abc import Iterator

from astrarium.lower.kept import Kept
from astrarium.planner.breakdown import PARTS
from astrarium.planner.shortlist import WORDS, Line, Shortlist
from astrarium.report.pages.about import About, about, download
from astrarium.report.pages.html import Download, bar, escape, key, note, page, section, table, table_of
from astrarium.report.pages.intervals import interval_rows
from astrarium.report.pages.page import Page
from astrarium.report.pages.roofline import roofline_part
from astrarium.report.pages.stages import SHOWN, memory_bars, memory_over_time, pipeline
from astrarium.report.tables.shortlist import HEAD, changes, counted, intervals, money, remarks, row_of, single_changes
from astrarium.simulate import simulate
from astrarium.units import format_time
from astrarium.workload.transformer import Transformer

__all__ = ["PAGE", "plan_page"]

COLOUR = dict(zip(PARTS, ("#4477aa", "#aa3377", "#ee6677", "#ee8866", "#ccbb44", "#66ccee", "#44bb99", "#dddddd")))


def plan_page(found: Shortlist) -> str:
    """The page."""
    title = f"{found.model} on {counted(found)} x {' or '.join(dict.fromkeys(line.device for line in found.lines))}"
    drawn = [("today", found.today), ("the fastest layout" if found.objective.name == "time" else "the best layout",
                                      found.best)]
    parts = [*_layouts(found), *_times(found)]
    for name, line in drawn:
        parts += _stages(name, line) if line is not None else []
    lead = f"{found.tokens:,} tokens a step. All figures are simulated."
    facts = about(found.best.design)
    return page(title, lead, parts, About({**facts.facts, "model": str(found.model), "with": "; ".join(found.models)},
                                          facts.files))


def _lines(found: Shortlist) -> list[tuple[str, Line]]:
    return [*((str(place), line) for place, line in enumerate(found.lines, 1)),
            *([("now", found.today)] if found.today is not None else [])]


def _layouts(found: Shortlist) -> Iterator[str]:
    best = "fastest" if found.objective.name == "time" else "best"
    several = len({line.device for line in found.lines}) > 1 or len(found.counts) > 1
    rows = [(*row_of(place, line, several, found.factor),
             Download("save", f"{place}.yaml", download(line.design)["design.yaml"])) for place, line in _lines(found)]
    parts = [table((*HEAD, "design"), rows, "<<" + ">" * (len(HEAD) - 1), "Layouts")]
    if any(line.figures for line in found.lines):
        prices = money(found)
        parts.append(table(prices.head, prices.rows, prices.align, "Prices"))
    yield section(f"Layouts, the {best} first", *parts)
    within = intervals(found)
    yield section("Step times and measured intervals", *map(note, within.title.splitlines()),
                  *interval_rows(_lines(found)),
                  table(within.head, within.rows, within.align, "Intervals") if within.rows else "")
    if found.today is not None and found.measured is not None:
        yield table_of(single_changes(found.today, found))
    if found.today is not None:
        yield table_of(changes(found.today, found))


    yield section("Rules, assumptions and prices" if any(line.figures for line in found.lines) else
                  "Rules and assumptions", '<p class="note">' + "<br>".join(map(escape, remarks(found))) + "</p>")


def _times(found: Shortlist) -> Iterator[str]:
    every = _lines(found)
    longest = max(line.time for _, line in every)
    used = {part: WORDS[part] for part in PARTS if any(line.breakdown.mean[part] > 0 for _, line in every)}
    parts = [key(used, COLOUR)]
    for place, line in every:
        parts.append(bar(f"{place}: {line.label}", format_time(line.time), line.breakdown.mean, longest, COLOUR, WORDS))
        parts += [note(f"slower than 1: {line.lost}")] if line.lost else []
    yield section("Parts of a step (mean over all NPUs)", *parts)


def _stages(name: str, line: Line) -> Iterator[str]:
    """The stages of one line: time, pipeline, memory."""
    workload = line.design.workload
    assert isinstance(workload, Transformer)
    stages = line.breakdown.stages
    if len(stages) > 1:
        yield section(f"Stages of {name}: {line.label}", *(
            bar(f"stage {place}", f"bubble {100 * parts['bubble'] / line.time:.1f} %", parts, line.time, COLOUR, WORDS)
            for place, parts in list(enumerate(stages))[:SHOWN]))
    result = simulate(line.design, kept=Kept())
    yield from pipeline(name, result, workload, line.label)
    yield from memory_bars(name, workload, line.capacity)
    yield from memory_over_time(name, result, line.capacity)
    yield from roofline_part(line.design, result)


PAGE = Page("plan", plan_page)
