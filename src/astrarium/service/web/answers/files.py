"""What a file of the folder is, and its page."""

from __future__ import annotations

import os
from typing import Any

from astrarium.config.yamlfile import parse_yaml, read_text
from astrarium.errors import InputError
from astrarium.service.web.answers.caches import Caches
from astrarium.service.web.answers.question import Ask

__all__ = ["file_page", "kind_answer", "kind_of"]

KEYS = {"serving": {"requests"}, "space": {"choices"}, "design": {"network", "workload"},
        "fabric": {"instances", "infrastructure"}}
"""Kind of a YAML file -> keys of which one is only in files of that kind."""


def kind_answer(question: Ask, caches: Caches) -> dict[str, Any]:
    """`{"kind": ...}` of a file."""
    return {"kind": kind_of(caches, question.file)}


def kind_of(caches: Caches, name: str) -> str:
    """design, serving, space, study, trace, model, launch, log, fabric, or other: by content, as the command line."""
    from astrarium.search.studyfile import is_study
    from astrarium.trace.read import head_of
    from astrarium.trace.readers import reader_name

    path = os.path.relpath(caches.folder.path(name, "file"), caches.folder.root)
    if is_study(path):
        return "study"
    ending = os.path.splitext(name)[1].lower()
    if ending in (".yaml", ".yml"):
        return _yaml_kind(path)
    if ending == ".sh":
        return "launch"
    if ending == ".json" and _is_model(path):
        return "model"
    if reader_name(head_of(path)):
        return "trace"
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


def file_page(question: Ask, caches: Caches) -> dict[str, Any]:
    """The page of a study or a trace, as parts of HTML."""
    kind = kind_of(caches, question.file)
    path = os.path.relpath(caches.folder.path(question.file, "file"), caches.folder.root)
    if kind == "study":
        return {"kind": kind, **_study(path)}
    if kind == "trace":
        return {"kind": kind, **_trace(path)}
    return {"kind": kind, "html": "", "command": ""}


def _study(path: str) -> dict[str, Any]:
    import shlex

    from astrarium.report.pages.html import table_of
    from astrarium.report.tables.study import report_tables
    from astrarium.report.tables.study_data import study_report
    from astrarium.search.studyfile import load_study

    report = study_report([load_study(path)])
    return {"html": "".join(map(table_of, report_tables(report))), "command": f"astrarium report {shlex.quote(path)}"}


def _trace(path: str) -> dict[str, Any]:
    import shlex

    return {"html": "", "command": f"astrarium trace show {shlex.quote(path)}"}
