"""One design: its knobs, the answer that moves with them, and everything that `astrarium run` prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from astrarium.config.yamlfile import scalar
from astrarium.cost.interval import interval_of
from astrarium.design import Design
from astrarium.report.pages.html import bar, escape, key
from astrarium.report.tables.interval import span
from astrarium.report.tables.summary import PARTS, makespan_words, time_table
from astrarium.result import Result
from astrarium.service.answer import Answer, Number
from astrarium.service.context import Context
from astrarium.service.operations.files import Show, show
from astrarium.service.operations.run import Run, run
from astrarium.service.web.answers.axes import followed
from astrarium.service.web.answers.knobs import Shown, knobs_of, usual
from astrarium.service.web.answers.question import Ask
from astrarium.service.web.answers.serving import saved_serving, served_answer, served_details, serving_knobs
from astrarium.service.web.answers.shown import shown
from astrarium.service.web.answers.tiles import strip, tile
from astrarium.units import format_time
from astrarium.workload.transformer import Transformer

__all__ = ["answer", "answered", "changes_of", "design_page", "details", "saved_text", "tiles"]

COLOURS = dict(zip((name for name, _ in PARTS), ("#4477aa", "#aa3377", "#ccbb44", "#66ccee", "#228833", "#bbbbbb")))
FIRST = ("mfu", "tokens_per_second", "tokens_per_second_per_npu", "cost_per_tera_tokens", "cost_per_hour")
DIM = re.compile(r"^dims\[(\d+)\]\.")
WORDS = {"workload.global_batch": "samples of a step", "workload.seq": "tokens of a sample",
         "workload.micro_batch": "samples of a micro-batch", "workload.dp": "dp (data)", "workload.tp": "tp (tensor)",
         "workload.pp": "pp (pipeline)", "workload.cp": "cp (context)", "workload.ep": "ep (experts)",
         "workload.sp": "sp (sequence)", "workload.zero": "ZeRO stage", "memory.capacity": "memory capacity",
         "memory.bandwidth": "memory bandwidth", "compute.peak": "compute peak"}
UP = frozenset({"mfu", "tokens_per_second", "tokens_per_second_per_npu"})


def changes_of(name: str, sets: Mapping[str, str], context: Context) -> tuple[dict[str, Any], dict[str, str]]:
    """Changes of a design as a request has them, and those of them that follow from the others."""
    also = followed(context.design(name, {}), sets)
    return {path: scalar(text) for path, text in {**sets, **also}.items()}, also


def answered(name: str, changes: Mapping[str, Any], context: Context, *, brief: bool = True) -> Answer:
    """The answer of `run`."""
    return run(Run(design=name, changes=dict(changes), brief=brief), context)


def design_page(question: Ask, context: Context) -> dict[str, Any]:
    """The knobs as HTML, with what was changed in its place; `capacity`: whether the design has a memory capacity."""
    serving, capacity = context.is_serving(question.design), False
    if serving:
        sets, knobs, what = dict(question.sets), serving_knobs(question.design, context), "a stream of requests"
    else:
        base = context.design(question.design, {})
        sets, knobs, what = {**question.sets, **followed(base, question.sets)}, knobs_of(base), _what(base)
        capacity = base.memory.capacity is not None
    sections: dict[str, list[Shown]] = {}
    for knob in knobs:
        sections.setdefault(knob.section, []).append(knob)
    first = "".join(_control(knob, sets, "u") for knob in knobs if usual(knob))
    more = "".join(f'<details class="knobs"><summary>{escape(section)} <small>{len(found)}</small></summary>'
                   + "".join(_control(knob, sets, "k") for knob in found if not usual(knob)) + "</details>"
                   for section, found in sections.items())
    return {"html": f'<div class="knobs" id="usual">{first}</div>{more}', "count": len(knobs), "what": what,
            "serving": serving, "capacity": capacity}


def answer(question: Ask, context: Context) -> dict[str, Any]:
    """The figures of a changed design, each beside that of the design as it is."""
    if context.is_serving(question.design):
        return served_answer(question, context)
    changes, also = changes_of(question.design, question.sets, context)
    now = answered(question.design, changes, context)
    before = answered(question.design, {}, context) if changes else None
    html = tiles(now, before) + _spent(now.result.result, None if before is None else before.result.result)
    return {"html": html, "also": also, "command": now.command, "makespan_ps": now.numbers[0].value}


def details(question: Ask, context: Context) -> dict[str, Any]:
    """All tables and pictures of `astrarium run`, or `serve`."""
    if context.is_serving(question.design):
        return served_details(question, context)
    changes, _ = changes_of(question.design, question.sets, context)
    return {"html": shown(answered(question.design, changes, context, brief=False))}


def saved_text(question: Ask, context: Context) -> dict[str, Any]:
    """A changed design as the text of a design file, or a serving file."""
    if context.is_serving(question.design):
        return saved_serving(question, context)
    changes, _ = changes_of(question.design, question.sets, context)
    return {"text": show(Show(name=question.design, changes=changes), context).result}


def _what(design: Design) -> str:
    """What is run, in one line."""
    work, stack = design.workload, f", {design.stack}" if design.stack else ""
    if isinstance(work, Transformer):
        axes = " ".join(f"{axis} {getattr(work, axis)}" for axis in ("dp", "tp", "pp", "cp", "ep")
                        if getattr(work, axis) > 1)
        return f"{design.network.npus:,} NPUs, {axes or 'one rank'}, {design.compute.tag} compute{stack}"
    return f"{design.network.npus:,} NPUs, workload {work.tag}, {design.compute.tag} compute{stack}"


def tiles(now: Answer, before: Answer | None) -> str:
    """The figures that people look at first."""
    design, result = now.result.design, now.result.result
    within, training = interval_of(design), isinstance(design.workload, Transformer)
    numbers, then = ({each.name: each for each in ([] if of is None else of.numbers)} for of in (now, before))
    found = []
    for name in ("makespan", *FIRST):
        if name not in numbers:
            continue
        each = numbers[name]
        around = "" if within is None or not within.known else \
            span(within, name, float(result.at_least) if name == "makespan" else float(each.value or 0))
        label, said = each.label, around
        if name == "makespan":
            label, said = "step time" if training else "makespan", f"measured steps lie in {around}" if around else ""
        found.append(tile(label, each.text, each, then.get(name), name in UP, said))
    found.append(_memory(result, numbers["peak_memory"], then.get("peak_memory")))
    return strip(found)


def _memory(result: Result, now: Number, before: Number | None) -> str:
    row = next(each for each in time_table(result, "").rows if each[0] == "peak memory")
    bad = ' bad' if "NOT" in row[3] else ""
    return tile("peak memory", now.text, now, before, False, f"{row[2]} {row[3]}".strip(), bad)


def _spent(result: Result, before: Result | None) -> str:
    """What the time of the last rank goes into, now and before."""
    runs = [("now", result)] + ([("before", before)] if before is not None else [])
    longest = float(max(each.at_least_ps for _, each in runs))
    if longest <= 0:
        return ""
    spent = [(name, each, each.spent) for name, each in runs]
    used = {name: text for name, text in PARTS if any(parts[name] for _, _, parts in spent)}
    lines = "".join(bar(name, f"{makespan_words(each)}, compute "
                        f"{100 * parts['compute'] / max(each.at_least_ps, 1):.1f} %", parts, longest, COLOURS,
                        {part: f"{text}: {format_time(parts[part] / 1e3)}" for part, text in PARTS})
                    for name, each, parts in spent)
    return f"<h2>Where the time of the last rank goes</h2>{key(used, COLOURS)}{lines}"


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
