"""One design: its knobs, the answer that moves with them, and everything that `astrarium run` prints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from astrarium.config import dumps
from astrarium.cost import FIGURES, figures
from astrarium.cost.interval import interval_of
from astrarium.cost.training import conditions
from astrarium.design import Design
from astrarium.report.pages.html import bar, escape, key, table_of
from astrarium.report.pages.page import ShownRun
from astrarium.report.tables.figures import figure_table
from astrarium.report.tables.interval import interval_table, span
from astrarium.report.tables.summary import PARTS, summary_tables, time_table
from astrarium.result import Result
from astrarium.service.web.answers.caches import Caches, Changed
from astrarium.service.web.answers.knobs import Shown, knobs_of, usual
from astrarium.service.web.answers.pictures import pictures
from astrarium.service.web.answers.question import Ask
from astrarium.units import format_bytes, format_time
from astrarium.workload.transformer import Transformer

__all__ = ["answer", "command", "design_page", "details", "saved_text", "tiles"]

COLOURS = dict(zip((name for name, _ in PARTS), ("#4477aa", "#aa3377", "#ccbb44", "#66ccee", "#bbbbbb")))
FIRST = ("mfu", "tokens_per_second", "tokens_per_second_per_npu", "cost_per_tera_tokens", "cost_per_hour")
DIM = re.compile(r"^dims\[(\d+)\]\.")
WORDS = {"workload.global_batch": "samples of a step", "workload.seq": "tokens of a sample",
         "workload.micro_batch": "samples of a micro-batch", "workload.dp": "dp (data)", "workload.tp": "tp (tensor)",
         "workload.pp": "pp (pipeline)", "workload.cp": "cp (context)", "workload.ep": "ep (experts)",
         "workload.sp": "sp (sequence)", "workload.zero": "ZeRO stage", "memory.capacity": "memory capacity",
         "memory.bandwidth": "memory bandwidth", "compute.peak": "compute peak"}
UP = frozenset({"mfu", "tokens_per_second", "tokens_per_second_per_npu"})


def command(name: str, sets: Mapping[str, str], verb: str = "run") -> str:
    """The command line that gives the same, in the folder."""
    return " ".join(["astrarium", verb, shlex.quote(name),
                     *(f"--set {shlex.quote(f'{path}={value}')}" for path, value in sets.items())])


def design_page(question: Ask, caches: Caches) -> dict[str, Any]:
    """The knobs as HTML, with what was changed in its place."""
    changed = caches.changed(question.design, question.sets)
    sets = {**changed.sets, **changed.also}
    knobs = knobs_of(changed.base)
    sections: dict[str, list[Shown]] = {}
    for knob in knobs:
        sections.setdefault(knob.section, []).append(knob)
    first = "".join(_control(knob, sets, "u") for knob in knobs if usual(knob))
    more = "".join(f'<details class="knobs"><summary>{escape(section)} <small>{len(found)}</small></summary>'
                   + "".join(_control(knob, sets, "k") for knob in found if not usual(knob)) + "</details>"
                   for section, found in sections.items())
    return {"html": f'<div class="knobs" id="usual">{first}</div>{more}', "count": len(knobs),
            "what": _what(changed.base)}


def answer(question: Ask, caches: Caches) -> dict[str, Any]:
    """The figures of a changed design, each beside that of the design as it is."""
    changed = caches.changed(question.design, question.sets)
    result = caches.result(changed.design)
    before = caches.result(changed.base) if changed.sets else None
    sets = {**changed.sets, **changed.also}
    parts = [tiles(changed, result, before), _spent(result, before)]
    return {"html": "".join(parts), "also": changed.also, "command": command(question.design, sets),
            "makespan_ps": int(result.makespan_ps)}


def details(question: Ask, caches: Caches) -> dict[str, Any]:
    """All tables and pictures of `astrarium run`."""
    changed = caches.changed(question.design, question.sets)
    design, result = changed.design, caches.result(changed.design)
    within = interval_of(design)
    more = (figure_table(figures(design, result, ()), conditions(design), within), interval_table(within, result))
    shown = ShownRun(design, result, question.design, more)
    tables = "".join(map(table_of, summary_tables(result, f"Times and memory of {question.design}", *more)))
    return {"html": pictures("run", shown) + tables}


def saved_text(question: Ask, caches: Caches) -> dict[str, Any]:
    """A changed design as the text of a design file."""
    return {"text": dumps(caches.changed(question.design, question.sets).design)}


def _what(design: Design) -> str:
    """What is run, in one line."""
    work, stack = design.workload, f", {design.stack}" if design.stack else ""
    if isinstance(work, Transformer):
        axes = " ".join(f"{axis} {getattr(work, axis)}" for axis in ("dp", "tp", "pp", "cp", "ep")
                        if getattr(work, axis) > 1)
        return f"{design.network.npus:,} NPUs, {axes or 'one rank'}, {design.compute.tag} compute{stack}"
    return f"{design.network.npus:,} NPUs, workload {work.tag}, {design.compute.tag} compute{stack}"


def tiles(changed: Changed, result: Result, before: Result | None) -> str:
    """The figures that people look at first."""
    within = interval_of(changed.design)
    around = "" if within is None or not within.known else span(within, "makespan", float(result.at_least))
    training = isinstance(changed.design.workload, Transformer)
    old = None if before is None else float(before.makespan)
    found = [_tile("step time" if training else "makespan", format_time(float(result.makespan)),
                   _change(float(result.makespan), old, False), f"measured steps lie in {around}" if around else "")]
    now = figures(changed.design, result, ())
    then = {} if before is None else figures(changed.base, before, ())
    for name in FIRST:
        if name in now:
            found.append(_tile(FIGURES[name].label or name, FIGURES[name].shown(now[name]),
                               _change(now[name], then.get(name), name in UP),
                               "" if within is None or not within.known else span(within, name, now[name])))
    found.append(_memory(result, before))
    return f'<div class="tiles" role="region" aria-label="Figures" tabindex="0">{"".join(found)}</div>'


def _memory(result: Result, before: Result | None) -> str:
    row = next(each for each in time_table(result, "").rows if each[0] == "peak memory")
    if result.peak_memory is None:
        return _tile("peak memory", "unknown", "", row[3])
    old = None if before is None or before.peak_memory is None else float(before.peak_memory)
    bad = ' bad' if "NOT" in row[3] else ""
    return _tile("peak memory", format_bytes(float(result.peak_memory)),
                 _change(float(result.peak_memory), old, False), f"{row[2]} {row[3]}".strip(), bad)


def _tile(label: str, value: str, change: str, note: str, kind: str = "") -> str:
    number, space, unit = value.partition(" ")
    return (f'<div class="tile{kind}"><span class="label">{escape(label)}</span>'
            f'<b>{escape(number)}{space}<i>{escape(unit)}</i></b>{change}'
            f'<small>{escape(note)}</small></div>')


def _change(now: float, then: float | None, up: bool) -> str:
    """`+3.2 %` with its colour; nothing where nothing was changed."""
    if then is None or not then:
        return ""
    share = now / then - 1
    if abs(share) < 5e-6:
        return '<span class="change">unchanged</span>'
    kind = "better" if (share > 0) == up else "worse"
    text = f"x {share + 1:.3g}" if share >= 1 else f"{100 * share:+.{2 if abs(share) < 0.1 else 3}g} %"
    return f'<span class="change {kind}">{escape(text)}<span class="vh"> ({kind})</span></span>'


def _spent(result: Result, before: Result | None) -> str:
    """What the time of the last rank goes into, now and before."""
    runs = [("now", result)] + ([("before", before)] if before is not None else [])
    longest = float(max(each.makespan_ps for _, each in runs))
    if longest <= 0:
        return ""
    spent = [(name, each, _parts(each)) for name, each in runs]
    used = {name: text for name, text in PARTS if any(parts[name] for _, _, parts in spent)}
    lines = "".join(bar(name, f"{format_time(each.makespan_ps / 1e3)}, compute "
                        f"{100 * parts['compute'] / max(each.makespan_ps, 1):.1f} %", parts, longest, COLOURS,
                        {part: f"{text}: {format_time(parts[part] / 1e3)}" for part, text in PARTS})
                    for name, each, parts in spent)
    return f"<h2>Where the time of the last rank goes</h2>{key(used, COLOURS)}{lines}"


def _parts(result: Result) -> dict[str, float]:
    row = int(result.outcome.row[result.last_rank])
    return {name: float(getattr(result.ranks, name)[row]) for name, _ in PARTS}


def _control(knob: Shown, sets: Mapping[str, str], prefix: str) -> str:
    """A label, and a slider with a field, or a list."""
    name, now = f"{prefix}-{knob.path}", sets.get(knob.path, knob.value)
    label = (f'<label for="{escape(name)}" title="{escape(f"{knob.path}: {knob.help}")}">'
             f'{escape(_spoken(knob))}</label>')
    shared = f'data-path="{escape(knob.path)}" data-base="{escape(knob.value)}"'
    if knob.kind == "follows":
        control = (f'<span class="why">follows from the others</span><input type="text" id="{escape(name)}" {shared} '
                   f'value="{escape(now)}" readonly>')
    elif knob.kind == "list":
        options = "".join(f'<option value="{escape(each)}"{" selected" if each == now else ""}>{escape(each)}</option>'
                          for each in knob.values)
        control = f'<select id="{escape(name)}" {shared}>{options}</select>'
    else:
        field = (f'<input type="text" id="{escape(name)}" {shared} value="{escape(now)}" autocomplete="off" '
                 f'spellcheck="false" maxlength="40">')
        slider = ""
        if knob.kind == "range":
            at = knob.values.index(now) if now in knob.values else knob.at
            slider = (f'<input type="range" min="0" max="{len(knob.values) - 1}" value="{at}" '
                      f'data-values="{escape("|".join(knob.values))}" aria-label="{escape(knob.path)}" '
                      f'aria-valuetext="{escape(now)}">')
        control = slider + field
    return f'<div class="knob" data-find="{escape(f"{knob.path} {knob.help}".lower())}">{label}{control}</div>'


def _spoken(knob: Shown) -> str:
    """The name of a knob as people read it."""
    found = WORDS.get(knob.path) or DIM.sub(r"dim \1: ", knob.path.removeprefix(f"{knob.section}."))
    return found.replace("_", " ").replace(".", " › ").replace("npus", "NPUs").replace("npu", "NPU")
