"""Anonymising traces: names and everything that is not simulated go, durations and sizes move within a budget.

Every duration d becomes one of [d (1 - x), d (1 + x)], and so do sizes and flop under their own budget. Without
contention a trace's simulated time is a maximum over sums of its nodes' times, so it stays within the larger budget
too; as errors of single nodes are independent it moves far less. Equal sizes stay equal, so collectives and messages
match.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from astrarium.arrays import F64, I32, I64
from astrarium.errors import InputError
from astrarium.trace.columns import Attr, Columns, Traces
from astrarium.trace.groups import group_key, groups_of
from astrarium.trace.linked import UNEXPLAINED
from astrarium.trace.node import TRACE_KINDS, Metadata, attribute, encode_metadata
from astrarium.trace.transform.files import Edit, Every, Job, rebuilt
from astrarium.trace.transform.members import definitions, pg_names
from astrarium.trace.transform.patch import Change
from astrarium.trace.transform.values import READ_ATTRS
from astrarium.vocab import NodeKind

__all__ = ["Anonymised", "anonymise"]

MOST = 0.5
EXACT = 1 << 53         # us, bytes, flop: what floats still count exactly; larger ones, over 285 years, stay
AT_ONCE = 1 << 16       # nodes
SIZES = (("comm_size", Attr.COMM_SIZE), ("tensor_size", Attr.TENSOR_SIZE), ("num_ops", Attr.NUM_OPS))
WORDS = {int(kind): word for kind, word in (
    (NodeKind.COMP, "op"), (NodeKind.COMM_COLL, "coll"), (NodeKind.COMM_SEND, "send"), (NodeKind.COMM_RECV, "recv"),
    (NodeKind.METADATA, "meta"))}


class Anonymised(Struct, frozen=True):
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
            raise InputError(word, f"a budget of {budget:.4g} ({budget:.4%})", expected=f"0 to {MOST:g} ({MOST:.0%})")
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
        self.new: list[str] = []
        self._number: dict[tuple[str, str], int] = {}
        self._count: dict[str, int] = {}

    def of(self, columns: Columns, kept: Collection[int]) -> I32:
        """[nodes] the place of each node's name in `new`; -1 where the name is kept."""
        names, place = columns.distinct_names()
        key = place.astype(np.int64) << 8 | columns.type
        key[list(kept)] = -1
        keys, first, which = np.unique(key, return_index=True, return_inverse=True)
        found = np.full(keys.size, -1, np.int32)
        for at in np.argsort(first).tolist():
            if keys[at] >= 0:
                found[at] = self._place(WORDS.get(int(keys[at]) & 0xFF, "node"), names[int(keys[at]) >> 8])
        return found[which]

    def _place(self, word: str, name: str) -> int:
        place = self._number.setdefault((word, name), len(self.new))
        if place == len(self.new):
            self._count[word] = self._count.get(word, -1) + 1
            self.new.append(f"{word}{self._count[word]}")
            self.old[self.new[-1]] = name
        return place


class _Groups(Struct, frozen=True):
    names: Mapping[str, str]
    members: Mapping[str, Sequence[int]]


def _renamed_groups(job: Job, traces: Traces) -> _Groups:
    """Groups numbered from 1 in order of their names; the one of all ranks keeps its name."""
    known = {group_key(name): members for name, members in {**groups_of(traces), **job.groups}.items()}
    named = {group_key(text) for text in traces.texts} | set(known)
    names = {name: str(number) for number, name in enumerate(sorted(named - {"", "0"}), 1)}
    members = {names.get(name, name): found for name, found in known.items()}
    return _Groups(names, members)


class _Own(Struct, frozen=True, eq=False):
    """What ranks have of their own: the new names of their groups."""

    traces: Traces
    common: Mapping[int, Change]
    names: Mapping[str, str]

    def __call__(self, rank: int) -> Every:
        new = pg_names(self.traces, rank, lambda old: self.names.get(old, old))

        def make(node: int) -> Change:
            was = self.common[node]
            return replace(was, values={**was.values, "pg_name": new[node]})

        return Every(new, make)


def _changes(columns: Columns, names: _Names, durations: I64, sizes: Mapping[str, I64],
             defined: Mapping[int, Change]) -> Every:
    """What becomes of every node; `sizes` are -1 where a node has none."""
    place = names.of(columns, defined)

    def make(node: int) -> Change:
        if node in defined:     # a definition of groups: its name says so to readers
            return Change(start=0, inputs_values=defined[node].inputs_values, without=_unread)
        values = {name: int(column[node]) for name, column in sizes.items() if column[node] >= 0}
        return Change(name=names.new[place[node]], start=0, duration=int(durations[node]), without=_unread, bare=True,
                      values=values)

    return Every(range(columns.nodes), make)


def _unread(name: str) -> bool:
    return name not in READ_ATTRS


def _metadata(columns: Columns) -> bytes:
    """Nothing but the kind of trace, how much of it is unexplained, and the world's size, which says how many ranks the
    group of all ranks has."""
    from astrarium.trace.node import decode_metadata

    kept = [a for a in decode_metadata(columns.metadata).attrs if a.kind is not None
            and (a.name in ("world_size", UNEXPLAINED) or (a.name == "kind" and a.value in TRACE_KINDS))]
    return encode_metadata(Metadata("0.0.4", (*kept, attribute("anonymised", True))))


def _noise(count: int, key: str) -> F64:
    """Numbers from -1 to 1 that a key fixes."""
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:16], "little")
    return np.random.Generator(np.random.PCG64(seed)).uniform(-1.0, 1.0, count)


def _room(old: npt.NDArray[Any], budget: float) -> I64:
    """How far each value may move in whole steps: at most `budget` of it, also where the product is rounded up."""
    room = np.floor(old * budget)
    return np.where(room / np.maximum(old, 1) > budget, room - 1, room).astype(np.int64)


def _durations(columns: Columns, budget: float, key: str) -> tuple[npt.NDArray[Any], float]:
    """[nodes] new durations and the largest relative change. Errors carry on to the next node, so that sums hold."""
    new = columns.duration.copy()
    if not budget:
        return new, 0.0
    movable = np.flatnonzero((new > 0) & (new < EXACT))
    old = new[movable].astype(np.int64)
    noise, carried = _noise(columns.nodes, key)[movable], 0.0
    for first in range(0, old.size, AT_ONCE):
        part = slice(first, first + AT_ONCE)
        room = _room(old[part], budget)
        wanted = old[part] * (1 + budget * noise[part])
        moved = []
        for least, best, most in zip((old[part] - room).tolist(), wanted.tolist(), (old[part] + room).tolist(),
                                     strict=True):
            value = min(max(round(best + carried), least), most)
            carried += best - value
            moved.append(value)
        new[movable[part]] = moved
    return new, float((np.abs(new[movable].astype(np.int64) - old) / old).max(initial=0.0))


def _sizes(columns: Columns, budget: float, key: str) -> tuple[dict[str, I64], float]:
    """Attribute -> new values [nodes], -1 where it stays, and the largest relative change: equal ones change alike on
    all ranks."""
    found: dict[str, I64] = {}
    most = 0.0
    for name, attr in SIZES if budget else ():
        column = getattr(columns, name)
        nodes = np.flatnonzero(columns.has(attr) & (column > 0) & (column < EXACT))
        old, which = np.unique(column[nodes].astype(np.float64), return_inverse=True)
        noise = np.array([_noise(1, f"{key} {name} {each!r}")[0] for each in old.tolist()])
        room = _room(old, budget)
        new = np.clip(np.rint(old * (1 + budget * noise)), np.ceil(old) - room, np.floor(old) + room)
        found[name] = np.full(columns.nodes, -1, np.int64)
        found[name][nodes] = new[which]
        most = max(most, float((np.abs(new - old) / np.maximum(old, 1)).max(initial=0.0)))
    return found, most
