"""The operation of the workbench: a question of a view, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct

from astrarium.service.answer import Answer
from astrarium.service.context import Context

__all__ = ["OPERATION", "Ask", "ask"]

OPERATION = "astrarium.service.web.answers.ask:ask"


class Ask(Struct, frozen=True, forbid_unknown_fields=True):
    """`view`: what is asked for. `design` with changes `sets` (path -> text), for a comparison also `other` with
    `other_sets`; or a `file`."""

    view: Literal["choices", "design", "answer", "details", "compare", "kind", "file", "text"]
    design: str = ""
    sets: dict[str, str] = {}
    other: str = ""
    other_sets: dict[str, str] = {}
    file: str = ""


def ask(request: Ask, context: Context) -> Answer:
    """Answer the question; HTML and what belongs to it is in `found`."""
    from astrarium.service.web.answers.caches import Caches

    caches: Caches = context.held.setdefault("web", Caches(context))
    found = _views()[request.view](request, caches)
    return Answer(title=request.design or request.file, found=found, command=str(found.pop("command", "")))


def _views() -> Mapping[str, Callable[[Ask, Any], dict[str, Any]]]:
    from astrarium.service.web.answers import compare, design, files, start

    return MappingProxyType({
        "choices": start.start_choices, "design": design.design_page, "answer": design.answer,
        "details": design.details, "text": design.saved_text, "compare": compare.compare_answer,
        "kind": files.kind_answer, "file": files.file_page})
