"""The design of `astrarium run --trace`: every node takes its recorded time."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from astrarium.compute.config import replays_all
from astrarium.config import parse_path
from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.design import Design
    from astrarium.trace import Columns

__all__ = ["assumed", "replay_design"]

NONE: Mapping[str, object] = MappingProxyType({})
TIMED = ("network", "collective")       # sections of which every field says how communication is timed
UNTIMED = ("compute", "compute.model", "compute.everything")       # that it does not take its recorded time
IDLE = ("memory", "npu_types", "stack", "system.placement")     # what says nothing of recorded times, but for:
FITTED = "memory.capacity"      # whether the tensors of the traces fit
UNLIMITED = 1 << 20      # streams: dependencies say what waits for what
PROFILED = "profiled"    # `kind` of a trace whose dependencies hold the order of every stream and thread


def replay_design(pattern: str, rank: int | None = None, changes: Mapping[str, object] = NONE) -> Design:
    """Traces replayed with what they recorded, communication too: no network is used (a switch replaces it).

    Where `changes` (path -> value) say how communication is timed (`network`, `collective`, `compute.model`), it is
    simulated, on a network of which they say all but the shape: one switch, with an NPU for every trace.

    Traces of `astrarium trace link` hold the order on every stream and thread as dependencies, so an NPU runs whatever
    is ready; other traces take the defaults of `system`, one stream of a kind. Collectives wait for their last member
    where all of them have a trace. `rank` alone, or the rank of the one file that
    `pattern` is, runs by its recorded times. Raises InputError where a collective has no recorded time: then only a
    design can say what it takes.
    """
    from astrarium.config import decode, put, replace_all
    from astrarium.design import Design
    from astrarium.trace import read_traces
    from astrarium.trace.node import trace_kind
    from astrarium.trace.read import rank_of_file, trace_of_rank

    rank = rank_of_file(pattern) if rank is None else rank
    traces = read_traces(pattern if rank is None else trace_of_rank(pattern, rank))
    simulated = any(path in UNTIMED or parse_path(path)[0] in TIMED for path in changes)
    for number, columns in enumerate(traces.classes):
        _refuse_untimed(columns, traces.sources[int(traces.members(number)[0])], simulated)
    ordered = all(trace_kind(columns.metadata) == PROFILED for columns in traces.classes)
    streams = ("compute_streams", "comm_streams", "p2p_streams", "copy_streams", "cpu_threads")
    plain = {"workload": {"source": "trace", "path": pattern} | ({} if rank is None else {"rank": rank}),
             "compute": {"model": "replay", "missing": "0 ns"} | ({} if simulated else {"everything": True}),
             "system": dict.fromkeys(streams, UNLIMITED if ordered else 1), "fold": "off"}
    switch = {"shape": "switch", "npus": traces.ranks}
    if not simulated:
        for path in changes:
            if path != FITTED and any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in IDLE):
                raise InputError(f"--set {path}", "does nothing where every node takes its recorded time",
                                 expected="a design in addition to --trace, or --set of a network or of compute.model")
        network = {"dims": [switch | {"bandwidth": "1 GB/s", "latency": "0 ns"}]}
        return replace_all(decode(Design, plain | {"network": network}), changes)
    network = {"dims": [switch]} if rank is None else {}      # one rank's trace does not say how many others there are
    return decode(Design, put(plain | {"network": network}, changes))


def assumed(design: Design) -> str:
    """What such a design takes times from."""
    if replays_all(design.compute):
        return "every node takes its recorded time"
    network = design.network
    dims = " x ".join(f"{dim.tag} of {dim.npus}" for dim in network.flat) if network.dims else "a fabric"
    return (f"compute takes its time from compute.model {design.compute.tag}, communication from network.backend "
            f"{network.backend} ({dims})")


def _refuse_untimed(columns: Columns, source: str, simulated: bool) -> None:
    comm = columns.comm_node
    untimed = int((columns.duration[comm] == 0).sum())
    if not columns.duration.any():
        raise InputError(source, "records no durations at all", expected="a profiled trace, or a design in addition to "
                                                                         "--trace")
    if untimed and untimed == comm.size and not simulated:
        raise InputError(source, f"none of its {untimed:,} collectives and messages has a recorded duration",
                         expected="a design in addition to --trace, with the network that times them, or --set of "
                                  "network.dims[0].bandwidth and .latency")
