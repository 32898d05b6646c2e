"""Two designs side by side: their figures, and which knob brings how much of the difference."""

from __future__ import annotations

from typing import Any

from astrarium.report.pages.html import escape, table_of
from astrarium.report.tables.explain import explanation_tables
from astrarium.search.explain import explain
from astrarium.service.web.answers.caches import Caches, Changed
from astrarium.service.web.answers.design import command, tiles
from astrarium.service.web.answers.question import Ask
from astrarium.simulate import simulate

__all__ = ["compare_answer"]


def compare_answer(question: Ask, caches: Caches) -> dict[str, Any]:
    """Both designs, the second beside the first, and the split of the difference."""
    first = caches.changed(question.design, question.sets)
    second = caches.changed(question.other, question.other_sets)
    names = _named(question.design, first), _named(question.other, second)
    results = caches.result(first.design), caches.result(second.design)
    found = explain(first.design, second.design,
                    run=lambda design: simulate(design, record=False, kept=caches.kept).makespan_ps)
    beside = Changed(first.design, second.design, {}, {})
    html = (f'<div class="pair"><section><h2>A: {escape(names[0])}</h2>{tiles(first, results[0], None)}</section>'
            f'<section><h2>B: {escape(names[1])}</h2>{tiles(beside, results[1], results[0])}</section></div>'
            + "".join(map(table_of, explanation_tables(found, "A", "B"))))
    return {"html": html, "command": _command(question, first, second)}


def _named(name: str, changed: Changed) -> str:
    sets = {**changed.sets, **changed.also}
    return name + (" with " + ", ".join(f"{path}={value}" for path, value in sets.items()) if sets else "")


def _command(question: Ask, first: Changed, second: Changed) -> str:
    """`astrarium explain A B --set ...`; empty where A is changed, too, which a command line cannot say."""
    if first.sets:
        return ""
    found = command(question.design, {}, "explain")
    other = question.other
    sets = {**second.sets, **second.also}
    tail = command(other, sets, "").removeprefix("astrarium  ").strip()
    return f"{found} {tail}"
