"""What a run's time consists of on every rank, so that two runs can be compared part by part.

Every instant of a rank, from 0 to the end of the run, counts to one part: the first in the order of `PARTS` that is in
flight. So the parts of a rank add up to the makespan, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.profile.kernel_names import ATTENTION, OTHER, PRODUCTS, kernel_class
from astrarium.result.collectives import collective_numbers
from astrarium.result.intervals import Intervals
from astrarium.result.nodes import Work
from astrarium.result.result import Result
from astrarium.result.source import generated_class
from astrarium.result.unexplained import places_of
from astrarium.trace.columns import Columns, Traces
from astrarium.trace.work import Generated, TraceClass

__all__ = ["NETWORK", "PARTS", "WAITING", "Parts", "parts_of"]

NETWORK, WAITING, COPIES, HOST = "network", "waiting for ranks", "memory copies", "host"
NOTHING, ENDED = "nothing in flight", "after its end"
PARTS: Mapping[str, str] = MappingProxyType({
    PRODUCTS: "a matrix product runs",
    ATTENTION: "fused attention runs, and no product",
    OTHER: "another kernel runs, and none of these",
    NETWORK: "no kernel runs; a collective that all its members have begun, or a message that is sent",
    WAITING: "none of these; a collective whose last member has not begun, or a receive before its send",
    COPIES: "none of these; a copy between memories",
    HOST: "none of these; host work",
    NOTHING: "nothing is in flight: a pipeline's bubble, or time that a recording does not explain",
    ENDED: "the rank has ended, another one has not"})
_KINDS = {"gemm": PRODUCTS, "grouped_gemm": PRODUCTS, "attention": ATTENTION, "attention_backward": ATTENTION,
          "mla": ATTENTION}


class Parts(Struct, frozen=True, eq=False):
    """`times` [rows of the Outcome, parts in the order of PARTS] in ps; `communication` [rows]: time with a collective
    or message in flight or waited for, hidden under kernels or not."""

    times: I64
    communication: I64

    def part(self, name: str) -> I64:
        """[rows] ps of one part."""
        return np.asarray(self.times[:, list(PARTS).index(name)])


def parts_of(result: Result) -> Parts:
    """The parts of every row. Raises InputError where node times were not recorded."""
    nodes, rows = result.nodes, len(result.outcome.finish)
    ready = _ready(result)
    comm = np.isin(nodes.work, (Work.COLLECTIVE, Work.MESSAGE))
    kinds = _kernel_parts(result)
    masks = [kinds == PRODUCTS, kinds == ATTENTION, kinds == OTHER, comm, comm, nodes.work == Work.MEMORY,
             nodes.work == Work.HOST]
    begins = [nodes.start] * 3 + [ready, nodes.start] + [nodes.start] * 2
    ends = [nodes.end] * 4 + [ready] + [nodes.end] * 2
    chosen = [np.flatnonzero(mask & (end > begin)) for mask, begin, end in zip(masks, begins, ends, strict=True)]
    spans = Intervals(np.concatenate([nodes.row[at] for at in chosen]),
                      np.concatenate([begin[at] for begin, at in zip(begins, chosen, strict=True)]),
                      np.concatenate([end[at] for end, at in zip(ends, chosen, strict=True)]), rows)
    part = np.repeat(np.arange(len(chosen)), [at.size for at in chosen])
    covered = [np.zeros(rows, np.int64), *[spans.union(part <= number) for number in range(len(chosen))]]
    finish = result.outcome.finish
    columns = [*np.diff(np.array(covered), axis=0), finish - covered[-1], result.makespan_ps - finish]
    return Parts(np.stack(columns, axis=1), spans.union((part == 3) | (part == 4)))


def _ready(result: Result) -> I64:
    """[nodes] when a communication node no longer waits for others: a collective for its last member's start, a receive
    for its send's."""
    ready, comm = result.nodes.start.copy(), result.comm
    entry, number = collective_numbers(comm)
    last: dict[tuple[int, int], int] = {}
    for key, start in zip(zip(comm.b[entry].tolist(), number.tolist()), comm.start[entry].tolist()):
        last[key] = max(last.get(key, 0), start)
    own = comm.rank == result.first_ranks[result.outcome.row[comm.rank]]
    mine = own[entry]
    ready[comm.place[entry[mine]]] = [last[key] for key in zip(comm.b[entry[mine]].tolist(), number[mine].tolist())]
    send, recv = result.messages.send, result.messages.recv
    mine = own[recv]
    ready[comm.place[recv[mine]]] = comm.start[send[mine]]
    return np.asarray(np.minimum(np.maximum(ready, result.nodes.start), result.nodes.end), np.int64)


def _kernel_parts(result: Result) -> npt.NDArray[np.object_]:
    """[nodes] the part of a compute node, "" of the others."""
    nodes, outcome, source = result.nodes, result.outcome, result.traces
    found = np.full(nodes.row.size, "", object)
    for row, rank in enumerate(result.first_ranks.tolist()):
        mine = np.arange(int(outcome.node_ptr[row]), int(outcome.node_ptr[row + 1]))
        mine = mine[nodes.work[mine] == Work.COMPUTE]
        if isinstance(source, Generated):
            found[mine] = _generated(generated_class(source, rank), nodes.node[mine])
        elif isinstance(source, Traces):
            ids = np.asarray(result.plan.programs[int(result.plan.program_of[rank])].node_id)[nodes.node[mine]]
            found[mine] = _recorded(source.of(rank)[0], ids)
        else:
            found[mine] = OTHER
    return found


def _generated(trace: TraceClass, node: npt.NDArray[np.int32]) -> npt.NDArray[np.object_]:
    kinds = np.array([*[_KINDS.get(kernel.kind, OTHER) for kernel in trace.kernels], OTHER], object)
    return kinds[trace.kernel[node]] if trace.kernel is not None else np.full(node.size, OTHER, object)


def _recorded(columns: Columns, ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.object_]:
    names, place = columns.distinct_names()
    node, known = places_of(columns, ids)
    found = np.full(ids.size, OTHER, object)
    found[known] = np.array([kernel_class(name) for name in names], object)[place[node[known]]]
    return found
