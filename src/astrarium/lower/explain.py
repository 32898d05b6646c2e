"""What a run says, in the terms of its design: file, rank, node and name of what cannot run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from astrarium.engine import Outcome, Plan, execute
from astrarium.errors import EXPLAINED, AstrariumError, InputError, StallError, TraceError, Wait, short_name
from astrarium.trace import Traces
from astrarium.trace.work import Generated

if TYPE_CHECKING:
    from astrarium.design import Design
    from astrarium.trace import Dependencies, Finding

__all__ = ["execute_workload", "explained", "explained_generated", "in_its_terms"]

Groups = Mapping[str, Sequence[int]]
NAMED = 100     # waits whose nodes are named; a message shows fewer


def execute_workload(plan: Plan, traces: Traces, groups: Groups, *, record: bool = False,
                     fold: bool = True) -> Outcome:
    """`engine.execute` for a Plan that was lowered from `traces`; raises as `explained` says."""
    try:
        return execute(plan, record=record, fold=fold)
    except EXPLAINED as error:
        raise explained(error, traces, groups) from error


def in_its_terms(error: AstrariumError, design: Design, source: Traces | Generated | None) -> AstrariumError:
    """What to raise for an error of the engine's about a design: the same in the words of the `source` of its work."""
    from astrarium.workload.jobs import Jobs

    error = _links_named(error, design)
    if isinstance(source, Generated):
        said = explained_generated(error, source)
        if not isinstance(design.workload, Jobs):
            return said
        from astrarium.lower.jobs import said_of_jobs

        return said_of_jobs(said, design)
    from astrarium.lower.work import named_groups  # what the drop-in command does not need
    from astrarium.workload.config import Trace

    if source is None or not isinstance(design.workload, Trace):
        return error
    return explained(error, source, named_groups(design.workload, source), design.workload.dependencies)


def _links_named(error: AstrariumError, design: Design) -> AstrariumError:
    """The error with names of the network's nodes, where its sentences have numbers of links."""
    if not isinstance(error, StallError) or not any(wait.rank is None for wait in error.waits):
        return error
    from astrarium.network.names import link_namer

    name = link_namer(design.network)
    return StallError([wait if wait.rank is not None else wait._replace(text=re.sub(
        r"^link (\d+)( from node \d+ to node \d+)?", lambda found: f"link {name(int(found[1]))}", wait.text))
        for wait in error.waits])


def explained_generated(error: AstrariumError, generated: Generated) -> AstrariumError:
    """What to raise for an error of the engine's about a generated workload: the same with the names of its nodes."""
    def placed(sentence: str, rank: int | None) -> str:
        if rank is None:
            return sentence
        trace = next(each for each in generated.classes if (each.ranks == rank).any())
        return _named(sentence, trace.node_id, trace.names or (lambda node: ""))

    if isinstance(error, StallError):
        return StallError(_all_placed(error, placed))
    if not isinstance(error, InputError) or error.path != "workload":
        return error
    return type(error)("workload", placed(error.message, error.rank), expected=error.expected)


def _all_placed(error: StallError, placed: Callable[[str, int | None], str]) -> list[Wait]:
    return [*(wait._replace(text=placed(wait.text, wait.rank)) for wait in error.waits[:NAMED]), *error.waits[NAMED:]]


def explained(error: AstrariumError, traces: Traces, groups: Groups | None, deps: Dependencies = "data+ctrl",
              ) -> AstrariumError:
    """What to raise for an error of the engine's, which knows ranks and node numbers only.

    Where it stalls or refuses, the doctor looks at the traces once more (`groups` as there): StallError gets one cause
    per line before the waits, an error about the workload becomes a TraceError with the finding's place and fix.
    """
    if isinstance(error, StallError):
        causes = [f"cause: {_line(traces, finding)}" for finding in _errors(traces, groups, deps)]
        waits = _all_placed(error, partial(_placed, traces))
        return StallError([*causes, *waits], shown=8 + min(len(causes), 8))
    if not isinstance(error, InputError) or error.path != "workload":
        return error
    findings = _errors(traces, groups, deps)
    if findings:
        first = findings[0]
        return TraceError(_source(traces, first), f"{first.message}; {first.fix}", rank=first.rank, node=first.node,
                          name=first.name)
    return type(error)("", _placed(traces, error.message, error.rank), expected=error.expected)


def _errors(traces: Traces, groups: Groups | None, deps: Dependencies) -> list[Finding]:
    from astrarium.trace import check  # the doctor is called only when something is wrong

    return [finding for finding in check(traces, groups, deps=deps, limit=8) if finding.severity == "error"]


def _source(traces: Traces, finding: Finding) -> str:
    return traces.sources[0 if finding.rank is None else finding.rank]


def _placed(traces: Traces, sentence: str, rank: int | None) -> str:
    """A sentence of the engine's about a rank: after that rank's file, and with the names of its nodes."""
    if rank is None:
        return sentence
    columns, _ = traces.of(rank)
    return f"{traces.sources[rank]}: " + _named(sentence, columns.node_id, columns.name)


def _named(sentence: str, node_id: npt.NDArray[np.uint64], name_of: Callable[[int], str]) -> str:
    """The sentence with the name of every node that it mentions; `name_of` takes an index."""
    def named(found: re.Match[str]) -> str:
        index = np.flatnonzero(node_id == int(found[1]))
        name = short_name(name_of(int(index[0]))) if index.size else ""
        return f"node {found[1]} ({name}{'; ' if found[2] else ')'}" if name else found[0]

    return re.sub(r"\bnode (\d+)( \()?", named, sentence)


def _line(traces: Traces, finding: Finding) -> str:
    return f"{_source(traces, finding)}: {str(finding).removeprefix('error: ')}"
