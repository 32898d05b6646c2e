"""Readers of what profilers and older tools write: Kineto, ExecutionTraceObserver, Chakra's feeder, text workloads."""

from __future__ import annotations

import re

from astrarium.errors import InputError
from astrarium.profile.feeder_json import feeder_trace
from astrarium.profile.text_workload import LOOPS
from astrarium.trace.readers import Data, Read, TraceReader

__all__ = ["FEEDER", "HOST", "KINETO", "TEXT"]

_BARE = re.compile(rb'\s*\[\s*\{[^}]*"ph"\s*:')        # Chrome's other form: the list of events alone
_SCHEMA = re.compile(rb'"schema"\s*:')
_KEYWORD = re.compile(rb"\s*(" + "|".join(LOOPS).encode() + rb")\b")


def _object_with(head: bytes, key: bytes) -> bool:
    return head.lstrip()[:1] == b"{" and key in head


def _read_kineto(data: Data, where: str, rank: int) -> Read:
    from astrarium.profile.link.linker import link_content

    del rank
    linked = link_content(None, (data, where))
    return Read(linked.data, tuple(linked.report.lines()))


def _read_host(data: Data, where: str, rank: int) -> Read:
    from astrarium.profile.link.linker import link_content

    del rank
    linked = link_content((data, where), None)
    alone = () if linked.report.gpu_operations else ("a host trace alone: no kernels",)
    return Read(linked.data, (*linked.report.lines(), *alone))


def _read_feeder(data: Data, where: str, rank: int) -> Read:
    del rank
    return Read(feeder_trace(data, where))


def _read_text(data: Data, where: str, rank: int) -> Read:
    del data, rank
    raise InputError(where, "is a text workload of ASTRA-sim 1.0, which says the work of all ranks at once",
                     expected=f"traces that `astrarium trace convert {where} --npus N -o PREFIX` makes of it")


KINETO = TraceReader(lambda head: _object_with(head, b'"traceEvents"') or bool(_BARE.match(head)), _read_kineto)
HOST = TraceReader(lambda head: _object_with(head, b'"nodes"') and bool(_SCHEMA.search(head)), _read_host)
FEEDER = TraceReader(lambda head: _object_with(head, b'"workload_graph"'), _read_feeder)
TEXT = TraceReader(lambda head: bool(_KEYWORD.match(head)), _read_text)
