"""Local memory over time, from the tensors that a trace's nodes read and write.

A node's attributes `inputs` and `outputs` are string lists [name, bytes, name, bytes, …], as STAGE writes them and
ASTRA-sim's tracker of local memory reads them. A tensor is there from the start of the node that writes it (from time 0
where none does) to the end of the last node that reads it (to the end of the run where none does).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from astrarium.errors import TraceError
from astrarium.trace.columns import Columns, Traces
from astrarium.trace.node import Node
from astrarium.trace.write import read_node

__all__ = ["Tensors", "tensors_of", "usage"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
MARKS = (b"\x0a\x06inputs", b"\x0a\x07outputs")     # AttributeProto.name


@dataclass(frozen=True, eq=False)
class Tensors:
    """Tensors of one class of equal ranks. Nodes are indexes by ascending node id.

    `size` bytes and `writer` (-1: there from the start) are [tensors]; tensor i is read by the nodes
    `reader[read_ptr[i]:read_ptr[i + 1]]`.
    """

    size: I64
    writer: I32
    read_ptr: I64
    reader: I32


def tensors_of(traces: Traces, rank: int) -> Tensors | None:
    """The tensors of a rank's class; None where its trace names none. One pass over its nodes.

    Raises TraceError for a list that is not pairs of name and bytes, and for a tensor written twice.
    """
    columns, _ = traces.of(rank)
    if not any(mark in columns.data for mark in MARKS):
        return None
    first = int(traces.members(int(traces.rank_class[rank]))[0])
    place = np.empty(columns.nodes, np.int64)
    place[np.argsort(columns.node_id, kind="stable")] = np.arange(columns.nodes)
    number: dict[str, int] = {}
    sizes: list[int] = []
    writer: list[int] = []
    reads: list[tuple[int, int]] = []
    for index in _mentioning(columns):
        node, at = read_node(traces, first, index), int(place[index])
        for name, size in _pairs(traces.sources[first], first, node, "outputs"):
            tensor = number.setdefault(name, len(sizes))
            if tensor < len(sizes) and writer[tensor] >= 0:
                raise TraceError(traces.sources[first], f"writes tensor {name!r}, which another node has written",
                                 rank=first, node=node.id, name=node.name)
            if tensor == len(sizes):
                sizes.append(size)
                writer.append(at)
            writer[tensor] = at
        for name, size in _pairs(traces.sources[first], first, node, "inputs"):
            tensor = number.setdefault(name, len(sizes))
            if tensor == len(sizes):
                sizes.append(size)
                writer.append(-1)
            reads.append((tensor, at))
    return _packed(sizes, writer, reads)


def _packed(sizes: Sequence[int], writer: Sequence[int], reads: Sequence[tuple[int, int]]) -> Tensors:
    pairs = np.array(sorted(reads), np.int64).reshape(-1, 2)
    pointer = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(np.bincount(pairs[:, 0], minlength=len(sizes)), out=pointer[1:])
    return Tensors(np.array(sizes, np.int64), np.array(writer, np.int32), pointer, pairs[:, 1].astype(np.int32))


def _mentioning(columns: Columns) -> list[int]:
    """Indexes of the nodes whose message holds one of the attributes, in file order."""
    ends = (columns.offset + columns.size).tolist()
    return [index for index, (start, end) in enumerate(zip(columns.offset.tolist(), ends, strict=True))
            if any(columns.data.find(mark, start, end) >= 0 for mark in MARKS)]


def _pairs(source: str, rank: int, node: Node, name: str) -> list[tuple[str, int]]:
    """(tensor, bytes) of one attribute; tensors of no bytes are left out."""
    attribute = node.attr(name)
    if attribute is None or attribute.kind != "string_list":
        return []
    values = list(attribute.value)
    values[1::2] = [size.removesuffix(".0") for size in values[1::2]]      # STAGE prints bytes as Python floats
    if len(values) % 2 or not all(size.isascii() and size.isdigit() and int(size) < 2**62 for size in values[1::2]):
        raise TraceError(source, f"attribute {name} cannot be read", rank=rank, node=node.id, name=node.name,
                         expected="a list of tensor names, each followed by its bytes")
    return [(tensor, int(size)) for tensor, size in zip(values[::2], values[1::2], strict=True) if int(size)]


def usage(tensors: Tensors, start: npt.ArrayLike, end: npt.ArrayLike) -> tuple[I64, I64]:
    """(times in ps, ascending and distinct; bytes held from each on), given `start` and `end` of every node in ps."""
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
