"""A design whose workload decides as it runs: its source, and the context that it runs on."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from astrarium.design import Design, npu_types
from astrarium.engine.plugins.compute import ComputeModel, ComputeNodes, durations_of
from astrarium.engine.plugins.desk import Desk
from astrarium.engine.plugins.given import ask, checked
from astrarium.engine.plugins.work import WorkSource
from astrarium.engine.source import RunContext
from astrarium.errors import InputError, UnsupportedError
from astrarium.lower.attached import attached_of
from astrarium.lower.changes import changes_of, changing
from astrarium.lower.collectives import CollectiveTable
from astrarium.lower.compute_nodes import local_memory
from astrarium.lower.deadlock import refuse_deadlock
from astrarium.lower.in_switch import carried
from astrarium.lower.models import Models
from astrarium.lower.plan import placement_of, same_memory, surroundings
from astrarium.lower.plugins import models_of
from astrarium.network.dims import plan_dims
from astrarium.workload.config import Live

if TYPE_CHECKING:
    from astrarium.engine.plugins import Plugins
    from astrarium.lower.kept import Kept

__all__ = ["lower_live"]


def lower_live(design: Design, plugins: Plugins | None, kept: Kept) -> tuple[WorkSource, RunContext]:
    """The source that a design's workload gives for one run, and its context. Raises PluginError where the
    workload raises, or asks for what there is not."""
    workload = design.workload
    assert isinstance(workload, Live)
    if design.memory.remote.over != "own":
        raise UnsupportedError("memory.remote.over", f"{design.memory.remote.over}, for a workload that decides as it "
                               "runs", expected="own")
    if attached_of(design.memory, design.network):
        raise UnsupportedError("memory.tiers[].dim", "set, for a workload that decides as it runs", expected="none")
    if changes_of(design) is not None:
        raise UnsupportedError(changing(design), f"in a run of {workload.tag}, which decides as it runs",
                               expected="no changes")
    npu_of, dims = placement_of(design), plan_dims(design.network)
    models = models_of(design, plugins)
    same_memory(models.types)
    desk = Desk(len(npu_of), _Times(design, models).duration)
    who = f"workload plug-in {workload.tag}"
    source = checked(who, ask(who, workload.feed, desk), ("start", "completed", "unfinished"))
    desk.close()
    groups = tuple(np.array(members, np.int32) for members in desk.groups)
    names = [f"{number} of workload {workload.tag}" for number in range(len(groups))]
    table = CollectiveTable(design, dims, npu_of, groups, names, models.choice, kept)
    numbers = [table.number(op, size, group) for op, size, group in desk.collectives]
    plans = table.plans()
    carried(design.network, plans)
    around = surroundings(design, models, dims, _process_groups(desk))
    refuse_deadlock(design, around["network"])
    return source, RunContext(npu_of, groups=groups, collectives=tuple(plans[number] for number in numbers),
                              group_of=tuple(group for _, _, group in desk.collectives),
                              **around)


def _process_groups(desk: Desk) -> int:
    """The most groups of several ranks that a rank has collectives in."""
    used = {group for _, _, group in desk.collectives}
    several = [desk.groups[group] for group in used if group >= 0 and len(desk.groups[group]) > 1]
    counts = Counter(rank for members in several for rank in members)
    return max(counts.values(), default=0) + (-1 in used)


class _Times:
    """Durations of compute nodes by the design's models, one at a time and remembered."""

    def __init__(self, design: Design, models: Models) -> None:
        self._types = models.types
        self._kind_of = npu_types(design)[0][placement_of(design)].tolist()
        self._of = cache(self._timed)

    def duration(self, rank: int, num_ops: float, tensor_bytes: int) -> int:
        """As `Desk.duration` says."""
        return self._of(self._kind_of[rank], num_ops, tensor_bytes)

    def _timed(self, kind: int, num_ops: float, tensor_bytes: int) -> int:
        compute, memory = self._types[kind]
        node = ComputeNodes(np.array([num_ops], np.float64), np.array([tensor_bytes], np.int64), np.zeros(1, np.int64),
                            [""], np.zeros(1, np.bool_), kind, memory=local_memory(memory),
                            refusal=lambda *_: _unrecorded(compute))
        return int(durations_of(compute, node)[0])


def _unrecorded(compute: ComputeModel) -> InputError:
    name = getattr(compute, "tag", type(compute).__name__)
    return InputError("compute.model", f"{name} takes recorded times, and this workload has none",
                      expected="roofline, or a compute plug-in")
