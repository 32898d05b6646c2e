"""Anonymising traces: names and everything that is not simulated go, durations and sizes move within a budget.

Every duration d becomes one of [d (1 - x), d (1 + x)], and so do sizes and flop under their own budget. Without
contention a trace's simulated time is a maximum over sums of its nodes' times, so it stays within the larger budget
too; as errors of single nodes are independent it moves far less. Equal sizes stay equal, so collectives and messages
match.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from astrarium.errors import InputError
from astrarium.trace.columns import Attr, Columns, Traces
from astrarium.trace.groups import group_key, groups_of
from astrarium.trace.node import TRACE_KINDS, Metadata, attribute, encode_metadata
from astrarium.trace.transform.files import Edit, Job, rebuilt
from astrarium.trace.transform.members import definitions, pg_names
from astrarium.trace.transform.patch import Change
from astrarium.trace.transform.values import READ_ATTRS
from astrarium.vocab import NodeKind

__all__ = ["Anonymised", "anonymise"]

MOST = 0.5
F64 = npt.NDArray[np.float64]
SIZES = (("comm_size", Attr.COMM_SIZE), ("tensor_size", Attr.TENSOR_SIZE), ("num_ops", Attr.NUM_OPS))
WORDS = {NodeKind.COMP: "op", NodeKind.COMM_COLL: "coll", NodeKind.COMM_SEND: "send", NodeKind.COMM_RECV: "recv",
         NodeKind.METADATA: "meta"}


@dataclass(frozen=True)
class Anonymised:
    """The job without names; `names` maps new names to old ones (for who owns the trace); the largest relative changes
    that were made."""

    job: Job
    names: Mapping[str, str]
    durations: float
    sizes: float


def anonymise(job: Job, *, durations: float = 0.05, sizes: float = 0.0, seed: int = 0) -> Anonymised:
    """Renames nodes and groups, takes away what the simulator does not read, and perturbs within `durations` and
    `sizes` (fractions). The same seed gives the same bytes; without the seed's secrecy the noise can be undone.

    InputError for a budget below 0 or above 0.5. Tags and peers of messages stay: they are structure.
    """
    for word, budget in (("durations", durations), ("sizes", sizes)):
        if not 0 <= budget <= MOST:
            raise InputError(word, f"a budget of {budget:g}", expected=f"0 to {MOST:g}")
    traces = job.traces()
    names, groups = _Names(), _renamed_groups(job, traces)
    members = {new: tuple(found) for new, found in groups.members.items()}
    most = [0.0, 0.0]
    edits = []
    for number, columns in enumerate(traces.classes):
        new, moved = _durations(columns, durations, f"{seed} {number}")
        scaled, grown = _sizes(columns, sizes, str(seed))
        most = [max(most[0], moved), max(most[1], grown)]
        common = _changes(columns, names, new, scaled, definitions(columns, members))
        edits.append(Edit(common, _Own(traces, common, groups.names), metadata=_metadata(columns)))
    return Anonymised(Job(rebuilt(traces, edits), members), names.old, most[0], most[1])


class _Names:
    """New names in order of first appearance: one for each old name and kind."""

    def __init__(self) -> None:
        self.old: dict[str, str] = {}
        self._new: dict[tuple[str, str], str] = {}
        self._count: dict[str, int] = {}

    def of(self, kind: int, name: str) -> str:
        word = WORDS.get(NodeKind(kind), "node") if kind in set(NodeKind) else "node"
        if (word, name) not in self._new:
            self._count[word] = self._count.get(word, -1) + 1
            self._new[word, name] = f"{word}{self._count[word]}"
            self.old[self._new[word, name]] = name
        return self._new[word, name]


@dataclass(frozen=True)
class _Groups:
    names: Mapping[str, str]
    members: Mapping[str, Sequence[int]]


def _renamed_groups(job: Job, traces: Traces) -> _Groups:
    """Groups numbered from 1 in order of their names; the one of all ranks keeps its name."""
    known = {group_key(name): members for name, members in {**groups_of(traces), **job.groups}.items()}
    named = {group_key(text) for text in traces.texts} | set(known)
    names = {name: str(number) for number, name in enumerate(sorted(named - {"", "0"}), 1)}
    members = {names.get(name, name): found for name, found in known.items()}
    return _Groups(names, members)


@dataclass(frozen=True, eq=False)
class _Own:
    """What ranks have of their own: the new names of their groups."""

    traces: Traces
    common: Mapping[int, Change]
    names: Mapping[str, str]

    def __call__(self, rank: int) -> dict[int, Change | None]:
        found: dict[int, Change | None] = {}
        for node, name in pg_names(self.traces, rank, lambda old: self.names.get(old, old)).items():
            was = self.common[node]
            found[node] = Change(name=was.name, start=0, duration=was.duration, without=was.without, bare=True,
                                 values={**was.values, "pg_name": name})
        return found


def _changes(columns: Columns, names: _Names, durations: npt.NDArray[np.int64], sizes: Mapping[int, dict[str, Any]],
             defined: Mapping[int, Change]) -> dict[int, Change]:
    kinds, old, new = columns.type.tolist(), columns.names(), durations.tolist()
    found = {}
    for node, name in enumerate(old):
        if node in defined:     # a definition of groups: its name says so to readers
            found[node] = Change(start=0, inputs_values=defined[node].inputs_values, without=_unread)
            continue
        found[node] = Change(name=names.of(kinds[node], name), start=0, duration=new[node], without=_unread, bare=True,
                             values=sizes.get(node, {}))
    return found


def _unread(name: str) -> bool:
    return name not in READ_ATTRS


def _metadata(columns: Columns) -> bytes:
    """Nothing but the kind of trace and the world's size, which says how many ranks the group of all ranks has."""
    from astrarium.trace.node import decode_metadata

    kept = [a for a in decode_metadata(columns.metadata).attrs if a.kind is not None
            and (a.name == "world_size" or (a.name == "kind" and a.value in TRACE_KINDS))]
    return encode_metadata(Metadata("0.0.4", (*kept, attribute("anonymised", True))))


def _noise(count: int, key: str) -> F64:
    """Numbers from -1 to 1 that a key fixes."""
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:16], "little")
    return np.random.Generator(np.random.PCG64(seed)).uniform(-1.0, 1.0, count)


def _room(old: npt.NDArray[Any], budget: float) -> npt.NDArray[np.int64]:
    """How far each value may move in whole steps: at most `budget` of it, also where the product is rounded up."""
    room = np.floor(old * budget)
    return np.where(room / np.maximum(old, 1) > budget, room - 1, room).astype(np.int64)


def _durations(columns: Columns, budget: float, key: str) -> tuple[npt.NDArray[np.int64], float]:
    """[nodes] new durations and the largest relative change. Errors carry on to the next node, so that sums hold."""
    old = columns.duration.astype(np.int64)
    if not budget:
        return old, 0.0
    room = _room(old, budget)
    low, high = old - room, old + room
    wanted = old * (1 + budget * _noise(old.size, key))
    new, carried = np.empty(old.size, np.int64), 0.0
    for node, (least, best, most) in enumerate(zip(low.tolist(), wanted.tolist(), high.tolist(), strict=True)):
        value = min(max(round(best + carried), least), most)
        carried += best - value
        new[node] = int(value)
    return new, float((np.abs(new - old) / np.maximum(old, 1)).max(initial=0.0))


def _sizes(columns: Columns, budget: float, key: str) -> tuple[dict[int, dict[str, Any]], float]:
    """Node -> attributes with new sizes, and the largest relative change: equal ones change alike on all ranks."""
    found: dict[int, dict[str, Any]] = {}
    most = 0.0
    for name, attr in SIZES if budget else ():
        column = getattr(columns, name)
        known: dict[float, float] = {}
        for node in np.flatnonzero(columns.has(attr) & (column > 0)).tolist():
            old = float(column[node])
            if old not in known:
                best = old * (1 + budget * float(_noise(1, f"{key} {name} {old!r}")[0]))
                room = float(_room(np.array([old]), budget)[0])
                known[old] = min(max(float(round(best)), float(np.ceil(old)) - room), float(np.floor(old)) + room)
                most = max(most, abs(known[old] - old) / old)
            found.setdefault(node, {})[name] = int(known[old])
    return found, most
