"""Runs the Plan of a workload, and says in its own terms - file, rank, node, name - what cannot run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from astrarium.engine import Outcome, Plan, execute
from astrarium.errors import StallError, TraceError, UnsupportedError
from astrarium.trace import Finding, Traces, check

__all__ = ["execute_workload"]


def execute_workload(plan: Plan, traces: Traces, groups: Mapping[str, Sequence[int]], *, record: bool = False,
                     fold: bool = True, pure: bool = False) -> Outcome:
    """`engine.execute` for a Plan that was lowered from `traces`.

    The engine knows ranks and node numbers only. Where it stalls or refuses, the doctor looks at the traces once more,
    and the error is raised again with its findings: StallError with one cause per line before the waits, TraceError
    with the finding's place and fix.
    """
    try:
        return execute(plan, record=record, fold=fold, pure=pure)
    except StallError as error:
        causes = [f"cause: {_line(traces, finding)}" for finding in _errors(traces, groups)]
        waits = [_placed(traces, wait) for wait in error.waits]
        raise StallError([*causes, *waits], shown=8 + min(len(causes), 8)) from error
    except (TraceError, UnsupportedError) as error:
        findings = _errors(traces, groups)
        if findings:
            first = findings[0]
            raise TraceError(_source(traces, first), f"{first.message}; {first.fix}", rank=first.rank, node=first.node,
                             name=first.name) from error
        raise type(error)("", _placed(traces, error.message), expected=error.expected) from error


def _errors(traces: Traces, groups: Mapping[str, Sequence[int]]) -> list[Finding]:
    return [finding for finding in check(traces, groups, limit=8) if finding.severity == "error"]


def _source(traces: Traces, finding: Finding) -> str:
    return traces.sources[0 if finding.rank is None else finding.rank]


def _placed(traces: Traces, sentence: str) -> str:
    """A sentence of the engine's, which begins with "rank r" where it is about a rank, after that rank's file."""
    rank = re.match(r"rank (\d+)\b", sentence)
    return f"{traces.sources[int(rank[1])]}: {sentence}" if rank else sentence


def _line(traces: Traces, finding: Finding) -> str:
    return f"{_source(traces, finding)}: {str(finding).removeprefix('error: ')}"
