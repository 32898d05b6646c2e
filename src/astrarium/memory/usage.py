"""Local memory over time, from the tensors that a trace's nodes read and write.

A node's attributes `inputs` and `outputs` are string lists [name, bytes, name, bytes, …], as STAGE writes them and
ASTRA-sim's tracker of local memory reads them. A tensor is there from the start of the node that writes it (from time 0
where none does) to the end of the last node that reads it (to the end of the run where none does).
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence

import numpy as np
import numpy.typing as npt

from astrarium.arrays import I64
from astrarium.errors import TraceError
from astrarium.memory.config import Tier
from astrarium.memory.tiers import HERE, tier_of
from astrarium.trace.columns import Columns, Traces
from astrarium.trace.memory_ops import ALLOC, FREE, LOAD, STORE, MemoryOps, memory_ops
from astrarium.trace.work import Tensors

__all__ = ["Known", "held_by", "tensors_of", "usage"]

Said = tuple[tuple[str, int, bool], ...]
Known = MutableMapping[bytes, Said]
SIZE = re.compile(r"[0-9]{1,18}(\.[0-9]*)?")        # STAGE writes "2097152.0"
MARKS = (b"\x0a\x06inputs", b"\x0a\x07outputs")     # AttributeProto.name


def tensors_of(traces: Traces, rank: int, known: Known | None = None) -> Tensors | None:
    """The tensors of a rank's class; None where its trace names none.

    `known` keeps what node messages say, by their bytes: give one dict for all classes, whose nodes are mostly equal.
    Of a tensor that several nodes write the first in the file counts. Raises TraceError for a list that is not pairs of
    name and bytes.
    """
    columns, _ = traces.of(rank)
    first = int(traces.members(int(traces.rank_class[rank]))[0])
    ops = memory_ops(columns, traces.sources[first], first)
    if ops is None and not any(mark in columns.data for mark in MARKS):
        return None
    said: Known = {} if known is None else known
    number: dict[str, int] = {}
    sizes: list[int] = []
    writer: list[int] = []
    reads: list[tuple[int, int]] = []
    places = np.argsort(np.argsort(columns.node_id, kind="stable"), kind="stable").tolist()
    ends = (columns.offset + columns.size).tolist()
    for index, (start, end) in enumerate(zip(columns.offset.tolist(), ends, strict=True)):
        message = columns.data[start:end]
        if message not in said:
            said[message] = _lists(traces, first, index, message)
        for name, size, writes in said[message]:
            tensor = number.setdefault(name, len(sizes))
            if tensor == len(sizes):
                sizes.append(size)
                writer.append(-1)
            if not writes:
                reads.append((tensor, places[index]))
            elif writer[tensor] < 0:
                writer[tensor] = places[index]
    found = _packed(sizes, writer, reads)
    return found if ops is None else _in_tiers(found, ops, columns, np.array(places, np.int64))


def _in_tiers(tensors: Tensors, ops: MemoryOps, columns: Columns, places: I64) -> Tensors:
    """Assign a tier to each tensor. A tensor that a store writes is in the tier of the store; one without a writer that
    a load reads first is in the tier of the load. Bytes that a node allocates or frees in a tier are tensors, too;
    freed bytes are negative."""
    order = np.argsort(places)
    op, tier = ops.op[order], np.where((ops.op == STORE) | (ops.op == LOAD), ops.tier, -1)[order]
    written = (tensors.writer >= 0) & (op[tensors.writer] == STORE)
    where = np.where(written, tier[tensors.writer], -1).astype(np.int32)
    first = np.minimum(tensors.read_ptr[:-1], max(tensors.reader.size - 1, 0))
    if tensors.reader.size:
        reader = tensors.reader[first]
        loaded = (tensors.writer < 0) & (np.diff(tensors.read_ptr) > 0) & (op[reader] == LOAD)
        where[loaded] = tier[reader[loaded]]
    space = np.flatnonzero((op == ALLOC) | (op == FREE))
    size = columns.tensor_size[order][space].astype(np.int64) * np.where(op[space] == ALLOC, 1, -1)
    return Tensors(np.concatenate([tensors.size, size]), np.concatenate([tensors.writer, space.astype(np.int32)]),
                   np.concatenate([tensors.read_ptr, np.full(space.size, tensors.read_ptr[-1])]), tensors.reader,
                   np.concatenate([where, ops.tier[order][space]]).astype(np.int32), ops.tiers)


def _packed(sizes: Sequence[int], writer: Sequence[int], reads: Sequence[tuple[int, int]]) -> Tensors:
    pairs = np.array(sorted(reads), np.int64).reshape(-1, 2)
    pointer = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(np.bincount(pairs[:, 0], minlength=len(sizes)), out=pointer[1:])
    return Tensors(np.array(sizes, np.int64), np.array(writer, np.int32), pointer, pairs[:, 1].astype(np.int32))


def _lists(traces: Traces, rank: int, index: int, message: bytes) -> Said:
    """(tensor, bytes, whether it is written) of one node; tensors of no bytes are left out."""
    if not any(mark in message for mark in MARKS):
        return ()
    from astrarium.trace.write import read_node

    node = read_node(traces, rank, index)
    found: list[tuple[str, int, bool]] = []
    for attribute in node.attrs:
        if attribute.name not in ("inputs", "outputs") or attribute.kind != "string_list":
            continue
        names, sizes = attribute.value[::2], attribute.value[1::2]
        if len(names) != len(sizes) or not all(map(SIZE.fullmatch, sizes)):
            raise TraceError(traces.sources[rank], f"attribute {attribute.name} cannot be read", rank=rank,
                             node=node.id, name=node.name, expected="a list of names and bytes in turn")
        found += [(name, int(float(size)), attribute.name == "outputs")
                  for name, size in zip(names, sizes, strict=True) if float(size) >= 1]
    return tuple(found)


def held_by(tensors: Tensors, tiers: Sequence[Tier], number: int) -> Tensors:
    """The tensors in tier `number` of `tiers`, or in the local memory (HERE)."""
    if tensors.tier is None:
        return tensors if number == HERE else _chosen(tensors, np.zeros(tensors.size.size, np.bool_))
    where = np.array([*[tier_of(tiers, label) for label in tensors.tiers], HERE], np.float64)   # None: NaN, nowhere
    return _chosen(tensors, where[tensors.tier] == number)


def _chosen(tensors: Tensors, keep: npt.NDArray[np.bool_]) -> Tensors:
    count = np.diff(tensors.read_ptr)
    pointer = np.zeros(np.count_nonzero(keep) + 1, np.int64)
    np.cumsum(count[keep], out=pointer[1:])
    return Tensors(tensors.size[keep], tensors.writer[keep], pointer, tensors.reader[np.repeat(keep, count)])


def usage(tensors: Tensors, start: npt.ArrayLike, end: npt.ArrayLike) -> tuple[I64, I64]:
    """(times in ps, ascending and distinct; bytes held from each on), given `start` and `end` of every node in ps.

    All tensors count, whichever memory holds them (`held_by` chooses those of one).
    """
    begun, ended = np.asarray(start, np.int64), np.asarray(end, np.int64)
    born = np.where(tensors.writer < 0, 0, begun[tensors.writer])
    read = np.diff(tensors.read_ptr) > 0
    times, change = [born], [tensors.size]
    if read.any():
        last = np.maximum.reduceat(ended[tensors.reader], tensors.read_ptr[:-1][read])
        times.append(np.maximum(last, born[read]))
        change.append(-tensors.size[read])
    at, place = np.unique(np.concatenate(times), return_inverse=True)
    held = np.zeros(at.size, np.int64)
    np.add.at(held, place.reshape(-1), np.concatenate(change))
    return at, np.cumsum(held)
