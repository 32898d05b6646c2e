"""Steps that leave nodes or ranks out: cut to ranks, cut to steps of training, drop nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from astrarium.config import Config, Knob
from astrarium.errors import InputError
from astrarium.trace.columns import Columns, Traces
from astrarium.trace.counts import accelerated
from astrarium.trace.graph import graph_of
from astrarium.trace.linked import GAP_NAME
from astrarium.trace.transform.bridge import bridged, ordered
from astrarium.trace.transform.files import Changes, Edit, Job, rebuilt
from astrarium.trace.transform.members import all_groups, definitions
from astrarium.trace.transform.patch import Change
from astrarium.trace.transform.select import matching, named
from astrarium.vocab import NodeKind

__all__ = ["CutRanks", "CutSteps", "Drop", "cut_ranks", "cut_steps", "drop", "numbers"]

COMM = (NodeKind.COMM_SEND, NodeKind.COMM_RECV, NodeKind.COMM_COLL)
MOST = 2**20


class CutRanks(Config, frozen=True):
    """Only some ranks stay, numbered from 0 in ascending order."""

    ranks: Annotated[str, Knob("Ranks such as 0-7,12.")]


class CutSteps(Config, frozen=True):
    """Only some steps of training stay."""

    steps: Annotated[str, Knob("Steps such as 1-3, counted from 0 in order of their marks.")]
    mark: Annotated[str, Knob("Pattern of the name of the node that begins a step.")] = "ProfilerStep*"
    overlap: Annotated[bool, Knob("Work that ran while the GPU was still busy with earlier steps takes only the time "
                                  "that it took after them.")] = True


class Drop(Config, frozen=True, kw_only=True):
    """The chosen nodes go; what waited for them waits for what they waited for."""

    kind: Annotated[str, Knob("Kind of node: any, compute, host, gpu, collective, send, recv, memory, all_reduce, "
                              "...")] = "any"
    name: Annotated[str, Knob("Pattern of the name, with * and ?.")] = "*"


def numbers(text: str, path: str) -> list[int]:
    """`0-3,7` as ascending distinct numbers."""
    found: set[int] = set()
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        good = low.isdecimal() and (not dash or high.isdecimal()) and len(part) < 24
        first, last = (int(low), int(high or low)) if good else (1, 0)
        if not first <= last < first + MOST:
            raise InputError(path, f"{text[:40]!r}", expected="numbers such as 0-3,7")
        found.update(range(first, last + 1))
    return sorted(found)


def drop(job: Job, step: Drop) -> Job:
    """Leaves nodes out. Of a collective or message every rank's part goes, as all match or none."""
    traces = job.traces()
    edits = [Edit(bridged(columns, ~matching(columns, step.kind, step.name), _source(traces, number)))
             for number, columns in enumerate(traces.classes)]
    return Job(rebuilt(traces, edits), job.groups)


# ------------------------------------------------------------ ranks
def cut_ranks(job: Job, step: CutRanks) -> Job:
    """The named ranks with the communication among them.

    Groups keep those of their members that stay; collectives of whom one is left, and messages to ranks that are gone,
    are left out. Sizes stay: a smaller all-to-all or reduce-scatter exchanges as much as before.
    """
    traces = job.traces()
    layout = numbers(step.ranks, "cut_ranks.ranks")
    if layout[-1] >= traces.ranks:
        raise InputError("cut_ranks.ranks", f"rank {layout[-1]}", expected=f"ranks 0 to {traces.ranks - 1}")
    new = {old: rank for rank, old in enumerate(layout)}
    before = all_groups(job, traces)
    groups = {name: tuple(new[member] for member in members if member in new) for name, members in before.items()}
    alone = {name for name, members in groups.items() if len(members) < 2}
    cut = _RankCut(traces, new, layout, alone, {name: m for name, m in groups.items() if m})
    edits = [Edit(own=cut.changes) for _ in traces.classes]
    return Job(rebuilt(traces, edits, layout), {name: m for name, m in groups.items() if len(m) > 1 and name != "0"})


class _RankCut:
    """Per new rank: what goes, and what its peers are called now."""

    def __init__(self, traces: Traces, new: Mapping[int, int], layout: Sequence[int], alone: set[str],
                 groups: Mapping[str, Sequence[int]]) -> None:
        self.traces, self.new, self.layout, self.groups = traces, new, layout, groups
        self.alone = np.array([name in alone for name in traces.texts] + [len(layout) < 2])
        self._cut: dict[tuple[int, bytes], Mapping[int, Change | None]] = {}
        self._metadata = [definitions(columns, groups) for columns in traces.classes]

    def changes(self, rank: int) -> Changes:
        """Node index -> change of new rank `rank`."""
        old = self.layout[rank]
        columns, row = self.traces.of(old)
        number = int(self.traces.rank_class[old])
        kind, nodes = columns.type[columns.comm_node], columns.comm_node
        sends, recvs = kind == NodeKind.COMM_SEND, kind == NodeKind.COMM_RECV
        ends = [columns.source[row].copy(), columns.destination[row].copy()]
        peer = np.where(sends, ends[1], np.where(recvs, ends[0], -1))
        gone = ((sends | recvs) & ~np.isin(peer, self.layout)) | ((kind == NodeKind.COMM_COLL)
                                                                  & self._alone(columns, row))
        keep = np.ones(columns.nodes, np.bool_)
        keep[nodes[gone]] = False
        key = (number, keep.tobytes())
        if key not in self._cut:
            self._cut[key] = {**self._metadata[number], **bridged(columns, keep, self.traces.sources[old])}
        found = dict(self._cut[key])
        for at in np.flatnonzero((sends | recvs) & ~gone).tolist():
            named_ends = {word: self.new[int(end[at])] for word, end in zip(("comm_src", "comm_dst"), ends, strict=True)
                          if int(end[at]) in self.new}
            node = int(nodes[at])
            was = found.get(node) or Change()
            found[node] = Change(data_deps=was.data_deps, ctrl_deps=was.ctrl_deps, values=named_ends)
        return found

    def _alone(self, columns: Columns, row: int) -> npt.NDArray[np.bool_]:
        """[comm nodes] whether one member is left of a collective's group; all ranks are the last entry."""
        group = columns.group[row]
        world = np.array([text.strip("0") == "" for text in self.traces.texts] + [True])
        return np.where(world[group], len(self.layout) < 2, self.alone[group])


# ------------------------------------------------------------ steps
def cut_steps(job: Job, step: CutSteps) -> Job:
    """The named steps, without what they waited for from others.

    A host node belongs to the step in whose time it starts, any other to the last step among what it waits for. The
    first step begins when the GPU is done with earlier ones: so it takes the time by which it moved their end on, and
    not its host's lead over the GPU, too (`overlap`). InputError where no node is a mark; recorded start times are
    needed.
    """
    traces = job.traces()
    wanted = numbers(step.steps, "cut_steps.steps")
    edits = []
    for number, columns in enumerate(traces.classes):
        source = _source(traces, number)
        marks = np.flatnonzero(named(columns, step.mark, np.ones(columns.nodes, np.bool_)))
        if not marks.size:
            raise InputError("cut_steps.mark", f"no node of {source} is named {step.mark!r}",
                             expected="the pattern of the node that begins every step, as mark=NAME*")
        if not columns.start.any():
            raise InputError("cut_steps", f"{source} has no start times, so no node can be given to a step",
                             expected="a profiled trace")
        starts = _begins(columns, marks)
        if wanted[-1] >= starts.size:
            raise InputError("cut_steps.steps", f"step {wanted[-1]}", expected=f"steps 0 to {starts.size - 1}")
        steps = _steps(columns, starts, source)
        keep = np.isin(steps, wanted) | (columns.type == NodeKind.METADATA)
        changes = bridged(columns, keep, source)
        edits.append(Edit(_after(columns, steps, keep, wanted[0], changes) if step.overlap else changes))
    return Job(rebuilt(traces, edits), job.groups)


def _after(columns: Columns, steps: npt.NDArray[np.int64], keep: npt.NDArray[np.bool_], first: int,
           changes: Mapping[int, Change | None]) -> Changes:
    """`changes`, with the durations of what stays cut to the time after the GPU was done with steps before `first`."""
    end = columns.start.astype(np.int64) + columns.duration.astype(np.int64)
    done = int(end[accelerated(columns) & (steps < first)].max(initial=0))
    early = keep & (columns.start > 0) & (columns.start < done) & (columns.duration > 0)
    found = dict(changes)
    for node in np.flatnonzero(early).tolist():
        left = max(0, int(end[node]) - done)
        found[node] = replace(found.get(node) or Change(), duration=left)
    return found


def _begins(columns: Columns, marks: npt.NDArray[np.intp]) -> npt.NDArray[np.uint64]:
    """When each step begins: at the first mark of every name (a mark may come in parts), or at every mark of the only
    name."""
    first: dict[str, int] = {}
    for node in marks.tolist():
        name, start = columns.name(node), int(columns.start[node])
        first[name] = min(start, first.get(name, start))
    return np.unique(np.array(list(first.values()), np.uint64) if len(first) > 1 else columns.start[marks])


def _steps(columns: Columns, starts: npt.NDArray[np.uint64], source: str) -> npt.NDArray[np.int64]:
    """[nodes] the step of each; -1 before the first one."""
    step: npt.NDArray[np.int64] = (np.searchsorted(starts, columns.start, side="right") - 1).astype(np.int64)
    host = (columns.is_cpu_op != 0) & (columns.start > 0)
    host &= ~named(columns, GAP_NAME, host)      # idle time of a stream is the GPU's
    graph = graph_of(columns)
    ptr, parent = graph.ptr.tolist(), graph.parent.tolist()
    found, own = step.tolist(), host.tolist()
    for node in ordered(columns, source).tolist():
        before = [found[each] for each in parent[ptr[node]:ptr[node + 1]] if each >= 0]
        if not own[node] and before:
            found[node] = max(before)
    return np.array(found, np.int64)


def _source(traces: Traces, number: int) -> str:
    return traces.sources[int(traces.members(number)[0])]
