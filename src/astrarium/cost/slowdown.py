"""How much jobs on one fabric slow each other down."""

from __future__ import annotations

from astrarium.cost.figure import Figure
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.result import Result
from astrarium.workload.jobs import Jobs

__all__ = ["SLOWDOWN"]


def _has_jobs(design: Design) -> None:
    if not isinstance(design.workload, Jobs):
        raise InputError("slowdown", "is of several jobs, and the workload is one", expected="source: jobs")


def _worst(result: Result) -> float:
    return max(job.slowdown for job in result.jobs)


SLOWDOWN = Figure(_worst, over_cases="largest", least=1.0, check=_has_jobs)
