"""An Outcome under `compat: astra_sim` as ASTRA-sim prints it, or as JSON; a million ranks in well under a second."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from astrarium.engine import Outcome
from astrarium.version import stamp

__all__ = ["json_text", "lines"]

PS_PER_NS = 1000
BLOCK = 1 << 16     # ranks per piece of text


def lines(outcome: Outcome, more: Sequence[Sequence[str]] = ()) -> Iterator[str]:
    """`sys[r] finished, N cycles, exposed communication M cycles.` per rank, many in a piece; a cycle is 1 ns.

    `more` [rows]: what further lines of a rank say after `sys[r]`. A replay whose compute overlaps itself has less than
    no exposed communication: ASTRA-sim prints that as an unsigned 64-bit number, and so do these lines.
    """
    tails = [[f" finished, {finish} cycles, exposed communication {exposed % 2**64} cycles."]
             for finish, exposed in _per_row(outcome)]
    for tail, further in zip(tails, more, strict=False):
        tail.extend(further)
    for ranks in _blocks(outcome):
        yield "".join([f"sys[{rank}]{text}\n" for rank, row in ranks for text in tails[row]])


def json_text(outcome: Outcome, cpu_s: Mapping[str, float], peaks: Sequence[int] = ()) -> Iterator[str]:
    """One JSON object in pieces: its stamp, makespan_ns, ranks (rank, finish_ns, signed exposed_comm_ns,
    peak_memory_bytes where there are `peaks` [rows]), cpu_ns per stage, events, classes (rows that were simulated), why
    nothing was folded, where it was asked for and could not be, and how the answer was found (`Outcome.how`)."""
    stamped = json.dumps(stamp("astra-sim"), separators=(",", ":"))[:-1]
    yield f'{stamped},"makespan_ns":{outcome.makespan // PS_PER_NS},"ranks":['
    tails = [f',"finish_ns":{finish},"exposed_comm_ns":{exposed}' for finish, exposed in _per_row(outcome)]
    ends = [f',"peak_memory_bytes":{peak}}}' for peak in peaks] or ["}"] * len(tails)
    comma = ""
    for ranks in _blocks(outcome):
        yield comma + ",".join([f'{{"rank":{rank}{tails[row]}{ends[row]}' for rank, row in ranks])
        comma = ","
    rest = {"cpu_ns": {stage: round(value * 1e9) for stage, value in cpu_s.items()}, "events": outcome.events,
            "classes": len(outcome.finish), "folded": outcome.folded, "unfolded_because": outcome.unfolded_because,
            "how": outcome.how}
    yield "]," + json.dumps(rest, separators=(",", ":"))[1:] + "\n"


def _per_row(outcome: Outcome) -> Iterator[tuple[int, int]]:
    """(finish, exposed communication) of every row, whole ns; exposed = finish - compute, as ASTRA-sim defines it."""
    finish = outcome.finish // PS_PER_NS
    exposed = (outcome.finish - outcome.busy) // PS_PER_NS
    return zip(finish.tolist(), exposed.tolist(), strict=True)


def _blocks(outcome: Outcome) -> Iterator[Iterator[tuple[int, int]]]:
    """(rank, row) of all ranks, ascending, many at a time."""
    for start in range(0, len(outcome.row), BLOCK):
        yield enumerate(outcome.row[start:start + BLOCK].tolist(), start)
