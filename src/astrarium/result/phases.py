"""Phases of a generated workload: when each begins and ends, and how long each of its tokens takes."""

from __future__ import annotations

from msgspec import Struct

from astrarium.engine.outcome import Outcome
from astrarium.result.nodes import first_ranks
from astrarium.result.source import Source, class_of_rank
from astrarium.trace.work import Generated

__all__ = ["PhaseTime", "phase_times"]


class PhaseTime(Struct, frozen=True):
    """A phase from the end of the one before (the first: from 0) to the end of its last node on any rank, in ps."""

    name: str
    begin: int
    end: int
    tokens: float

    @property
    def per_token(self) -> float:
        """ps per token that a sequence gains."""
        return (self.end - self.begin) / self.tokens


def phase_times(outcome: Outcome, source: Source | None) -> tuple[PhaseTime, ...]:
    """Phases in order; none where the workload has none, or the run recorded no nodes."""
    if not isinstance(source, Generated) or not source.phases or len(outcome.node_ptr) != len(outcome.finish) + 1:
        return ()
    of, found, begin = class_of_rank(source), list[PhaseTime](), 0
    passed = [0] * len(source.classes)
    for number, phase in enumerate(source.phases[0]):
        end = begin
        for row, rank in enumerate(first_ranks(outcome).tolist()):
            kind, start = int(of[rank]), int(outcome.node_ptr[row])
            last = passed[kind] + source.phases[kind][number].nodes
            end = max(end, int(outcome.end[start + passed[kind]:start + last].max(initial=0)))
        passed = [before + phases[number].nodes for before, phases in zip(passed, source.phases, strict=True)]
        found.append(PhaseTime(phase.name, begin, end, phase.tokens))
        begin = end
    return tuple(found)
