"""What a file of the folder is, and its page."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from astrarium.config.yamlfile import parse_yaml, read_text
from astrarium.errors import InputError
from astrarium.report.pages.html import table_of
from astrarium.service.answer import Answer
from astrarium.service.context import Context
from astrarium.service.operations.plan import is_engine
from astrarium.service.operations.report import Report, report
from astrarium.service.operations.trace import Trace, trace
from astrarium.service.web.answers.question import Ask
from astrarium.service.web.answers.shown import shown

__all__ = ["file_page", "kind_answer", "kind_of"]

KEYS = {"serving": {"requests"}, "space": {"choices"}, "design": {"network", "workload"},
        "fabric": {"instances", "infrastructure"}}
"""Kind of a YAML file -> keys of which one is only in files of that kind."""


def kind_answer(question: Ask, context: Context) -> dict[str, Any]:
    """`{"kind": ...}` of a file."""
    return {"kind": kind_of(context, question.file)}


def kind_of(context: Context, name: str) -> str:
    """design, serving, space, study, trace, model, launch, engine, log, rows, requests, fabric, or other: by content,
    as the command line."""
    from astrarium.search.studyfile import is_study
    from astrarium.trace.read import head_of
    from astrarium.trace.readers import reader_name

    path = os.path.relpath(context.folder.path(name, "file"), context.folder.root)
    if is_study(path):
        return "study"
    ending = os.path.splitext(name)[1].lower()
    if ending in (".yaml", ".yml"):
        return _yaml_kind(path)
    if ending == ".sh":
        return "engine" if is_engine(path) else "launch"
    if ending == ".json" and _is_model(path):
        return "model"
    if reader_name(head_of(path)):
        return "trace"
    return _measured_kind(path, ending)


def _measured_kind(path: str, ending: str) -> str:
    """Of a table: requests of an engine, or rows of other measurements; else a log."""
    if ending in (".csv", ".jsonl", ".json"):
        head = read_text(path).lstrip()[:1 << 12].lower()
        return "requests" if "prompt" in head and re.search("ttft|tpot|latency|arrival", head) else "rows"
    return "log" if ending in (".log", ".txt") else "other"


def _yaml_kind(path: str) -> str:
    try:
        keys = parse_yaml(read_text(path), path).data
    except InputError:
        return "other"
    return next((kind for kind, some in KEYS.items() if isinstance(keys, dict) and some & keys.keys()), "other")


def _is_model(path: str) -> bool:
    with open(path, "rb") as stream:
        return b'"model_type"' in stream.read(1 << 22)


def file_page(question: Ask, context: Context) -> dict[str, Any]:
    """What a file is, and its content as HTML. A file that is wrong says why."""
    kind = kind_of(context, question.file)
    if not os.path.getsize(context.folder.path(question.file, "file")):
        return {"kind": "other", "problem": f"{question.file}: is empty"}
    try:
        return {"kind": kind, **_content(kind, question.file, context)}
    except InputError as error:
        return {"kind": kind, "problem": str(error)}


def _content(kind: str, name: str, context: Context) -> dict[str, Any]:
    if kind == "log":
        return _log(name)
    if kind == "other" and name.lower().endswith((".yaml", ".yml")):
        parse_yaml(read_text(name), name)       # says what is wrong
    asked: Mapping[str, Callable[[], Answer]] = {"study": lambda: report(Report(study=name), context),
                                                 "trace": lambda: trace(Trace(name=name), context)}
    if kind not in asked:
        return {}
    found = asked[kind]()
    return {"html": shown(found), "command": found.command}


def _log(path: str) -> dict[str, Any]:
    """The rows of a log of nccl-tests."""
    from astrarium.collective.bandwidth import bus_factor
    from astrarium.collective.nccl_log import read_log
    from astrarium.report.tables.table import Table
    from astrarium.units import format_bytes, format_rate, format_time

    log = read_log(path)
    factor = bus_factor(log.op, log.ranks)
    rows = [(format_bytes(size), format_time(ns), format_rate(size / ns), format_rate(factor * size / ns))
            for size, ns in zip(log.size.tolist(), log.ns.tolist())]
    title = f"{log.op.name.lower()} of {log.ranks:,} ranks on {log.hosts:,} hosts, as measured"
    return {"html": table_of(Table(title, ">>>>", rows, ("payload", "time", "algbw", "busbw")))}
