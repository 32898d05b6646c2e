"""How long ranks need their ports. Collectives whose time is given (`collective.model`) do not meet each other in a
run, so the time in which they could pass one port is a lower bound of its own."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Backend, Kind, Plan, Program, Shape
from astrarium.result.nodes import first_ranks

__all__ = ["Ports", "ports_of"]


class Ports(Struct, frozen=True, eq=False):
    """`needed` [rows, dims]: ps for which each row's rank needs its port out of a dim at least: the sum over its
    collectives of given time (`CollectivePlan.wires`) and, of closed_form, its messages there. No rows: no collective
    has a given time, and messages wait for each other in the run."""

    needed: I64

    @property
    def most(self) -> int:
        """ps of the port that is needed for longest; 0 without collectives of given time."""
        return int(self.needed.max(initial=0))

    @property
    def where(self) -> tuple[int, int]:
        """(row, dim) of that port."""
        row, dim = np.unravel_index(int(np.argmax(self.needed)), self.needed.shape)
        return int(row), int(dim)


def ports_of(plan: Plan, outcome: Outcome) -> Ports:
    """The ports of every row's own rank."""
    dims = len(plan.network.dims)
    wires = np.zeros((len(plan.collectives), dims), np.int64)
    for number, each in enumerate(plan.collectives):
        for dim, ps in each.wires:
            wires[number, dim] += ps
    if not wires.any():
        return Ports(np.zeros((0, dims), np.int64))
    ranks = first_ranks(outcome)
    needed, programs = np.zeros((len(ranks), dims), np.int64), plan.program_of[ranks]
    for number in np.unique(programs).tolist():
        rows, program = np.flatnonzero(programs == number), plan.programs[number]
        slots, counts = _slots(program, Kind.COLLECTIVE)
        for slot, count in zip(slots.tolist(), counts.tolist()):
            needed[rows] += count * wires[plan.slot_a[plan.slot_ptr[ranks[rows]] + slot]]
        if plan.network.backend == Backend.PORTS and plan.network.graph is None:
            _add_messages(plan, program, ranks[rows], needed, rows)
    return Ports(needed)


def _slots(program: Program, kind: Kind) -> tuple[I64, I64]:
    """(slots of a program's nodes of a kind, how many nodes have each)."""
    counts = np.bincount(program.slot[(program.kind == kind) & (program.slot >= 0)])
    slots = np.flatnonzero(counts)
    return slots, counts[slots]


def _add_messages(plan: Plan, program: Program, ranks: I64, needed: I64, rows: I64) -> None:
    """Add what ranks of one program send: a message takes the port of every dim that it crosses."""
    chosen = np.flatnonzero((program.kind == Kind.SEND) & (program.slot >= 0))
    sizes = np.bincount(program.slot[chosen], program.size[chosen])
    slots, inside = np.flatnonzero(sizes), 1
    here = plan.npu_of[ranks].astype(np.int64)[:, None]
    there = plan.npu_of[plan.slot_a[plan.slot_ptr[ranks][:, None] + slots]].astype(np.int64)
    for number, dim in enumerate(plan.network.dims):
        if dim.shape == Shape.SWITCH:
            crosses = here // inside % dim.npus != there // inside % dim.npus
            needed[rows, number] += (crosses @ sizes[slots] / dim.bandwidth * 1000).astype(np.int64)
        inside *= dim.npus
