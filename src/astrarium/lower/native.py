"""Design -> Plan under our own rule book."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from astrarium.cache import Cache
from astrarium.collective.config import active_chunks_of
from astrarium.compute.config import Compute
from astrarium.design import Design, npu_types
from astrarium.engine.plan import Backend, Dim, Order, Plan, Policy, Program, Shape
from astrarium.errors import UnsupportedError
from astrarium.lower.attached import attached_of
from astrarium.lower.in_switch import carried, each_its_own, within_groups
from astrarium.lower.native_collectives import CollectiveTable, by_size, shapes_of
from astrarium.lower.native_nodes import program_of
from astrarium.lower.native_plugins import has_medium
from astrarium.lower.native_timed import pools_differ
from astrarium.lower.native_work import Work, rank_count
from astrarium.memory.access import behind, plan_remote
from astrarium.memory.config import Memory, Tier
from astrarium.network.dims import plan_dims
from astrarium.network.packets import with_packets
from astrarium.network.planned import changes_of, network_plan
from astrarium.trace.columns import Traces
from astrarium.trace.work import TraceClass

if TYPE_CHECKING:
    from astrarium.engine.plugins import CollectiveChoice, ComputeModel, Plugins
    from astrarium.lower.kept import Kept
    from astrarium.lower.recorded_meetings import MeetingTable

__all__ = ["chosen_by", "lower_native", "placement_of", "same_memory", "surroundings"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
LIFO = {"lifo": 1, "fifo": -1, "priority": 0}
Row = tuple[TraceClass, Program]


def lower_native(design: Design, work: Work, plugins: Plugins | None, kept: Kept, groups: int | None = None) -> Plan:
    """The Plan of a design with `compat: none`. A million equal ranks cost a few arrays, never an object each.
    `groups`: process groups of a rank of all jobs, where the work is one of several."""
    groups = work.process_groups if groups is None else groups
    if work.jobs:
        from astrarium.lower.jobs import lower_jobs  # one workload starts without it

        return within_groups(design, lower_jobs(work, lambda job, own: lower_native(job, own, plugins, kept, groups)))
    dims = plan_dims(design.network)
    if isinstance(work.source, Traces):
        work = _recorded(design, work, work.source, groups)
    if work.meetings:
        return _replay(design, work, groups)
    cache = work.lowered if plugins is None else Cache(1)       # what plug-ins say is no content
    key = (design.compute, design.memory, design.npu_types, design.system.placement, design.network.npus)
    rows = cache.get(("programs", key), lambda: _programs(design, work, plugins))
    sizes = tuple([dim.npus for dim in dims])
    kinds = cache.get(("kinds", sizes, design.system.placement),
                      lambda: shapes_of(work.groups, work.names, rows.npu_of, sizes,
                                        cache.get("by size", lambda: by_size(work.groups))))
    trees = design.network.fabric is not None and bool(design.network.fabric.in_switch)
    kinds = each_its_own(kinds) if trees or pools_differ(design) else kinds
    table = CollectiveTable(design, dims, rows.npu_of, work.groups, work.names, chosen_by(plugins), kept, kinds)
    columns = cache.get(("columns", kinds[0].tobytes(), key), lambda: _columns(rows, table))
    settings = table.settings(columns.collectives)
    collectives = table.referred(columns.collectives) if settings is None else cache.get(
        ("collectives", sizes, key, tuple([each.key for each in settings])),
        lambda: table.referred(columns.collectives))
    carried(design.network, collectives)
    plan = Plan(npus=design.network.npus, programs=rows.programs,
                program_of=rows.program_of, npu_of=rows.npu_of, slot_ptr=columns.pointer, slot_a=columns.a,
                slot_b=columns.b, slot_c=columns.c, groups=work.groups, collectives=collectives,
                attached=attached_of(design.memory, design.network), changes=changes_of(design.network),
                **surroundings(design, dims, groups))
    return within_groups(design, plan)


def _recorded(design: Design, work: Work, traces: Traces, groups: int) -> Work:
    from astrarium.lower.recorded import as_recorded  # generated workloads start without it

    return as_recorded(design, work, traces, groups)


def _replay(design: Design, work: Work, groups: int) -> Plan:
    """Of a design in which every node takes its recorded time: a network without latency brings members together."""
    from astrarium.lower.recorded_meetings import MeetingTable

    if design.network.changes:
        raise UnsupportedError("network.changes", "have no effect if every node takes its recorded time",
                               expected="no changes, or another compute.model")
    rows = _programs(design, work, None)
    columns = _columns(rows, MeetingTable())
    around = surroundings(design, (Dim(Shape.SWITCH, design.network.npus, 1.0, 0.0),), groups)
    return Plan(npus=design.network.npus, programs=rows.programs, program_of=rows.program_of, npu_of=rows.npu_of,
                slot_ptr=columns.pointer, slot_a=columns.a, slot_b=columns.b, slot_c=columns.c, groups=work.groups,
                collectives=work.meetings,
                **{**around, "network": replace(around["network"], backend=Backend.PORTS, graph=None)})


class _Programs(Struct, frozen=True, eq=False):
    """Classes with their Programs; NPU and program of every rank."""

    rows: tuple[Row, ...]
    programs: tuple[Program, ...]
    npu_of: I32
    program_of: I32


class _Columns(Struct, frozen=True, eq=False):
    """Arguments of all ranks, and the collectives that they number."""

    pointer: I64
    a: I32
    b: I32
    c: I32
    collectives: tuple[tuple[int, int, int], ...]


def _programs(design: Design, work: Work, plugins: Plugins | None) -> _Programs:
    model = None if plugins is None else plugins.compute
    remote = behind(design.memory).kind != "none" or (plugins is not None and plugins.memory is not None)
    npu_of = placement_of(design)
    rows = tuple(_rows(design, work, npu_of, model, remote))
    program_of = np.zeros(npu_of.size, np.int32)
    for number, (trace, _) in enumerate(rows):
        program_of[trace.ranks] = number
    _freeze(npu_of, program_of)
    return _Programs(rows, tuple([program for _, program in rows]), npu_of, program_of)


def chosen_by(plugins: Plugins | None) -> CollectiveChoice | None:
    """Who picks algorithms in place of the design's lists."""
    return None if plugins is None else plugins.choice


def surroundings(design: Design, dims: tuple[Dim, ...], groups: int) -> dict[str, Any]:
    """What a Plan and a RunContext say beside ranks and their work; `groups`: process groups of a rank."""
    network = replace(network_plan(design.network, design.network.backend if has_medium(design) else Backend.FOREIGN),
                      dims=dims)
    if network.backend == "packets":
        network = with_packets(design.network.packets, network)
    return {"network": network,
            "policy": _policy(design), "remote": plan_remote(behind(design.memory)), "lanes": _lanes(design, groups),
            "reduce_bandwidth": _reduce_bandwidths(design)}


def _lanes(design: Design, groups: int) -> tuple[int, ...]:
    """Nodes in flight per lane. A pool behind the network serves one access of an NPU at a time, in the lane of
    collectives (`design._pooled`)."""
    remote = design.memory.remote
    return design.system.lanes(1 if remote.over == "network" and remote.dim is None else groups)


def placement_of(design: Design) -> I32:
    """NPU of every rank [ranks]."""
    placement = design.system.placement
    if isinstance(placement, str):
        return np.arange(rank_count(design), dtype=np.int32)
    return np.array(placement, np.int32)


def _rows(design: Design, work: Work, npu_of: I32, model: ComputeModel | None, remote: bool) -> Iterator[Row]:
    """Classes with their Programs; a class whose ranks sit on NPUs of several types becomes one class per type."""
    type_of, types = npu_types(design)
    same_memory(types)
    for trace in work.classes:
        kinds = type_of[npu_of[trace.ranks]]
        present = np.flatnonzero(np.bincount(kinds)).tolist()
        for number in present:
            part = trace if len(present) == 1 else _part(trace, kinds == number)
            yield part, program_of(part, *types[number], model=model, remote=remote, npu_type=number)


def _part(trace: TraceClass, chosen: npt.NDArray[np.bool_]) -> TraceClass:
    return replace(trace, ranks=trace.ranks[chosen], slot_a=trace.slot_a[chosen], slot_b=trace.slot_b[chosen])


def same_memory(types: Sequence[tuple[Compute, Memory]]) -> None:
    """One Plan has one remote memory."""
    for number, (_, memory) in enumerate(types[1:]):
        path = f"npu_types[{number}].memory"
        if behind(memory) != behind(types[0][1]):
            raise UnsupportedError(f"{path}.remote", "differs from memory.remote (or the tier in its place)",
                                   expected="one remote memory for all NPUs")
        if _at_switches(memory) != _at_switches(types[0][1]):
            raise UnsupportedError(f"{path}.tiers", "differs from memory.tiers in memories at switches of the network",
                                   expected="equal ones for all NPUs")


def _at_switches(memory: Memory) -> list[tuple[int, Tier]]:
    return [(number, tier) for number, tier in enumerate(memory.tiers) if tier.dim is not None]


def _columns(programs: _Programs, table: CollectiveTable | MeetingTable) -> _Columns:
    """`slot_ptr` and the three argument arrays; one fancy assignment per class."""
    rows, ranks = programs.rows, programs.npu_of.size
    widths = np.zeros(ranks + 1, np.int64)
    for trace, program in rows:
        widths[trace.ranks + 1] = _width(program)
    pointer = np.cumsum(widths)
    columns = [np.zeros(int(pointer[-1]), np.int32) for _ in range(3)]
    for trace, program in rows:
        width = _width(program)
        if width:
            places = pointer[trace.ranks][:, None] + np.arange(width)
            for column, values in zip(columns, table.slots(trace, program), strict=True):
                column[places] = values
    _freeze(pointer, *columns)
    return _Columns(pointer, columns[0], columns[1], columns[2], table.keys())


def _freeze(*made: npt.NDArray[Any]) -> None:
    """Make arrays read-only, so that the engine may cache what it derives from them."""
    for array in made:
        array.flags.writeable = False


def _width(program: Program) -> int:
    return int(program.slot.max(initial=-1)) + 1


def _policy(design: Design) -> Policy:
    return Policy(order=Order.CANONICAL, active_chunks=active_chunks_of(design.collective),
                  lifo=LIFO.get(design.collective.scheduling, 1),
                  endpoint_delay=round(float(design.collective.endpoint_delay) * 1000),
                  reduce_bandwidth=_reduce_bandwidth(design.memory))


def _reduce_bandwidth(memory: Memory) -> float:
    """Bytes/s at which reductions pass over local memory; 0 where it has no bandwidth: they are free."""
    return 0.0 if memory.bandwidth is None else float(memory.bandwidth) * 1e9


def _reduce_bandwidths(design: Design) -> F64:
    """`_reduce_bandwidth` of every NPU [npus], bytes/s; empty if all are equal."""
    if not design.npu_types:
        return np.zeros(0)
    type_of, types = npu_types(design)
    rates = np.array([_reduce_bandwidth(memory) for _, memory in types])
    return np.zeros(0) if (rates == rates[0]).all() else rates[type_of]
