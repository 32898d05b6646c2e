"""Files of all ranks, made when asked for: what a transform hands on, and what is written in the end."""

from __future__ import annotations

import gzip
import heapq
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import overload

import numpy as np
from msgspec import Struct, field

from astrarium.arrays import I64
from astrarium.errors import InputError
from astrarium.trace._wire import Cursor, delimited, varint
from astrarium.trace.columns import Traces
from astrarium.trace.groups import Groups
from astrarium.trace.read import refuse_leftovers, traces_of_bytes
from astrarium.trace.transform.patch import Change, patch
from astrarium.trace.transform.splice import Splice, spliced
from astrarium.trace.write import write_files

__all__ = ["Changes", "Edit", "Every", "Files", "Job", "WrittenJob", "rebuilt", "write_job"]

PIECE = 1 << 20     # bytes
AT_ONCE = 1 << 16   # nodes
Changes = Mapping[int, Change | None]
"""Node index -> what changes; None: the node goes."""


class Every(Mapping[int, Change]):
    """Changes of `nodes`, each made when it is asked for: a large trace has millions."""

    def __init__(self, nodes: Collection[int], make: Callable[[int], Change]) -> None:
        self._nodes, self._make = nodes, make

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[int]:
        return iter(self._nodes)

    def __getitem__(self, node: int) -> Change:
        if node not in self._nodes:
            raise KeyError(node)
        return self._make(node)


def _nothing(rank: int) -> Changes:
    del rank
    return {}


class Edit(Struct, frozen=True, eq=False):
    """What becomes of one class of equal ranks: what they have in common, and what a new rank has of its own.

    A node that `own` names takes that change alone; `splice` is of nodes that neither names. `more` are
    messages to append; `metadata` replaces the first one.
    """

    common: Changes = field(default_factory=dict)
    own: Callable[[int], Changes] = _nothing
    more: Sequence[bytes] = ()
    splice: Splice | None = None
    metadata: bytes | None = None


class Files(Sequence[bytes]):
    """The file of every rank, made when it is asked for; equal ones that follow one another are made once."""

    def __init__(self, count: int, make: Callable[[int], bytes]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, rank: int) -> bytes: ...
    @overload
    def __getitem__(self, rank: slice) -> list[bytes]: ...
    def __getitem__(self, rank: int | slice) -> bytes | list[bytes]:
        if isinstance(rank, slice):
            return [self._make(each) for each in range(*rank.indices(self._count))]
        if not 0 <= rank < self._count:
            raise IndexError(rank)
        return self._make(rank)

    def __iter__(self) -> Iterator[bytes]:
        return map(self._make, range(self._count))


class Job(Struct, frozen=True, eq=False):
    """Traces of ranks 0 .. n-1, and the groups that their collectives name; `read` are the files as columns where they
    have been read already."""

    files: Sequence[bytes]
    groups: Groups
    read: Traces | None = None

    def __repr__(self) -> str:
        return f"Job({len(self.files)} files, {self.groups!r})"

    def traces(self) -> Traces:
        """The files as columns; equal ranks are held once."""
        return traces_of_bytes(self.files) if self.read is None else self.read


def rebuilt(traces: Traces, edits: Sequence[Edit], layout: Sequence[int] | None = None) -> Files:
    """New rank r is old rank `layout[r]` (left out: itself) with the edit of its class [classes]."""
    origin = range(traces.ranks) if layout is None else layout
    last: list[tuple[tuple[int, bytes], bytes]] = []      # the file made last, and what from

    def make(rank: int) -> bytes:
        old = origin[rank]
        number = int(traces.rank_class[old])
        edit, own = edits[number], edits[number].own(rank)
        file = traces.file_bytes(old)
        if not (own or edit.common or edit.more or edit.splice) and edit.metadata is None:
            return file
        key = (number, file)
        if not own and last and last[0][0] == key:
            return last[0][1]
        made = _edited(file, _bounds(traces, old, file), edit, own)
        if not own:
            last[:] = [(key, made)]
        return made

    return Files(len(origin), make)


def _bounds(traces: Traces, rank: int, file: bytes) -> tuple[I64, I64]:
    """Where the message of every node of a rank begins and ends in its file [nodes]."""
    columns, row = traces.of(rank)
    if row == 0:
        start = columns.offset.astype(np.int64)
        return start, start + columns.size.astype(np.int64)
    cursor = Cursor(file, 0, len(file))
    cursor.delimited()
    spans = np.array([cursor.delimited() for _ in range(columns.nodes)], np.int64).reshape(-1, 2)
    return spans[:, 0], spans[:, 1]


def _edited(file: bytes, bounds: tuple[I64, I64], edit: Edit, own: Changes) -> bytes:
    """The file with its edit; bytes between changed nodes are copied unchanged, a megabyte at a time."""
    cursor = Cursor(file, 0, len(file))
    first = cursor.delimited() if file else (0, 0)
    done, out, held, size = cursor.at, [], [], 0
    held.append(delimited(file[slice(*first)] if edit.metadata is None else edit.metadata))
    ends = bounds[1]
    for node, message in _changed(file, bounds, edit, own):
        before = int(ends[node - 1]) if node else cursor.at
        if before > done:
            held.append(file[done:before])
        done = int(ends[node])
        if message is not None:
            held += (varint(len(message)), message)
        size += done - before
        if size > PIECE:
            out.append(b"".join(held))
            held, size = [], 0
    return b"".join([*out, *held, file[done:], *map(delimited, edit.more)])


def _changed(file: bytes, bounds: tuple[I64, I64], edit: Edit, own: Changes) -> Iterator[tuple[int, bytes | None]]:
    """(index, new message or None) of nodes that change, ascending."""
    def by_change() -> Iterator[tuple[int, bytes | None]]:
        common, mine = (np.fromiter(each, np.int64, len(each)) for each in (edit.common, own))
        nodes = np.union1d(common, mine)
        for first in range(0, nodes.size, AT_ONCE):
            for node in nodes[first:first + AT_ONCE].tolist():
                change = own[node] if node in own else edit.common[node]
                message = file[int(bounds[0][node]):int(bounds[1][node])]
                yield node, None if change is None else patch(message, change)

    if edit.splice is None:
        return by_change()
    return heapq.merge(by_change(), spliced(file, *bounds, edit.splice), key=lambda each: each[0])


class WrittenJob(Struct, frozen=True):
    """Ranks and bytes (decompressed) written; the path of the groups' file, None where there are no groups."""

    ranks: int
    bytes: int
    groups: str | None


def write_job(job: Job, prefix: str | os.PathLike[str], *, compress: bool = False) -> WrittenJob:
    """Writes PREFIX.RANK.et, and PREFIX.groups.json where there are groups. No file is replaced before all are written.

    Group names that are no whole numbers above 0 stay out of the groups' file, which cannot hold them; metadata nodes
    define them. InputError where a file cannot be written, or the prefix has traces of further ranks.
    """
    where = os.fspath(prefix)
    if not os.path.isdir(os.path.dirname(where) or "."):
        raise InputError(where, "is in no folder that exists", expected="a prefix in a folder that exists")
    refuse_leftovers(where, len(job.files))
    named = {name: list(members) for name, members in job.groups.items() if name.isdecimal() and name.strip("0")}
    groups = f"{where}.groups.json" if named else None
    size = [0]

    def files() -> Iterator[tuple[str, bytes]]:
        for rank, data in enumerate(job.files):
            size[0] += len(data)
            yield f"{where}.{rank}.et", gzip.compress(data, mtime=0) if compress else data
        if groups is not None:
            yield groups, (json.dumps(named) + "\n").encode()

    write_files(files())
    return WrittenJob(len(job.files), size[0], groups)
