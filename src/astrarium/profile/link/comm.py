"""Communication: which kernels and operators are collectives, sends and receives, of how many bytes, in which group."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct

from astrarium.profile.link.host import HostTrace
from astrarium.profile.link.records import CommArgs
from astrarium.profile.link.text import UNREADABLE, numbers

__all__ = ["P2P", "Comm", "HostComms", "annotated", "by_kernel", "is_comm_kernel", "of_args", "operation"]

SIZE_LIMIT = 1 << 62
P2P = ("send", "recv")
_WORDS: tuple[tuple[str, str], ...] = (
    ("allreduce", "all_reduce"), ("allgather", "all_gather"), ("reducescatter", "reduce_scatter"),
    ("alltoall", "all_to_all"), ("broadcast", "broadcast"), ("barrier", "barrier"),
    ("gather", "gather"), ("scatter", "scatter"), ("reduce", "reduce"),
    ("recv", "recv"), ("send", "send"))
"""Words of collective names without case and punctuation, -> what they are; the first that fits counts."""

ELEMENT_BYTES: Mapping[str, int] = MappingProxyType({
    "byte": 1, "char": 1, "bool": 1, "int8": 1, "uint8": 1, "qint8": 1, "quint8": 1, "short": 2, "int16": 2,
    "uint16": 2, "half": 2, "float16": 2, "bfloat16": 2, "int": 4, "int32": 4, "uint32": 4, "float": 4, "float32": 4,
    "long": 8, "int64": 8, "uint64": 8, "double": 8, "float64": 8, "complexhalf": 4, "complexfloat": 8,
    "complexdouble": 16})
"""Bytes per element of PyTorch's scalar types (c10/core/ScalarType.h) by the names that Kineto prints."""

_LETTERS = re.compile(r"[^a-z]")
_KERNEL = re.compile(r"(^|[^a-z])(nccl|rccl|mscclpp|msccl|oneccl)(?=[a-z:_]*(kernel|dev|symk))", re.IGNORECASE)
_DEEP_EP = re.compile(r"(?:\w+::)*(?:\w+_)?ep::(?:intranode|internode|internode_ll)::(\w+?)(?:_kernel)?")
_EXPERTS: Mapping[str, str] = MappingProxyType({
    "dispatch": "all_to_all", "combine": "all_to_all", "barrier": "barrier", "notify_dispatch": "barrier",
    "cached_notify": "barrier", "cached_notify_dispatch": "barrier", "cached_notify_combine": "barrier",
    "clean_low_latency_buffer": "barrier"})
"""Kernels of DeepEP: two move tokens, the others make the ranks meet and exchange counts."""

_ANNOTATION = re.compile(r"(nccl|rccl|gloo|mpi|ucc|xccl|hccl|oneccl):\s*([\w-]+)", re.IGNORECASE)
CPU_BACKENDS = ("gloo", "mpi")
DISPATCHED = "c10d::"     # operators through which torch.distributed calls a back end
CALLERS = 16              # callers of a host node that may say what it was asked for


Splits = tuple[tuple[int, ...], tuple[int, ...]]
"""What a rank sends to each member of a group, and what it receives from each, in rows or bytes."""


class Comm(Struct, frozen=True):
    """One communication. `op`: a CommOp in small letters, `send` or `recv`; `size` in bytes, None if unknown;
    `peer` is a global rank, or the number in the group where `ranks` are not known. `logical` is the operation that the
    program asked for, where the back end ran another one for it; `splits` are bytes of an all_to_all for each member,
    where it says them."""

    op: str
    size: int | None = None
    group: str | None = None
    peer: int | None = None
    logical: str | None = None
    splits: Splits | None = None


def operation(name: str) -> str | None:
    """What a collective's name means, in any of the styles in use: `all_reduce`, `_allgather_base`, `AllToAll`…"""
    letters = _LETTERS.sub("", name.lower())
    return next((op for word, op in _WORDS if word in letters), None)


def is_comm_kernel(name: str) -> bool:
    """Whether a kernel's name is one of NCCL, RCCL, MSCCL, oneCCL or DeepEP."""
    return bool(_KERNEL.search(name[:200])) or expert_parallel(name) is not None


def expert_parallel(name: str) -> str | None:
    """The operation of a kernel of DeepEP (expert parallelism); None for another."""
    words = name[:200].partition("<")[0].partition("(")[0].split()
    found = _DEEP_EP.fullmatch(words[-1]) if words else None
    return _EXPERTS.get(found[1]) if found else None


def by_kernel(name: str) -> str | None:
    """The operation in a kernel's name; None for kernels of several, such as SendRecv."""
    moved = expert_parallel(name)
    if moved is not None:
        return moved
    head = name[:200].partition("(")[0]
    if "sendrecv" in _LETTERS.sub("", head.lower()):
        return None
    return operation(head[_KERNEL.search(head).end():]) if _KERNEL.search(head) else None  # type: ignore[union-attr]


def annotated(name: str, backends: tuple[str, ...] = ()) -> str | None:
    """The operation that an annotation such as `nccl:all_reduce` or `gloo:broadcast` names; `backends` limits whose."""
    found = _ANNOTATION.fullmatch(name)
    if found is None or (backends and found[1].lower() not in backends):
        return None
    return operation(found[2])


def of_args(args: CommArgs, fallback: str | None, groups: Mapping[str, tuple[int, ...]]) -> Comm | None:
    """What Kineto's own arguments say; None where they do not even say which operation."""
    op = operation(args.op) if args.op else None
    op = op if op is not None else fallback
    if op is None:
        return None
    width = element_bytes(args.dtype)
    size = None
    if width is not None and (args.elements_in is not None or args.elements_out is not None):
        into, out = args.elements_in or 0, args.elements_out or 0
        count = max(into, out) if op in ("broadcast", "send", "recv", "reduce",
                                         "all_reduce") else into
        if op == "scatter":
            count = max(into, out * max(args.group_size or 1, 1))
        size = count * width if count * width < SIZE_LIMIT else None
    peer = {"send": args.destination, "recv": args.source}.get(op)
    amounts = [None if width is None or count is None else count * width
               for count in (args.elements_in, args.elements_out)]
    return Comm(op, size, args.group, _global(peer, args.ranks or groups.get(args.group or "")),
                splits=_exchanged(args.rows_in, args.rows_out, *amounts) if op == "all_to_all" else None)


def _exchanged(sent: Sequence[int] | None, received: Sequence[int] | None, into: int | None,
              out: int | None) -> Splits | None:
    """Bytes from rows: all rows that are sent are `into` bytes, all that are received `out`. None where a list is
    missing, or the sizes are not known."""
    if sent is None or received is None or len(sent) != len(received):
        return None
    rows, size = (sum(sent), into) if sum(sent) else (sum(received), out)
    if not rows:
        return (0,) * len(sent), (0,) * len(sent)
    if not size:
        return None
    return tuple(each * size // rows for each in sent), tuple(each * size // rows for each in received)


def _global(peer: int | None, ranks: tuple[int, ...] | None) -> int | None:
    """The global rank of a group's member; the number itself where the group's ranks are not known."""
    if peer is None or ranks is None:
        return peer
    return ranks[peer] if peer < len(ranks) else None


def element_bytes(dtype: str | None) -> int | None:
    """Bytes of a PyTorch scalar type; None for a name that is not known."""
    if dtype is None:
        return None
    name = dtype.lower().removeprefix("torch.").replace("c10::", "")
    return 1 if name.startswith("float8") else ELEMENT_BYTES.get(name)


class HostComms:
    """What host nodes say of communication: `record_param_comms`, `c10d::` operators, annotations with tensors."""

    def __init__(self, host: HostTrace | None, groups: Mapping[str, tuple[int, ...]]) -> None:
        self._host, self._groups = host, groups
        self._known: dict[int, Comm | None] = {}
        self._number: dict[int, int] | None = None      # id of a host node -> its place

    def comm(self, node: int) -> Comm | None:
        """The communication of a host node; None where it is none, or does not say which."""
        if node not in self._known:
            self._known[node] = self._read(node)
        return self._known[node]

    def logical(self, node: int, op: str) -> str | None:
        """The operation that the nearest `c10d::` caller of a host node asks for, where that is not `op`."""
        host = self._host
        if host is None or node < 0 or op in P2P:
            return None
        if self._number is None:
            self._number = {identity: place for place, identity in enumerate(host.id)}
        for _ in range(CALLERS):
            node = self._number.get(host.parent[node], -1)
            if node < 0:
                return None
            if host.name[node].startswith(DISPATCHED):
                asked = operation(host.name[node][len(DISPATCHED):])
                return asked if asked != op and asked not in P2P else None
        return None

    def _read(self, node: int) -> Comm | None:
        host = self._host
        assert host is not None
        name = host.name[node]
        if name == "record_param_comms":
            return self._recorded(_values(host, node))
        if name.startswith(DISPATCHED):
            op = operation(name[len(DISPATCHED):])
            return None if op is None else self._dispatched(op, _values(host, node))
        op = annotated(name)
        return None if op is None else Comm(op, _bytes(_values(host, node)[:1]) or None)

    def _recorded(self, values: list[Any]) -> Comm | None:
        """`record_param_comms`: tensors, sequence number, group (name, description), rank or peer, name, …"""
        texts = [value for value in values if isinstance(value, str)]
        op = next((found for text in texts if (found := operation(text)) is not None), None)
        if op is None:
            return None
        group = next((value[0] for value in values if isinstance(value, list) and len(value) == 2
                      and all(isinstance(part, str) for part in value)), None)
        peer = None
        if op in P2P:
            before = values[:next(i for i, v in enumerate(values) if isinstance(v, str) and operation(v) == op)]
            peer = before[-1] if before and isinstance(before[-1], int) and before[-1] >= 0 else None
        size = _bytes(values[:1])
        splits = _rows(values, size) if op == "all_to_all" else None
        return Comm(op, size if size or op == "barrier" else None, group,
                    _global(peer, self._groups.get(group or "")), splits=splits)

    def _dispatched(self, op: str, values: list[Any]) -> Comm:
        """`c10d::` operators: gathering ones begin with their outputs."""
        if op in P2P:
            peer = next((v for v in values[1:] if isinstance(v, int) and not isinstance(v, bool)), None)
            return Comm(op, _bytes(values[:1]) or None, None, peer if peer is None or peer >= 0 else None)
        tensors = [value for value in values if _bytes([value])]
        out_first = op in ("all_gather", "gather", "reduce_scatter", "scatter", "all_to_all")
        chosen = tensors[1:2] if out_first and len(tensors) > 1 else tensors[:1]
        rows = _rows(values[::-1], _bytes(chosen)) if op == "all_to_all" else None      # what comes is listed first
        return Comm(op, _bytes(chosen) or None, splits=rows)


def _values(host: HostTrace, node: int) -> list[Any]:
    try:
        values = msgspec.json.decode(host.tensors(node)[0].values)
    except UNREADABLE:
        return []
    return values if isinstance(values, list) else []


def _rows(values: Sequence[Any], size: int) -> Splits | None:
    """What an all_to_all of `size` bytes sends to and gets from each: the first two lists of numbers, if they are as
    long."""
    lists = [found for value in values if (found := numbers(value)) is not None]
    return _exchanged(lists[0], lists[1], size, None) if len(lists) > 1 else None


def _bytes(value: Any) -> int:
    """Bytes of all tensors inside nested lists; a tensor is [id, storage, offset, elements, bytes each, device]."""
    total, stack = 0, [value]
    while stack:
        item = stack.pop()
        if not isinstance(item, list):
            continue
        if len(item) == 6 and isinstance(item[5], str) and all(isinstance(part, int) for part in item[:5]):
            total += max(item[3], 0) * max(item[4], 0)
        else:
            stack += item
    return total if total < SIZE_LIMIT else 0
