"""A plan: its layouts as a table with a link each, where their time goes, and a design file of every line."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from astrarium.config.whole import write_whole
from astrarium.design import dump_design
from astrarium.planner import plan, plan_from
from astrarium.planner.breakdown import PARTS
from astrarium.planner.explore import Progress
from astrarium.planner.shortlist import WORDS, Line, Shortlist
from astrarium.report.pages.html import bar, escape, key, table_of
from astrarium.report.pages.plan import COLOUR, plan_page
from astrarium.report.tables.shortlist import HEAD, remarks, row_of, shortlist_tables
from astrarium.report.tables.table import Table
from astrarium.units import format_time

__all__ = ["plan_found"]

Say = Callable[..., None]
HEADING = 90        # characters of a heading; a longer first line is a note


def plan_found(asked: dict[str, Any], folder: str, say: Say) -> dict[str, Any]:
    """Plan training; a serving plan where limits of latencies are asked for. Raises InputError."""
    if asked.get("purpose") == "serving":
        return _serving(asked, folder, say)
    told = {name: asked[name] for name in ("gpus", "seq", "global_batch", "objective") if asked.get(name)}
    told["progress"] = _progress(say)
    found = plan_from(asked["today"], asked["device"], **told) if asked.get("today") else \
        plan(asked["model"], asked["device"], **told)
    lines = [(str(place), line) for place, line in enumerate(found.lines, 1)]
    lines += [("now", found.today)] if found.today is not None else []
    for place, line in lines:
        dump_design(line.design, os.path.join(folder, f"line{place}.yaml"))
    _page(folder, plan_page(found))
    return {"html": _html(found, lines, folder), "page": True}


def _progress(say: Say) -> Callable[[Progress], None]:
    def show(state: Progress) -> None:
        best = f"; so far {format_time(state.found[0].time)}: {state.found[0].layout}" if state.found else ""
        say(f"{state.device}: {state.simulated:,} of {state.layouts:,} layouts simulated{best}")
    return show


def _html(found: Shortlist, lines: list[tuple[str, Line]], folder: str) -> str:
    several = len({line.device for _, line in lines}) > 1
    rows = [row_of(place, line, several, found.factor) for place, line in lines]
    name = folder.replace(os.sep, "/")
    head = "".join(f'<th class="{"l" if place < 2 else "r"}" scope="col">{escape(each)}</th>'
                   for place, each in enumerate((*HEAD, "")))
    body = "".join("<tr>" + "".join(f'<td class="{"l" if at < 2 else "r"}">{_cell(at, cell, name, place)}</td>'
                                    for at, cell in enumerate(row)) + f"<td>{_beside(name, place)}</td></tr>"
                   for (place, _), row in zip(lines, rows, strict=True))
    longest = max(line.time for _, line in lines)
    used = {part: WORDS[part] for part in PARTS if any(line.breakdown.mean[part] > 0 for _, line in lines)}
    bars = "".join(bar(f"{place}: {line.label}", format_time(line.time), line.breakdown.mean, longest, COLOUR, WORDS)
                   for place, line in lines)
    rest = "".join(map(_rest, [*shortlist_tables(found)][1:-1]))
    return (f'<h2>Layouts, the {"fastest" if found.objective.name == "time" else "best"} first</h2>'
            '<p class="note">A layout leads to its design, whose knobs can be turned.</p>'
            f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
            f"<h2>Parts of a step (mean over all NPUs)</h2>{key(used, COLOUR)}{bars}{rest}"
            f"<details><summary>What was looked at and assumed</summary>{_lines([*remarks(found)])}</details>")


def _cell(at: int, cell: str, name: str, place: str) -> str:
    """A cell of the layouts; the layout leads to its knobs."""
    return f'<a href="/design/{name}/line{place}.yaml">{escape(cell)}</a>' if at == 1 else escape(cell)


def _beside(name: str, place: str) -> str:
    return "" if place == "1" else (f'<a href="/compare?a={name}/line1.yaml&amp;b={name}/line{place}.yaml">'
                                    "compare with 1</a>")


def _rest(table: Table) -> str:
    """A further table. The first line of its title is the heading unless it is long; the others are notes."""
    lines = table.title.splitlines() or [""]
    title = lines.pop(0) if len(lines[0]) <= HEADING else ""
    if not title and lines and lines[0].startswith("interval"):
        title = "Where measured steps lie"
    return (table_of(Table(title, table.align, table.rows, table.head)) if table.rows else "") + _lines(lines)


def _lines(texts: Sequence[str]) -> str:
    """Remarks, a line each."""
    return '<p class="note">' + "<br>".join(map(escape, texts)) + "</p>" if texts else ""


def _page(folder: str, text: str) -> None:
    with write_whole(os.path.join(folder, "page.html")) as stream:
        stream.write(text.encode())


def _serving(asked: dict[str, Any], folder: str, say: Say) -> dict[str, Any]:
    from astrarium.planner.serving import plan_serving, write_serving
    from astrarium.report.pages.serving_plan import PAGE
    from astrarium.report.tables.serving_plan import serving_plan_tables

    told = {name: asked[name] for name in ("gpus", "rate", "prompt", "output") if asked.get(name)}
    found = plan_serving(asked["model"], asked["device"], ttft=asked.get("ttft", ""), tpot=asked.get("tpot", ""),
                         progress=lambda state: say("engines are simulated"), **told)
    name, links = folder.replace(os.sep, "/"), []
    for place, line in enumerate(found.lines, 1):
        write_serving(line, found.service, os.path.join(folder, f"line{place}.yaml"))
        links.append(f'<li>engine {place}: <a href="/file/{name}/line{place}.yaml">serve it</a>, '
                     f'<a href="/design/{name}/line{place}.design.yaml">turn the knobs of its design</a></li>')
    _page(folder, PAGE.write(found))
    return {"html": "".join(_rest(each) for each in serving_plan_tables(found)) + f"<ol>{''.join(links)}</ol>",
            "page": True}
