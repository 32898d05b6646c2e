"""Files of all ranks, made when asked for: what a transform hands on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from astrarium.trace._wire import delimited
from astrarium.trace.columns import Traces
from astrarium.trace.groups import Groups
from astrarium.trace.read import traces_of_bytes
from astrarium.trace.transform.patch import Change, patch
from astrarium.trace.write import node_messages

__all__ = ["Changes", "Edit", "Files", "Job", "rebuilt"]

Changes = Mapping[int, Change | None]
"""Node index -> what changes; None: the node goes."""


def _nothing(rank: int) -> Changes:
    del rank
    return {}


@dataclass(frozen=True, eq=False)
class Edit:
    """What becomes of one class of equal ranks: what they have in common, and what a new rank has of its own.

    A node that `own` names takes that change alone. `more` are messages to append; `metadata` replaces the first one.
    """

    common: Changes = field(default_factory=dict)
    own: Callable[[int], Changes] = _nothing
    more: Sequence[bytes] = ()
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


@dataclass(frozen=True, eq=False)
class Job:
    """Traces of ranks 0 .. n-1, and the groups that their collectives name."""

    files: Sequence[bytes]
    groups: Groups

    def traces(self) -> Traces:
        """The files as columns; equal ranks are held once."""
        return traces_of_bytes(self.files)


def rebuilt(traces: Traces, edits: Sequence[Edit], layout: Sequence[int] | None = None) -> Files:
    """New rank r is old rank `layout[r]` (left out: itself) with the edit of its class [classes]."""
    origin = range(traces.ranks) if layout is None else layout
    last: list[tuple[tuple[int, bytes], bytes]] = []      # the file made last, and what from

    def make(rank: int) -> bytes:
        old = origin[rank]
        number = int(traces.rank_class[old])
        edit, own = edits[number], edits[number].own(rank)
        file = traces.file_bytes(old)
        if not own and not edit.common and not edit.more and edit.metadata is None:
            return file
        key = (number, file)
        if not own and last and last[0][0] == key:
            return last[0][1]
        made = _edited(file, edit, own)
        if not own:
            last[:] = [(key, made)]
        return made

    return Files(len(origin), make)


def _edited(file: bytes, edit: Edit, own: Changes) -> bytes:
    messages, common = node_messages(file), edit.common
    first = next(messages, b"")
    parts = [delimited(first if edit.metadata is None else edit.metadata)]
    for index, message in enumerate(messages):
        if index in own:
            change = own[index]
        elif index in common:
            change = common[index]
        else:
            parts.append(delimited(message))
            continue
        if change is not None:
            parts.append(delimited(patch(message, change)))
    return b"".join([*parts, *map(delimited, edit.more)])
