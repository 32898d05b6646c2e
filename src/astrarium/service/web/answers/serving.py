"""A serving file: its knobs and those of its design, and the answer that moves with them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from astrarium.config import dumps
from astrarium.config.yamlfile import scalar
from astrarium.errors import InputError
from astrarium.service.answer import Answer
from astrarium.service.context import Context
from astrarium.service.operations.serve import Serve, serve
from astrarium.service.web.answers.knobs import Shown, knobs_in
from astrarium.service.web.answers.question import Ask
from astrarium.service.web.answers.shown import shown
from astrarium.service.web.answers.tiles import strip, tile

__all__ = ["saved_serving", "served_answer", "served_details", "served_stream",
           "served_tiles", "serving_knobs"]

FIRST = {"ttft_p99_ns": "time to first token, p99", "tpot_p99_ns": "time per token, p99",
         "latency_p99_ns": "latency, p99", "output_tokens_per_s": "tokens per second",
         "requests_per_s": "requests per second", "output_tokens_per_s_per_user": "tokens per second and user",
         "cache_use_most": "cache in use, most"}
UP = frozenset({"output_tokens_per_s", "requests_per_s", "output_tokens_per_s_per_user"})


def serving_knobs(name: str, context: Context) -> tuple[Shown, ...]:
    """The knobs of a serving file; where it has one design, its knobs too."""
    serving, _ = context.serving(name, {})
    try:
        own = knobs_in(context.design(serving.alone, {}))
    except InputError:      # a fleet
        own = ()
    return knobs_in(serving) + tuple(replace(each, kind="text") if each.path == "workload.dp" else each for each in own)


def served_answer(question: Ask, context: Context) -> dict[str, Any]:
    """Latencies and rates, each beside that of the file as it is."""
    now = served_stream(question.design, question.sets, context)
    before = served_stream(question.design, {}, context) if question.sets else None
    return {"html": served_tiles(now, before) + shown(replace(now, tables=now.tables[:1])), "also": {},
            "command": now.command}


def served_tiles(now: Answer, before: Answer | None) -> str:
    """The figures that people look at first."""
    numbers, then = ({each.name: each for each in ([] if of is None else of.numbers)} for of in (now, before))
    return strip(tile(label, numbers[name].text, numbers[name], then.get(name), name in UP, "")
                 for name, label in FIRST.items() if name in numbers)


def saved_serving(question: Ask, context: Context) -> dict[str, Any]:
    """A changed serving file as text, and its design, which goes beside it if it changed. Raises InputError of a
    fleet."""
    changes = {path: scalar(text) for path, text in question.sets.items()}
    serving, of_design = context.serving(question.design, changes)
    stem, end = os.path.splitext(question.save)
    design, name = context.design(serving.alone, of_design), f"{stem}.design{end}" if of_design else serving.alone
    text = dumps(replace(serving, design=os.path.relpath(name, os.path.dirname(question.save) or ".")))
    return {"text": text, "beside": {name: dumps(design)} if of_design else {}}


def served_details(question: Ask, context: Context) -> dict[str, Any]:
    """All tables of `astrarium serve`."""
    return {"html": shown(served_stream(question.design, question.sets, context))}


def served_stream(name: str, sets: Mapping[str, str], context: Context) -> Answer:
    """The answer of `serve`; those of the last changes are cached while the files stay as they are."""
    serving, _ = context.serving(name, {})
    stamps = [os.stat(each).st_mtime_ns for each in (name, *(member.design for member in serving.members))]
    changes = {path: scalar(text) for path, text in sets.items()}
    return context.cached("streams", (name, *stamps, *sorted(sets.items())),
                          lambda: serve(Serve(serving=name, changes=changes), context))
