"""Two designs side by side: their figures, and which knob brings how much of the difference."""

from __future__ import annotations

from typing import Any

from astrarium.config.yamlfile import scalar
from astrarium.report.pages.html import escape
from astrarium.service.context import Context
from astrarium.service.operations.explain import Explain, explain
from astrarium.service.operations.fields import sets
from astrarium.service.web.answers.design import answered, changes_of, tiles
from astrarium.service.web.answers.question import Ask
from astrarium.service.web.answers.serving import served_stream, served_tiles
from astrarium.service.web.answers.shown import shown

__all__ = ["compare_answer"]


def compare_answer(question: Ask, context: Context) -> dict[str, Any]:
    """Both designs, the second beside the first, and the split of the difference."""
    both = [(name, {path: scalar(text) for path, text in asked.items()} if context.is_serving(name) else
             changes_of(name, asked, context)[0]) for name, asked in
            ((question.design, question.sets), (question.other, question.other_sets))]
    (first, before), (second, after) = both
    streams = context.is_serving(first) and context.is_serving(second)
    found = explain(Explain(before=first, before_changes=before, after=second, changes=after), context)
    if streams:
        a, b = (served_stream(question.design, question.sets, context),
                served_stream(question.other, question.other_sets, context))
        left, right = served_tiles(a, None), served_tiles(b, a)
    else:
        a, b = (answered(name, changes, context) for name, changes in both)
        left, right = tiles(a, None), tiles(b, a)
    named = [escape(" with ".join(filter(None, [name, ", ".join(sets(changes, "")[1::2])]))) for name, changes in both]
    html = (f'<div class="pair"><section><h2>A: {named[0]}</h2>{left}</section>'
            f'<section><h2>B: {named[1]}</h2>{right}</section></div>' + shown(found))
    return {"html": html, "command": found.command}
