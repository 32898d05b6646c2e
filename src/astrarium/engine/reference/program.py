"""Programs as plain Python lists, converted once per class: CPython reads list items several times faster than arrays."""

from __future__ import annotations

from dataclasses import dataclass

from astrarium.engine.plan import Plan, Program

__all__ = ["Table", "child_lists", "table", "tables"]


@dataclass(frozen=True, eq=False)
class Table:
    """One Program; every list is [nodes]. `children[i]` are indexes of the nodes that wait for node i."""

    node_id: list[int]
    kind: list[int]
    lane: list[int]
    duration: list[int]
    busy: list[int]
    size: list[int]
    slot: list[int]
    parents: list[int]
    children: list[list[int]]

    def __len__(self) -> int:
        return len(self.node_id)


def child_lists(program: Program) -> list[list[int]]:
    """The children of each node as a list."""
    pointer, child = program.child_ptr.tolist(), program.child.tolist()
    return [child[start:end] for start, end in zip(pointer, pointer[1:], strict=False)]


def table(program: Program) -> Table:
    """The lists of one Program."""
    columns = (program.node_id, program.kind, program.lane, program.duration, program.busy, program.size, program.slot,
               program.parents)
    return Table(*(column.tolist() for column in columns), children=child_lists(program))


def tables(plan: Plan) -> list[Table]:
    """The Table of every rank; ranks of one class share it."""
    by_class = [table(program) for program in plan.programs]
    return [by_class[c] for c in plan.program_of.tolist()]
