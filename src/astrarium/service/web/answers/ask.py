"""The operation of the workbench: the answer to a question of a view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from astrarium.service.answer import Answer
from astrarium.service.context import Context
from astrarium.service.web.answers.caches import Caches
from astrarium.service.web.answers.compare import compare_answer
from astrarium.service.web.answers.design import answer, design_page, details, saved_text
from astrarium.service.web.answers.files import file_page, kind_answer
from astrarium.service.web.answers.question import Ask
from astrarium.service.web.answers.start import start_choices

__all__ = ["ask"]

VIEWS: Mapping[str, Callable[[Ask, Caches], dict[str, Any]]] = MappingProxyType({
    "choices": start_choices, "design": design_page, "answer": answer, "details": details, "text": saved_text,
    "compare": compare_answer, "kind": kind_answer, "file": file_page})


def ask(request: Ask, context: Context) -> Answer:
    """Answer the question; HTML and what belongs to it is in `found`."""
    caches: Caches = context.held.get("web") or context.held.setdefault("web", Caches(context))
    found = VIEWS[request.view](request, caches)
    return Answer(title=request.design or request.file, found=found, command=str(found.pop("command", "")))
