"""A Shortlist as one HTML page that needs nothing else: layouts, where the time goes, the pipeline, memory."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence

from astrarium.lower.kept import Kept
from astrarium.planner.breakdown import PARTS
from astrarium.planner.shortlist import WORDS, Line, Shortlist
from astrarium.planner.timeline import Unit, units_of
from astrarium.report.shortlist import HEAD, changes, intervals, remarks, row_of
from astrarium.report.svg import COLOURS
from astrarium.simulate import simulate
from astrarium.units import format_bytes, format_time
from astrarium.workload.footprint import KINDS, footprints
from astrarium.workload.training import recipe_of
from astrarium.workload.transformer import Transformer

__all__ = ["plan_page"]

_STYLE = ("body{font:15px/1.45 sans-serif;max-width:1180px;margin:1.5em auto;padding:0 .8em;color:#222}"
          "h1{font-size:1.4em}h2{font-size:1.15em;margin-top:1.6em}"
          "table{border-collapse:collapse;white-space:nowrap}td,th{padding:.2em .45em;border-bottom:1px solid #ddd;"
          "text-align:right}td:nth-child(2),th:nth-child(2){text-align:left}th{background:#f4f4f4}"
          ".wide{overflow-x:auto}.row{margin:.45em 0}"
          ".bar{display:flex;height:1.3em;background:#f4f4f4;position:relative}"
          ".bar i{display:block;height:100%}.bar b{position:absolute;top:-2px;bottom:-2px;width:2px;background:#c00}"
          ".name{display:flex;justify-content:space-between;gap:0 1em;flex-wrap:wrap}"
          ".key span{display:inline-block;margin-right:1.1em}.key i{display:inline-block;width:.8em;height:.8em;"
          "margin-right:.35em}.gantt svg{width:100%;height:1.6em;display:block;background:#f4f4f4}p.note{color:#555}")
COLOUR = {**dict(zip(PARTS, ("#4477aa", "#aa3377", "#ee6677", "#ee8866", "#ccbb44", "#66ccee", "#44bb99", "#dddddd"))),
          **dict(zip(KINDS, COLOURS)), "forward": "#4477aa", "backward": "#228833", "step": "#ccbb44"}
SHOWN = 16          # stages


def plan_page(found: Shortlist) -> str:
    """The page."""
    title = f"{found.model} on {found.npus:,} x {' or '.join(dict.fromkeys(line.device for line in found.lines))}"
    drawn = [("today", found.today), ("the fastest layout", found.best)]
    parts = [*_layouts(found), *_times(found)]
    for name, line in drawn:
        parts += _stages(name, line) if line is not None else []
    text = "\n".join(parts)
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width='
            f'device-width"><title>{_e(title)}</title><style>{_STYLE}</style></head><body>\n<h1>{_e(title)}</h1>\n'
            f"<p>{found.tokens:,} tokens a step, with {_e('; '.join(found.models))}. All figures are simulated."
            f"</p>\n{text}\n</body></html>\n")


def _e(value: object) -> str:
    return html.escape(str(value))


def _lines(found: Shortlist) -> list[tuple[str, Line]]:
    return [*((str(place), line) for place, line in enumerate(found.lines, 1)),
            *([("now", found.today)] if found.today is not None else [])]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = "".join(f"<th>{_e(each)}</th>" for each in head)
    text = "".join("<tr>" + "".join(f"<td>{_e(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{cells}</tr>{text}</table></div>'


def _layouts(found: Shortlist) -> Iterator[str]:
    several = len({line.device for line in found.lines}) > 1
    yield "<h2>Layouts, the fastest first</h2>"
    yield _table(HEAD, [row_of(place, line, several) for place, line in _lines(found)])
    yield "<h3>Where they were measured</h3>"
    within = intervals(found)
    yield f"<p class=note>{_e(within.title)}</p>" + (_table(within.head, within.rows) if within.rows else "")
    if found.today is not None:
        table = changes(found.today, found.best)
        yield f"<p>{_e(table.title)}</p>" + (_table(table.head, table.rows) if table.rows else "")
    yield "<p class=note>" + "<br>".join(map(_e, remarks(found))) + "</p>"


def _key(names: Mapping[str, str]) -> str:
    return '<p class="key">' + "".join(f'<span><i style="background:{COLOUR[name]}"></i>{_e(text)}</span>'
                                       for name, text in names.items()) + "</p>"


def _bar(name: str, right: str, parts: Mapping[str, float], whole: float, mark: float | None = None) -> str:
    pieces = "".join(f'<i style="width:{100 * value / whole:.3f}%;background:{COLOUR[part]}" '
                     f'title="{_e(WORDS.get(part, part))}"></i>' for part, value in parts.items() if value > 0)
    line = "" if mark is None else f'<b style="left:{100 * mark / whole:.3f}%"></b>'
    return (f'<div class="row"><div class="name"><span>{_e(name)}</span><span>{_e(right)}</span></div>'
            f'<div class="bar">{pieces}{line}</div></div>')


def _times(found: Shortlist) -> Iterator[str]:
    every = _lines(found)
    longest = max(line.time for _, line in every)
    used = {part: WORDS[part] for part in PARTS if any(line.breakdown.mean[part] > 0 for _, line in every)}
    yield "<h2>Where a step goes (mean over all NPUs)</h2>" + _key(used)
    for place, line in every:
        yield _bar(f"{place}: {line.layout}", format_time(line.time), line.breakdown.mean, longest)
        if line.lost:
            yield f'<p class="note">slower than 1: {_e(line.lost)}</p>'


def _stages(name: str, line: Line) -> Iterator[str]:
    """The stages of one line: time, pipeline, memory."""
    workload = line.design.workload
    assert isinstance(workload, Transformer)
    stages = line.breakdown.stages
    if len(stages) > 1:
        yield f"<h2>Stages of {_e(name)}: {_e(line.layout)}</h2>"
        for place, parts in list(enumerate(stages))[:SHOWN]:
            yield _bar(f"stage {place}", f"bubble {100 * parts['bubble'] / line.time:.1f} %", parts, line.time)
    units = units_of(simulate(line.design, kept=Kept()), workload)
    if units:
        yield f"<h2>Pipeline of {_e(name)}</h2>" + _key({"forward": "forward", "backward": "backward",
                                                         "step": "optimizer"})
        yield f'<p class="note">{_e(line.layout)}: 0 to {format_time(line.time)}; grey: nothing computes.</p>'
        yield "".join(_gantt(place, each, line.time) for place, each in list(enumerate(units))[:SHOWN])
    yield from _memory(name, line, workload)
    if len(stages) > SHOWN:
        yield f'<p class="note">The first {SHOWN} of {len(stages)} stages are drawn.</p>'


def _gantt(stage: int, units: Sequence[Unit], whole: float) -> str:
    boxes = "".join(
        f'<rect x="{1000 * unit.start / whole:.2f}" y="1" height="18" fill="{COLOUR[unit.way]}" stroke="#fff" '
        f'stroke-width="0.4" width="{max(0.3, 1000 * (unit.end - unit.start) / whole):.2f}"/>' for unit in units)
    return (f'<div class="gantt"><span>stage {stage}</span><svg viewBox="0 0 1000 20" preserveAspectRatio="none" '
            f'role="img" aria-label="stage {stage}">{boxes}</svg></div>')


def _memory(name: str, line: Line, workload: Transformer) -> Iterator[str]:
    found = footprints(recipe_of(workload))
    whole = 1.04 * max(line.capacity if line.capacity < float("inf") else 0.0, *(each.total for each in found))
    yield f"<h2>Memory of {_e(name)}, when it is fullest</h2>" + _key({kind: kind for kind in KINDS})
    yield f'<p class="note">Red: the capacity, {format_bytes(line.capacity)}.</p>'
    for place, each in list(enumerate(found))[:SHOWN]:
        yield _bar(f"stage {place}" if len(found) > 1 else "every NPU", format_bytes(each.total),
                   {kind: getattr(each, kind) for kind in KINDS}, whole, line.capacity)
