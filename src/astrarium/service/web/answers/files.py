"""What a file of the folder is, and its page."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from astrarium.config.yamlfile import parse_yaml, read_text
from astrarium.errors import InputError
from astrarium.report.pages.html import table_of
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
    """What a file is, and its content as HTML. A file that is wrong says why."""
    kind = kind_of(caches, question.file)
    path = os.path.relpath(caches.folder.path(question.file, "file"), caches.folder.root)
    try:
        return {"kind": kind, **_PAGES.get(kind, _nothing)(path)}
    except InputError as error:
        return {"kind": kind, "problem": str(error)}


def _nothing(path: str) -> dict[str, Any]:
    del path
    return {}


def _study(path: str) -> dict[str, Any]:
    """What `astrarium report` prints."""
    from astrarium.report.tables.study import report_tables
    from astrarium.report.tables.study_data import study_report
    from astrarium.search.studyfile import load_study

    return {"html": "".join(map(table_of, report_tables(study_report([load_study(path)])))),
            "command": shlex.join(["astrarium", "report", path])}


def _trace(path: str) -> dict[str, Any]:
    """What `astrarium trace show` prints."""
    from astrarium.report.trace.statistics import statistics_tables
    from astrarium.report.trace.times import time_tables, times_of
    from astrarium.trace import groups_of, read_traces
    from astrarium.trace.counts import statistics

    traces = read_traces([path])
    counted, times = statistics(traces.classes[0]), times_of(traces.classes[0], traces.texts, groups_of(traces))
    return {"html": "".join(map(table_of, [*statistics_tables(counted, path), *time_tables(times)])),
            "command": shlex.join(["astrarium", "trace", "show", path])}


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
    return {"html": table_of(Table(title, ">>>>", rows, ("payload", "time", "algbw", "busbw"))),
            "command": shlex.join(["astrarium", "calibrate", path, "--fabric", "mine", "--link-bandwidth", "450GB/s"])}


_PAGES: Mapping[str, Callable[[str], dict[str, Any]]] = MappingProxyType({
    "study": _study, "trace": _trace, "log": _log})
