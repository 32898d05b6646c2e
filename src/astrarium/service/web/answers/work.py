"""Long work: a request of an operation as a page sends it, and what its answer leaves in the folder of the job."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from astrarium.service.answer import Answer, RefusedError, misread
from astrarium.service.context import Context
from astrarium.service.limits import Limits
from astrarium.service.operations import agent, calibrate, plan, report, serve, validate
from astrarium.service.web.answers.axes import space_followed
from astrarium.service.web.answers.question import Ask

__all__ = ["LIMITS", "prepare_job", "run_job"]

LIMITS = Limits(seconds=float("inf"), designs=100_000)      # of a job, which a person can stop


class _Kind(NamedTuple):
    """The class of a request, its command line, its operation, and fields that name files of the job."""

    request: Any
    command: Callable[[Any, Context], str]
    operation: Callable[[Any, Context], Answer]
    files: Mapping[str, str]


_KINDS: Mapping[str, _Kind] = MappingProxyType({
    "plan": _Kind(plan.Plan, plan.command_of, plan.plan, {"save": "JOB/line"}),
    "search": _Kind(agent.Search, agent.command_of, agent.search, {"study": "JOB/search.study",
                                                                   "best": "JOB/best.yaml"}),
    "serve": _Kind(serve.Serve, serve.command_of, serve.serve, {}),
    "validate": _Kind(validate.Validate, validate.command_of, validate.validate, {}),
    "calibrate": _Kind(calibrate.Calibrate, calibrate.command_of, calibrate.calibrate, {"save": "JOB/calibrated"})})
"""What a job may be."""


def prepare_job(question: Ask, context: Context) -> dict[str, Any]:
    """The request of a job, and its command line; `JOB` is its folder. Raises RefusedError, and InputError."""
    kind, context = _KINDS[question.verb], replace(context, limits=LIMITS)
    request = {**question.request, **kind.files}
    if question.verb == "search" and isinstance(space := request.get("space"), dict):
        request["space"] = context.file(space_followed(space), "space")
    found = _converted(kind, request)
    return {"command": kind.command(found, context), "request": msgspec.to_builtins(found)}


def run_job(verb: str, request: Mapping[str, Any], context: Context, folder: str) -> str:
    """Do the work: the answer as HTML, and in `folder` the page. Raises what operations raise."""
    from astrarium.config.whole import write_whole
    from astrarium.report.pages.page import page_of
    from astrarium.service.web.answers.shown import shown

    kind, links = _KINDS[verb], ""
    answer = kind.operation(_converted(kind, request), context)
    if verb == "search":
        links = "".join(f'<p><a class="button" href="/design/{name}">Turn the knobs of the best design</a></p>'
                        for name in answer.files[1:])
        answer = report.report(report.Report(study=answer.files[0]), context)
    links += "".join(f'<p><a class="button" href="/raw/{name}">Download {name.rpartition("/")[2]}</a></p>'
                     for name in answer.files if verb == "calibrate")
    if answer.page:
        with write_whole(os.path.join(folder, "page.html")) as stream:
            stream.write(page_of(answer.page, answer.page).write(answer.result).encode())
    return links + shown(answer)


def _converted(kind: _Kind, request: Mapping[str, Any]) -> Any:
    try:
        return msgspec.convert(request, kind.request)
    except msgspec.ValidationError as error:
        raise RefusedError(misread(error, kind.request.__struct_fields__)) from None
