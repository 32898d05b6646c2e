"""The operation of the workbench: a question of a view is a request of operations, and their answer is made HTML.

Results of the product do not leave their process, so views are made in the worker that has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from astrarium.service.answer import Answer
from astrarium.service.context import Context
from astrarium.service.web.answers.compare import compare_answer
from astrarium.service.web.answers.design import answer, design_page, details, saved_text
from astrarium.service.web.answers.files import file_page, kind_answer
from astrarium.service.web.answers.question import Ask
from astrarium.service.web.answers.start import start_choices
from astrarium.service.web.answers.work import prepare_job

__all__ = ["ask"]

VIEWS: Mapping[str, Callable[[Ask, Context], dict[str, Any]]] = MappingProxyType({
    "choices": start_choices, "design": design_page, "answer": answer, "details": details, "text": saved_text,
    "compare": compare_answer, "kind": kind_answer, "file": file_page, "job": prepare_job})


def ask(request: Ask, context: Context) -> Answer:
    """Answer the question; HTML and what belongs to it is in `found`. Only a job writes: the space that it searches."""
    if request.view != "job":
        context = replace(context, folder=replace(context.folder, writable=False))
    for name in filter(None, (request.design, request.other, request.file)):     # a name, never a content
        context.folder.path(name, "file")
    found = VIEWS[request.view](request, context)
    return Answer(title=request.design or request.file, found=found, command=str(found.pop("command", "")))
