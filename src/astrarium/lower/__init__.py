"""Design -> Plan: where traces, system, collectives and models meet.

Names are imported when first used: the drop-in command lowers ASTRA-sim's files and needs no design.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astrarium.lazy import lazy

if TYPE_CHECKING:
    from astrarium.lower.explain import in_its_terms
    from astrarium.lower.jobs import JobsWork, first_ranks, job_designs, job_ranks_of, lower_jobs, read_jobs
    from astrarium.lower.kept import Kept
    from astrarium.lower.plugins import plugins_of
    from astrarium.lower.rows import capacities, fabric_names, first_rank
    from astrarium.lower.rule_books import lower, stage_of
    from astrarium.lower.source import TraceCache, read_files, read_work
    from astrarium.lower.work import Given, Work, work_of

__all__ = ["Given", "JobsWork", "Kept", "TraceCache", "Work", "capacities", "fabric_names", "first_rank", "first_ranks",
           "in_its_terms", "job_designs", "job_ranks_of", "lower", "lower_jobs", "plugins_of", "read_files",
           "read_jobs", "read_work", "stage_of", "work_of"]
__getattr__ = lazy(__name__)
