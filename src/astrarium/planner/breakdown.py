"""Where the time of a step goes: compute, recomputation, communication that nothing hides by axis, and the bubble."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.bounds.nodes import Nodes
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Kind, Plan
from astrarium.planner.machine import Machine
from astrarium.result import Result
from astrarium.result.collectives import collective_numbers
from astrarium.result.intervals import Intervals
from astrarium.result.messages import Comm, comm_of, messages_of
from astrarium.result.nodes import Work, first_ranks, nodes_of, seen
from astrarium.vocab import CommOp
from astrarium.workload.mesh import Mesh
from astrarium.workload.training import recipe_of
from astrarium.workload.transformer import Transformer

__all__ = ["PARTS", "Breakdown", "breakdown_of"]

AXES = ("tp", "ep", "cp", "dp", "pp")
PARTS = ("compute", "recompute", *AXES, "ports", "bubble")
"""What a step consists of. An axis: its communication while nothing computes, and none of an axis before it runs; a
collective counts from the moment when its last member is there, a message from its send. pp: messages between stages,
and collectives of several stages. ports: how much longer than the run some port is needed (`Result.at_least`). bubble:
the rest."""


class Breakdown(Struct, frozen=True):
    """ns of every part of PARTS, per stage and as the mean over all ranks; each adds up to the step."""

    stages: tuple[Mapping[str, float], ...]

    @property
    def mean(self) -> dict[str, float]:
        """Mean over the stages, which have equally many ranks."""
        return {part: sum(each[part] for each in self.stages) / len(self.stages) for part in PARTS}


def breakdown_of(result: Result, machine: Machine, workload: Transformer) -> Breakdown:
    """The breakdown of a recorded run of a workload on a machine."""
    outcome, mesh = result.outcome, workload.mesh
    stage = mesh.coordinate("pp")
    rows = outcome.row[[int(np.flatnonzero(stage == place)[0]) for place in range(workload.pp)]].astype(np.int64)
    own = seen(rows)
    nodes, comm = nodes_of(result.plan, outcome, own), comm_of(result.plan, outcome, own)
    begin, axis = nodes.start.copy(), np.full(nodes.start.size, -1, np.int8)
    here, place = _places(outcome, comm, own)
    begin[place] = np.maximum(begin[place], _begins(comm)[here])
    axis[place] = _axes(result.plan, comm, mesh)[here]
    timed = np.flatnonzero(nodes.end > begin)
    spans = Intervals(nodes.row[timed], begin[timed], nodes.end[timed], len(outcome.finish))
    axis, chosen = axis[timed], nodes.work[timed] == Work.COMPUTE
    covered = [spans.union(chosen)]
    for number in range(len(AXES)):
        more = axis == number
        chosen = chosen | more
        covered.append(spans.union(chosen) if more.any() else covered[-1])
    again = _recomputed(machine, workload)
    found = []
    for number, row in enumerate(rows.tolist()):
        times = {name: float(after[row] - before[row]) / 1000
                 for name, before, after in zip(AXES, covered, covered[1:])}
        compute = float(covered[0][row]) / 1000
        found.append({"compute": compute - again[number], "recompute": again[number], **times,
                      "ports": float(result.at_least - result.makespan),
                      "bubble": (outcome.makespan - float(covered[-1][row])) / 1000})
    return Breakdown(tuple(found))


def _places(outcome: Outcome, comm: Comm, rows: I64) -> tuple[I64, I64]:
    """(entries of `comm` that are nodes of these rows; the place of each among the nodes of the rows)."""
    counts = outcome.node_ptr[rows + 1] - outcome.node_ptr[rows]
    shift = np.full(len(outcome.finish), -1, np.int64)
    shift[rows] = np.cumsum(counts) - counts
    row = outcome.row[comm.rank]
    here = np.flatnonzero((shift[row] >= 0) & (comm.rank == first_ranks(outcome)[row]))
    return here, comm.place[here] - outcome.node_ptr[row[here]] + shift[row[here]]


def _begins(comm: Comm) -> I64:
    """[entries] ps from which each is in flight: a receive from its send, a collective from its last member."""
    messages = messages_of(comm)
    begin: I64 = comm.start.copy()
    begin[messages.recv] = np.maximum(begin[messages.recv], comm.start[messages.send])
    chosen, number = collective_numbers(comm)
    if chosen.size:
        _, which = _distinct(comm.b[chosen], number)
        ready = np.zeros(int(which.max()) + 1, np.int64)
        np.maximum.at(ready, which, comm.start[chosen])
        begin[chosen] = ready[which]
    return begin


def _distinct(one: npt.NDArray[np.integer[Any]], two: npt.NDArray[np.integer[Any]]) -> tuple[I64, I64]:
    """(a place of every distinct pair, the number of each place's pair) of small numbers from -1 on. (numpy.unique
    sorts, which takes 20 times as long.)"""
    names = np.cumsum(np.bincount(one + 1) > 0)[one + 1]
    key = (names - 1) * (int(two.max()) + 2) + two + 1
    place = np.zeros(int(key.max()) + 1, np.int64)
    place[key] = np.arange(key.size)
    there = np.zeros(place.size, np.bool_)
    there[key] = True
    return place[there], np.cumsum(there)[key] - 1


def _axes(plan: Plan, comm: Comm, mesh: Mesh) -> npt.NDArray[np.int8]:
    """[entries] index into AXES of what each communicates over."""
    found = np.full(comm.rank.size, -1, np.int8)
    coordinates = {axis: mesh.coordinate(axis) for axis in ("tp", "ep", "cp", "edp", "pp")}
    message = comm.kind != Kind.COLLECTIVE
    between = coordinates["pp"][comm.rank[message]] != coordinates["pp"][comm.a[message]]
    found[message] = np.where(between, AXES.index("pp"), AXES.index("cp"))
    collective = np.flatnonzero(~message)
    if not collective.size:
        return found
    first, which = _distinct(comm.b[collective], comm.a[collective])
    axis = []
    for place in collective[first].tolist():
        group, number = int(comm.b[place]), int(comm.a[place])
        members = plan.groups[group] if group >= 0 else np.arange(mesh.ranks)
        over = {name for name, each in coordinates.items() if bool((each[members] != each[members[0]]).any())}
        axis.append(AXES.index(_axis(over, CommOp(plan.collectives[number].op))))
    found[collective] = np.array(axis, np.int8)[which]
    return found


def _axis(over: set[str], op: CommOp) -> str:
    """The axis that a collective over several counts for: gradients and weights of replicas for dp."""
    if "pp" in over:
        return "pp"
    if "edp" in over or ("ep" in over and op != CommOp.ALL_TO_ALL) or len(over) != 1:
        return "dp"
    return over.pop()


def _recomputed(machine: Machine, workload: Transformer) -> list[float]:
    """ns that every stage computes again in a step."""
    recipe = recipe_of(workload)
    steps = [[step for step in kind.backward.steps if ".again." in f".{step.name}"] for kind in recipe.kinds]
    again = [float(Nodes(recipe.mesh, each).durations(machine.compute, machine.memory, 1.0).sum()) for each in steps]
    parts = [sum(again[block] for block in part) * recipe.batches for part in recipe.parts]
    return [float(sum(parts[stage::workload.pp])) for stage in range(workload.pp)]
