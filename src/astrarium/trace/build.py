"""Making traces node by node: for generators, examples and tests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from astrarium.trace.memory_ops import tier_attributes
from astrarium.trace.node import Attribute, IOInfo, Metadata, Node, attribute
from astrarium.trace.write import encode_trace, write_trace
from astrarium.vocab import CommOp, NodeKind

__all__ = ["TraceBuilder"]


class TraceBuilder:
    """Collects the nodes of one rank. Every method returns the id of the node that it added.

    Ids count up from 0 unless given. `after` are data dependencies, `ctrl` control dependencies (ids). Sizes in bytes,
    durations in microseconds. Further keywords become attributes, with the oneof that fits.
    """

    def __init__(self, version: str = "0.0.4", kind: str = "synthesised") -> None:
        self.metadata = Metadata(version, (attribute("kind", kind),))
        self._nodes: list[Node] = []
        self._next = 0

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._nodes)

    def node(self, kind: NodeKind, name: str, attrs: Sequence[Attribute] = (), *, after: Iterable[int] = (),
             ctrl: Iterable[int] = (), duration: int = 0, id: int | None = None,  # noqa: A002 - Chakra's word
             inputs: IOInfo | None = None) -> int:
        """Any node."""
        number = self._next if id is None else id
        self._next = max(self._next, number + 1)
        self._nodes.append(Node(number, name, int(kind), tuple(ctrl), tuple(after), 0, duration, inputs,
                                attrs=tuple(attrs)))
        return number

    def comp(self, name: str, duration: int = 0, *, num_ops: int | None = None, tensor_size: int | None = None,
             cpu: bool = False, after: Iterable[int] = (), **more: Any) -> int:
        """A compute node: a duration to replay, or `num_ops` and `tensor_size` for the roofline."""
        given = {"is_cpu_op": cpu, "num_ops": num_ops, "tensor_size": tensor_size}
        return self._add(NodeKind.COMP, name, given, more, after, duration)

    def coll(self, name: str, op: CommOp, size: int, *, group: int | str | None = None, after: Iterable[int] = (),
             **more: Any) -> int:
        """A collective of `size` bytes on `group` (None: all ranks)."""
        given = {"is_cpu_op": False, "comm_type": int(op), "comm_size": size,
                 "pg_name": None if group is None else str(group)}
        return self._add(NodeKind.COMM_COLL, name, given, more, after)

    def send(self, name: str, destination: int, size: int, tag: int = 0, *, after: Iterable[int] = (),
             **more: Any) -> int:
        """A send of `size` bytes to rank `destination`."""
        given = {"is_cpu_op": False, "comm_size": size, "comm_tag": tag, "comm_dst": destination}
        return self._add(NodeKind.COMM_SEND, name, given, more, after)

    def recv(self, name: str, source: int, size: int, tag: int = 0, *, after: Iterable[int] = (), **more: Any) -> int:
        """A receive of `size` bytes from rank `source`."""
        given = {"is_cpu_op": False, "comm_size": size, "comm_tag": tag, "comm_src": source}
        return self._add(NodeKind.COMM_RECV, name, given, more, after)

    def memory(self, name: str, size: int, *, store: bool = False, after: Iterable[int] = (), tier: str | None = None,
               **more: Any) -> int:
        """An access of `size` bytes to remote memory, or to the `tier` of that name or label."""
        kind = NodeKind.MEM_STORE if store else NodeKind.MEM_LOAD
        given = {"is_cpu_op": False, "tensor_size": size}
        given |= {} if tier is None else {a.name: a.value for a in tier_attributes(kind, tier)}
        return self._add(kind, name, given, more, after)

    def encode(self) -> bytes:
        """The bytes of the file."""
        return encode_trace(self.metadata, self._nodes)

    def write(self, path: str | os.PathLike[str], *, compress: bool = False) -> None:
        """Writes the file, whole or not at all."""
        write_trace(path, self.metadata, self._nodes, compress=compress)

    def _add(self, kind: NodeKind, name: str, given: dict[str, Any], more: dict[str, Any], after: Iterable[int],
             duration: int = 0) -> int:
        options = {key: more.pop(key) for key in ("ctrl", "id", "inputs", "duration") if key in more}
        options.setdefault("duration", duration)
        attrs = [attribute(key, value) for key, value in {**given, **more}.items() if value is not None]
        return self.node(kind, name, attrs, after=after, **options)
