"""What a plug-in is written with: protocols of each kind, what they are given, and exams (docs/guides/plugins.md).

Names are imported when first used. Algorithms of collectives are written with `astrarium.collective`, agents with
`astrarium.search`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astrarium.lazy import lazy

if TYPE_CHECKING:
    from astrarium.compute.config import Compute
    from astrarium.config import Config, Knob, Problem
    from astrarium.engine.plan import Backend, Dim, NetworkPlan, Shape
    from astrarium.engine.plugins import (
        NEVER,
        Callback,
        CollectiveChoice,
        ComputeModel,
        ComputeNode,
        ComputeNodes,
        DelayNetwork,
        Desk,
        EventQueue,
        Library,
        LocalMemory,
        Mailbox,
        Network,
        PerNode,
        Plugins,
        RemoteMemory,
        Scheduling,
        load,
    )
    from astrarium.engine.plugins.exams import (
        EXAM_FABRIC,
        ExamError,
        exam_choice,
        exam_compute,
        exam_memory,
        exam_network,
        exam_scheduling,
        exam_work,
    )
    from astrarium.engine.plugins.work import Work, collective, compute, recv, remote, send, timer
    from astrarium.engine.source import RunContext, run_source
    from astrarium.lower.rule_books import stage_of
    from astrarium.report.pages.html import note, page
    from astrarium.report.pages.page import Page
    from astrarium.trace.readers import Read, TraceReader
    from astrarium.units import Bandwidth, Bytes, FlopRate, Time
    from astrarium.vocab import Schedule
    from astrarium.workload.config import Live
    from astrarium.workload.schedule import PipelineSchedule, units
    from astrarium.workload.schedule.one_f_one_b import alternating

__all__ = [
    "EXAM_FABRIC", "NEVER", "Backend", "Bandwidth", "Bytes", "Callback", "CollectiveChoice", "Compute", "ComputeModel",
    "ComputeNode", "ComputeNodes", "Config", "DelayNetwork", "Desk", "Dim", "EventQueue", "ExamError", "FlopRate",
    "Knob", "Library", "Live", "LocalMemory", "Mailbox", "Network", "NetworkPlan", "Page", "PerNode",
    "PipelineSchedule", "Plugins", "Problem", "Read", "RemoteMemory", "RunContext", "Schedule", "Scheduling", "Shape",
    "Time", "TraceReader", "Work", "alternating", "collective", "compute", "exam_choice", "exam_compute", "exam_memory",
    "exam_network", "exam_scheduling", "exam_work", "load", "note", "page", "recv", "remote", "run_source", "send",
    "stage_of", "timer", "units",
]
__getattr__ = lazy(__name__)
