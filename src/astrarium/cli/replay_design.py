"""The design of `astrarium run --trace`: every node takes its recorded time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.design import Design
    from astrarium.trace import Columns

__all__ = ["replay_design"]

UNLIMITED = 1 << 20      # streams: dependencies say what waits for what
PROFILED = "profiled"    # `kind` of a trace whose dependencies hold the order of every stream and thread


def replay_design(pattern: str, rank: int | None = None) -> Design:
    """Traces replayed with what they recorded, communication too: no network is used (a switch stands in for one).

    Traces of `astrarium trace link` hold the order on every stream and thread as dependencies, so an NPU runs whatever
    is ready; other traces take the defaults of `system`, one stream of a kind. Collectives wait for their last member
    where all of them have a trace. `rank` alone, or the rank of the one file that
    `pattern` is, runs by its recorded times. Raises InputError where a collective has no recorded time: then only a
    design can say what it takes.
    """
    from astrarium.compute.config import Replay
    from astrarium.design import Design
    from astrarium.memory.config import Memory
    from astrarium.network.config import Network, Switch
    from astrarium.system.config import System
    from astrarium.trace import read_traces
    from astrarium.trace.node import trace_kind
    from astrarium.trace.read import rank_of_file, trace_of_rank
    from astrarium.workload.config import Trace

    rank = rank_of_file(pattern) if rank is None else rank
    traces = read_traces(pattern if rank is None else trace_of_rank(pattern, rank))
    for number, columns in enumerate(traces.classes):
        _refuse_untimed(columns, traces.sources[int(traces.members(number)[0])])
    ordered = all(trace_kind(columns.metadata) == PROFILED for columns in traces.classes)
    streams = UNLIMITED if ordered else 1
    return Design(workload=Trace(pattern, rank=rank), compute=Replay(missing="0 ns", everything=True), memory=Memory(),
                  network=Network([Switch(traces.ranks, bandwidth="1 GB/s", latency="0 ns")]),
                  system=System(compute_streams=streams, comm_streams=streams, p2p_streams=streams,
                                copy_streams=streams, cpu_threads=streams), fold="off")


def _refuse_untimed(columns: Columns, source: str) -> None:
    comm = columns.comm_node
    untimed = int((columns.duration[comm] == 0).sum())
    if not columns.duration.any():
        raise InputError(source, "records no durations at all", expected="a profiled trace, or a design beside --trace")
    if untimed and untimed == comm.size:
        raise InputError(source, f"none of its {untimed:,} collectives and messages has a recorded duration",
                         expected="a design beside --trace, with the network that times them")
