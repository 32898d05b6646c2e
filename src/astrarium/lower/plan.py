"""Design -> Plan under our own rule book."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from astrarium.arrays import F64, I32, I64
from astrarium.collective.config import active_chunks_of
from astrarium.design import Design, npu_types
from astrarium.engine.plan import Dim, Order, Plan, Policy, Program
from astrarium.errors import UnsupportedError
from astrarium.lower.attached import attached_of
from astrarium.lower.changes import changes_of
from astrarium.lower.collectives import CollectiveTable, by_size, shapes_of
from astrarium.lower.in_switch import carried, each_its_own, within_groups
from astrarium.lower.models import Models
from astrarium.lower.nodes import program_of
from astrarium.lower.timed import pools_differ
from astrarium.lower.units import reserved_units
from astrarium.lower.work import Work, rank_count
from astrarium.memory.access import behind, plan_remote
from astrarium.memory.config import Memory, Tier
from astrarium.network.dims import plan_dims
from astrarium.network.packets import with_packets
from astrarium.network.planned import network_plan
from astrarium.trace.work import TraceClass

if TYPE_CHECKING:
    from astrarium.engine.plugins import ComputeModel
    from astrarium.lower.kept import Kept

__all__ = ["Columns", "Programs", "columns_of", "lower_work", "placement_of", "programs_of", "same_memory",
           "surroundings"]

LIFO = {"lifo": 1, "fifo": -1, "priority": 0}
Row = tuple[TraceClass, Program]
Slots = Callable[[TraceClass, Program], tuple[I32, I32, I32]]
"""(slot_a, slot_b, slot_c) of a class, each broadcastable to [ranks, slots of the program]."""


def lower_work(design: Design, work: Work, models: Models, kept: Kept, groups: int) -> Plan:
    """The Plan of one workload. A million equal ranks cost a few arrays, never an object each. `groups`: process groups
    of a rank (as many collectives run at once with `comm_streams: auto`)."""
    dims, cache = plan_dims(design.network), work.lowered
    key = (design.compute, design.memory, design.npu_types, design.system.placement, design.network.npus,
           reserved_units(design))
    programs = cache.get(("programs", key), lambda: programs_of(design, work, models))
    sizes = tuple([dim.npus for dim in dims])
    kinds = cache.get(("kinds", sizes, design.system.placement),
                      lambda: shapes_of(work.groups, work.names, programs.npu_of, sizes,
                                        cache.get("by size", lambda: by_size(work.groups))))
    trees = design.network.fabric is not None and bool(design.network.fabric.in_switch)
    kinds = each_its_own(kinds) if trees or pools_differ(design) else kinds
    table = CollectiveTable(design, dims, programs.npu_of, work.groups, work.names, models.choice, kept, kinds)
    columns, numbered = cache.get(("columns", kinds[0].tobytes(), key),
                                  lambda: (columns_of(programs, table.slots), table.keys()))
    settings = table.settings(numbered)
    collectives = table.referred(numbered) if settings is None else cache.get(
        ("collectives", sizes, key, tuple([each.key for each in settings])), lambda: table.referred(numbered))
    carried(design.network, collectives)
    plan = Plan(npus=design.network.npus, programs=programs.programs, program_of=programs.program_of,
                npu_of=programs.npu_of, slot_ptr=columns.pointer, slot_a=columns.a, slot_b=columns.b,
                slot_c=columns.c, groups=work.groups, collectives=collectives,
                attached=attached_of(design.memory, design.network), changes=changes_of(design),
                **surroundings(design, models, dims, groups))
    return within_groups(design, plan)


class Programs(Struct, frozen=True, eq=False):
    """Classes with their Programs; NPU and program of every rank."""

    rows: tuple[Row, ...]
    programs: tuple[Program, ...]
    npu_of: I32
    program_of: I32


class Columns(Struct, frozen=True, eq=False):
    """Arguments of the nodes of all ranks."""

    pointer: I64
    a: I32
    b: I32
    c: I32


def programs_of(design: Design, work: Work, models: Models) -> Programs:
    """What every rank does, and where."""
    npu_of = placement_of(design)
    rows = tuple(_rows(design, work, npu_of, models))
    program_of = np.zeros(npu_of.size, np.int32)
    for number, (trace, _) in enumerate(rows):
        program_of[trace.ranks] = number
    _freeze(npu_of, program_of)
    return Programs(rows, tuple([program for _, program in rows]), npu_of, program_of)


def surroundings(design: Design, models: Models, dims: tuple[Dim, ...], groups: int) -> dict[str, Any]:
    """Fields of a Plan and a RunContext other than ranks and their work; `groups`: process groups of a rank."""
    network = replace(network_plan(design.network, models.backend), dims=dims)
    if network.backend == "packets":
        network = with_packets(design.network.packets, network, design.network)
    return {"network": network,
            "policy": _policy(design), "remote": plan_remote(behind(design.memory)), "lanes": _lanes(design, groups),
            "reduce_bandwidth": _reduce_bandwidths(design)}


def _lanes(design: Design, groups: int) -> tuple[int, ...]:
    """Nodes in flight per lane. A pool behind the network serves one access of an NPU at a time, in the lane of
    collectives (`design._pooled`)."""
    remote = design.memory.remote
    return design.system.lanes(1 if remote.over == "network" and remote.dim is None else groups)


def placement_of(design: Design) -> I32:
    """NPU of every rank [ranks] of one workload."""
    placement = design.system.placement
    if isinstance(placement, str):
        return np.arange(rank_count(design), dtype=np.int32)
    return np.array(placement, np.int32)


def _rows(design: Design, work: Work, npu_of: I32, models: Models) -> Iterator[Row]:
    """Classes with their Programs; a class whose ranks sit on NPUs of several types becomes one class per type."""
    type_of = npu_types(design)[0]
    same_memory(models.types)
    for trace in work.classes:
        kinds = type_of[npu_of[trace.ranks]]
        present = np.flatnonzero(np.bincount(kinds)).tolist()
        for number in present:
            part = trace if len(present) == 1 else _part(trace, kinds == number)
            yield part, program_of(part, *models.types[number], remote=models.remote, npu_type=number)


def _part(trace: TraceClass, chosen: npt.NDArray[np.bool_]) -> TraceClass:
    return replace(trace, ranks=trace.ranks[chosen], slot_a=trace.slot_a[chosen], slot_b=trace.slot_b[chosen])


def same_memory(types: Sequence[tuple[ComputeModel, Memory]]) -> None:
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


def columns_of(programs: Programs, slots: Slots) -> Columns:
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
            for column, values in zip(columns, slots(trace, program), strict=True):
                column[places] = values
    _freeze(pointer, *columns)
    return Columns(pointer, columns[0], columns[1], columns[2])


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
