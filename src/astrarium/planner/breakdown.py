"""Where the time of a step goes: compute, recomputation, communication that nothing hides by axis, and the bubble."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.engine.plan import Kind
from astrarium.planner.costs import durations
from astrarium.planner.machine import Machine
from astrarium.result import Result
from astrarium.result.collectives import collective_numbers
from astrarium.result.intervals import Intervals
from astrarium.result.nodes import Work
from astrarium.vocab import CommOp
from astrarium.workload.training import recipe_of
from astrarium.workload.transformer import Transformer

__all__ = ["PARTS", "Breakdown", "breakdown_of"]

I64 = npt.NDArray[np.int64]
AXES = ("tp", "ep", "cp", "dp", "pp")
PARTS = ("compute", "recompute", *AXES, "bubble")
"""What a step consists of. An axis: its communication while nothing computes, and none of an axis before it runs; a
collective counts from the moment when its last member is there, a message from its send. pp: messages between stages,
and collectives of several stages. bubble: the rest."""


class Breakdown(Struct, frozen=True):
    """ns of every part of PARTS, per stage and as the mean over all ranks; each adds up to the step."""

    stages: tuple[Mapping[str, float], ...]

    @property
    def mean(self) -> dict[str, float]:
        """Mean over the stages, which have equally many ranks."""
        return {part: sum(each[part] for each in self.stages) / len(self.stages) for part in PARTS}


def breakdown_of(result: Result, machine: Machine, workload: Transformer) -> Breakdown:
    """Of a recorded run of a workload on a machine."""
    outcome, nodes, mesh = result.outcome, result.nodes, workload.mesh
    begin, axis = _begins(result), _axes(result, workload)
    timed = np.flatnonzero(nodes.end > begin)
    rows = len(outcome.finish)
    spans = Intervals(nodes.row[timed], begin[timed], nodes.end[timed], rows)
    chosen = nodes.work[timed] == Work.COMPUTE
    covered = [spans.union(chosen)]
    for number in range(len(AXES)):
        chosen = chosen | (axis[timed] == number)
        covered.append(spans.union(chosen))
    stage = mesh.coordinate("pp")
    again = _recomputed(machine, workload)
    found = []
    for place in range(workload.pp):
        row = int(outcome.row[int(np.flatnonzero(stage == place)[0])])
        times = {name: float(after[row] - before[row]) / 1000
                 for name, before, after in zip(AXES, covered, covered[1:])}
        compute = float(covered[0][row]) / 1000
        found.append({"compute": compute - again[place], "recompute": again[place], **times,
                      "bubble": (outcome.makespan - float(covered[-1][row])) / 1000})
    return Breakdown(tuple(found))


def _begins(result: Result) -> I64:
    """[nodes] ps from which each is in flight: a receive from its send, a collective from its last member."""
    comm, messages = result.comm, result.messages
    begin: I64 = result.nodes.start.copy()
    np.maximum.at(begin, comm.place[messages.recv], comm.start[messages.send])
    chosen, number = collective_numbers(comm)
    if chosen.size:
        pairs = np.stack([comm.b[chosen].astype(np.int64), number], axis=1)
        _, which = np.unique(pairs, axis=0, return_inverse=True)
        ready = np.zeros(int(which.max()) + 1, np.int64)
        np.maximum.at(ready, which.reshape(-1), comm.start[chosen])
        np.maximum.at(begin, comm.place[chosen], ready[which.reshape(-1)])
    return begin


def _axes(result: Result, workload: Transformer) -> npt.NDArray[np.int8]:
    """[nodes] index into AXES of what each communicates over; -1 of those that do not."""
    comm, plan, mesh = result.comm, result.plan, workload.mesh
    found = np.full(result.nodes.start.size, -1, np.int8)
    coordinates = {axis: mesh.coordinate(axis) for axis in ("tp", "ep", "cp", "edp", "pp")}
    message = comm.kind != Kind.COLLECTIVE
    between = coordinates["pp"][comm.rank[message]] != coordinates["pp"][comm.a[message]]
    found[comm.place[message]] = np.where(between, AXES.index("pp"), AXES.index("cp"))
    collective = np.flatnonzero(~message)
    pairs, which = np.unique(np.stack([comm.b[collective], comm.a[collective]], axis=1), axis=0, return_inverse=True)
    axis = []
    for group, number in pairs.tolist():
        members = plan.groups[group] if group >= 0 else np.arange(mesh.ranks)
        over = {name for name, each in coordinates.items() if bool((each[members] != each[members[0]]).any())}
        axis.append(AXES.index(_axis(over, CommOp(plan.collectives[number].op))))
    found[comm.place[collective]] = np.array(axis, np.int8)[which.reshape(-1)]
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
    again = [float(durations(machine, recipe.mesh, each).sum()) for each in steps]
    parts = [sum(again[block] for block in part) * recipe.batches for part in recipe.parts]
    return [float(sum(parts[stage::workload.pp])) for stage in range(workload.pp)]
