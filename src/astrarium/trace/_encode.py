"""A generated class as file bytes: what its ranks have in common is encoded once, the rest is patched in by rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import I32, I64, U8
from astrarium.trace._wire import VARINT, delimited, tagged, varint
from astrarium.trace.memory_ops import tier_attributes
from astrarium.trace.node import Attribute, Metadata, Node, attribute, encode_metadata, encode_node
from astrarium.trace.work import Tensors, TraceClass
from astrarium.vocab import NodeKind

__all__ = ["ClassFiles", "class_files"]


Known = dict[tuple[NodeKind, int, int], bytes]

COMM = (NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV)
MEMORY = (NodeKind.MEM_LOAD, NodeKind.MEM_STORE)
PEER = {NodeKind.COMM_SEND: "comm_dst", NodeKind.COMM_RECV: "comm_src"}
VERSION = "0.0.4"
KIND = "synthesised"    # made from a model, not from a graph or a profile
FEW = 3                 # rows for which a template would cost more than it saves
LEAST_DIMS = 10         # entries of involved_dim, as in Chakra's own files


def _metadata() -> bytes:
    return encode_metadata(Metadata(VERSION, (attribute("kind", KIND),)))


class ClassFiles(Struct, frozen=True, eq=False):
    """The files of one class of ranks.

    `heads[i]` is node i's message without its length and without the attributes that differ between ranks, which come
    last; `slot[i]` says which those are (-1: none). `rows` are the rows (indexes into the class's `ranks`) with a
    content of their own; row r of the class has the content of `rows[same[r]]`.
    """

    heads: Sequence[bytes]
    slot: I32
    patches: Sequence[Sequence[bytes]]      # [slots][rows]
    rows: I64
    same: I64

    def contents(self) -> Iterator[tuple[list[int], Template]]:
        """(rows, the template that makes their files), for rows whose patches are equally long."""
        by_width: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for place in range(len(self.rows)):
            by_width[tuple(len(column[place]) for column in self.patches)].append(place)
        for widths, places in by_width.items():
            if len(places) < FEW:
                yield from (([place], self._whole(place)) for place in places)
            else:
                yield places, self._template(widths)

    def _whole(self, place: int) -> Template:
        """One row's file, put together by itself."""
        own, none = [column[place] for column in self.patches], np.zeros(0, np.int64)
        messages = [head + own[slot] if slot >= 0 else head
                    for head, slot in zip(self.heads, self.slot.tolist(), strict=True)]
        sizes = {size: varint(size) for size in set(map(len, messages))}
        parts = [delimited(_metadata())]
        for message in messages:
            parts += (sizes[len(message)], message)
        return Template(np.frombuffer(b"".join(parts), np.uint8), none, none, self.patches)

    def _template(self, widths: Sequence[int]) -> Template:
        """All bytes of a file whose patches have these widths, and where they go."""
        parts, at = [delimited(_metadata())], 0
        at = len(parts[0])
        zeros = [bytes(width) for width in widths]
        starts: list[list[int]] = [[] for _ in widths]
        for head, slot in zip(self.heads, self.slot.tolist(), strict=True):
            patch = zeros[slot] if slot >= 0 else b""
            message = delimited(head + patch)
            parts.append(message)
            at += len(message)
            if patch:
                starts[slot].append(at - len(patch))
        goes, comes, offset = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
        for width, first in zip(widths, starts, strict=True):
            goes.append((np.array(first, np.int64)[:, None] + np.arange(width)).ravel())
            comes.append(np.tile(np.arange(offset, offset + width), len(first)))
            offset += width
        whole = np.frombuffer(b"".join(parts), np.uint8)
        return Template(whole, np.concatenate(goes), np.concatenate(comes), self.patches)


class Template(Struct, frozen=True, eq=False):
    """`whole` with byte `goes[i]` to be replaced by byte `comes[i]` of a row's patches, joined."""

    whole: U8
    goes: I64
    comes: I64
    patches: Sequence[Sequence[bytes]]

    def file(self, place: int) -> U8:
        """The file of row number `place` (of `ClassFiles.rows`) [bytes]."""
        if not self.goes.size:
            return self.whole
        joined = np.frombuffer(b"".join(column[place] for column in self.patches), np.uint8)
        found: U8 = self.whole.copy()
        found[self.goes] = joined[self.comes]
        return found


def class_files(trace: TraceClass, groups: Sequence[str], tensors: Tensors | None = None) -> ClassFiles:
    """The files of a class. `groups[g]` is the `pg_name` of group g; `tensors`, where given, are written too."""
    comm = np.flatnonzero(np.isin(trace.type, COMM))
    own = np.arange(comm.size, dtype=np.int32) if trace.slot is None else trace.slot
    slot = np.full(trace.type.size, -1, np.int32)
    slot[comm] = own
    first = np.zeros(trace.slot_a.shape[1], np.int64)
    first[own[::-1]] = comm[::-1]
    both = np.concatenate([trace.slot_a, trace.slot_b], axis=1)
    rows, same = _distinct(both)
    known: Known = {}
    patches = [_patches(known, NodeKind(int(trace.type[node])), trace.slot_a[rows, number], trace.slot_b[rows, number],
                        groups) for number, node in enumerate(first.tolist())]
    return ClassFiles(_heads(trace, tensors), slot, patches, rows, same)


def _distinct(table: I32) -> tuple[I64, I64]:
    """(the first row of each content, in order; for every row which of those it equals)."""
    rows = np.ascontiguousarray(table)
    if not rows.shape[1]:
        return np.zeros(min(1, len(rows)), np.int64), np.zeros(len(rows), np.int64)
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    return first[order].astype(np.int64), place[inverse.reshape(-1)]


def _patches(known: Known, kind: NodeKind, a: I32, b: I32, groups: Sequence[str]) -> list[bytes]:
    """The attributes of one slot for every row; equal ones of all slots are one object."""
    found = []
    for peer, other in zip(a.tolist(), b.tolist(), strict=True):
        key = (kind, peer, other)
        if key not in known:
            known[key] = _arguments(kind, peer, other, groups)
        found.append(known[key])
    return found


def _arguments(kind: NodeKind, a: int, b: int, groups: Sequence[str]) -> bytes:
    if kind != NodeKind.COMM_COLL:
        return _attributes([attribute("comm_tag", b), attribute(PEER[kind], a)])
    return b"" if b < 0 else _attributes([attribute("pg_name", groups[b])])


def _attributes(attrs: Sequence[Attribute]) -> bytes:
    """They as fields of a Node message."""
    return encode_node(Node(attrs=tuple(attrs)))


# ------------------------------------------------------------ what all ranks have in common
def _heads(trace: TraceClass, tensors: Tensors | None) -> list[bytes]:
    """Every node's message without its length and arguments."""
    ops: list[float | None] = trace.num_ops.tolist()
    for node in np.flatnonzero(np.isnan(trace.num_ops)).tolist():
        ops[node] = None
    reach = [""] * len(ops) if trace.tier is None else [trace.tiers[tier] if tier >= 0 else ""
                                                        for tier in trace.tier.tolist()]
    table = zip(trace.type.tolist(), trace.is_cpu.tolist(), ops, trace.tensor_size.tolist(), trace.comm_type.tolist(),
                trace.comm_size.tolist(), trace.involved.tolist(), trace.priority.tolist(), reach, strict=True)
    ids, durations, known = trace.node_id.tolist(), trace.duration_us.tolist(), dict[tuple[object, ...], bytes]()
    numbers: dict[int, bytes] = {}
    pointer, waits = trace.parent_ptr.tolist(), [ids[parent] for parent in trace.parent.tolist()]
    uses = [b""] * len(ids) if tensors is None else _tensor_lists(tensors, trace)
    found = []
    for node, row in enumerate(table):
        if row not in known:
            known[row] = _constant(*row)
        deps = waits[pointer[node]:pointer[node + 1]]
        found.append(_fields(ids[node], _name(trace, node), row[0], deps, numbers) + (
            tagged(7, VARINT, varint(durations[node])) if durations[node] else b"") + known[row] + uses[node])
    return found


def _name(trace: TraceClass, node: int) -> str:
    if trace.names is not None:
        return trace.names(node)
    return f"{NodeKind(int(trace.type[node])).name.lower()}_{int(trace.node_id[node])}"


def _fields(number: int, name: str, kind: int, deps: Sequence[int], numbers: dict[int, bytes]) -> bytes:
    """Fields 1 to 5 of a Node."""
    content = []
    for dep in deps:
        if dep not in numbers:
            numbers[dep] = varint(dep)
        content.append(numbers[dep])
    text = name.encode("utf-8", "surrogateescape")
    parts = [b"\x08" + varint(number) if number else b"", b"\x12" + delimited(text) if text else b"",
             b"\x18" + varint(kind) if kind else b""]
    return b"".join(parts) + (b"\x2a" + delimited(b"".join(content)) if content else b"")


def _constant(kind: int, cpu: bool, ops: float | None, tensor_size: int, comm_type: int, comm_size: int, involved: int,
              priority: int, tier: str) -> bytes:
    """The attributes that do not differ between ranks."""
    attrs = [attribute("is_cpu_op", cpu)]
    if kind in COMM:
        attrs += [attribute("comm_type", comm_type)] if kind == NodeKind.COMM_COLL and comm_type >= 0 else []
        attrs.append(attribute("comm_size", comm_size))
        attrs += [attribute("comm_priority", priority)] if priority else []
    elif comm_type >= 0 and kind in MEMORY:
        attrs += [attribute("comm_type", comm_type), attribute("comm_size", comm_size)]
    if ops is not None:
        whole = ops.is_integer() and 0 <= ops < 2**63
        attrs.append(attribute("num_ops", int(ops) if whole else ops, "int64_val" if whole else "double_val"))
    if tensor_size or kind in MEMORY or ops is not None:
        attrs.append(attribute("tensor_size", tensor_size))
    attrs += tier_attributes(NodeKind(kind), tier) if tier else ()
    if involved >= 0:
        attrs.append(attribute("involved_dim", [bool(involved >> dim & 1)
                                                for dim in range(max(LEAST_DIMS, involved.bit_length()))]))
    return _attributes(attrs)


def _tensor_lists(tensors: Tensors, trace: TraceClass) -> list[bytes]:
    """Every node's `inputs` and `outputs`: names and bytes in turn.

    A tensor without writer and reader stays for the whole run: a node that starts with the run writes it. What tiers
    hold is left out: readers of the lists take all that they name for local.
    """
    nodes = trace.type.size
    reads: list[list[str]] = [[] for _ in range(nodes)]
    writes: list[list[str]] = [[] for _ in range(nodes)]
    pointer, reader, start = tensors.read_ptr.tolist(), tensors.reader.tolist(), _start(trace)
    for number, (size, writer) in enumerate(zip(tensors.size.tolist(), tensors.writer.tolist(), strict=True)):
        if tensors.tier is not None and tensors.tier[number] >= 0:
            continue
        pair, readers = (f"t{number}", str(size)), reader[pointer[number]:pointer[number + 1]]
        if writer >= 0 or not readers:
            writes[writer if writer >= 0 else start].extend(pair)
        for node in readers:
            reads[node].extend(pair)
    return [_attributes([attribute(name, tuple(pairs), "string_list")
                         for name, pairs in (("inputs", ins), ("outputs", outs)) if pairs])
            for ins, outs in zip(reads, writes, strict=True)]


def _start(trace: TraceClass) -> int:
    """The first root, if possible one that is not a merge point."""
    free = np.flatnonzero(np.diff(trace.parent_ptr) == 0)
    alone = free[~np.isin(trace.type[free], COMM)]
    return int((alone if alone.size else free if free.size else np.zeros(1))[0])
