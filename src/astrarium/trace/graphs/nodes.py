"""What every graph front end makes: operators with sizes and dependencies, to the trace of one rank."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from astrarium.trace.groups import GROUPS_NODE, groups_text
from astrarium.trace.node import Attribute, IOInfo, Metadata, Node, attribute
from astrarium.trace.write import encode_trace, write_trace
from astrarium.vocab import CommOp, NodeKind

__all__ = ["GraphTrace", "Maker", "Tensor"]

FIRST_ID = 2     # of operators; 1 is the node of the groups


class Tensor(Struct, frozen=True):
    """Shape and element type of a value; `width` is the bytes of an element."""

    shape: tuple[int, ...]
    dtype: str
    width: float

    @property
    def elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def bytes(self) -> int:
        """Bytes, narrow types packed."""
        return int(-(-self.elements * self.width // 1))


class GraphTrace(Struct, frozen=True):
    """The trace of one rank, made without running it. `kind` is `pre` or `post`; `groups` are global ranks by name.

    `gemm_flops` are those of matrix products, convolutions and attention (2 per multiply-add), `other_flops` one per
    element of everything else.
    """

    kind: str
    nodes: tuple[Node, ...]
    groups: Mapping[str, tuple[int, ...]]
    gemm_flops: int
    other_flops: int
    source: str

    def __repr__(self) -> str:
        return f"GraphTrace({self.kind!r}, {len(self.nodes)} nodes, source={self.source!r})"

    @property
    def metadata(self) -> Metadata:
        return Metadata("", (attribute("kind", self.kind), attribute("source", self.source)))

    def encode(self) -> bytes:
        """The bytes of the file."""
        return encode_trace(self.metadata, self.nodes)

    def write(self, prefix: str | os.PathLike[str], ranks: int = 1) -> list[str]:
        """Writes `<prefix>.<rank>.et` for ranks that all run this, and returns the paths."""
        paths = [f"{os.fspath(prefix)}.{rank}.et" for rank in range(ranks)]
        for path in paths:
            write_trace(path, self.metadata, self.nodes)
        return paths


class Maker:
    """Collects operators. Values are known by any hashable key; what is not a node passes on what it depends on."""

    def __init__(self, kind: str, source: str) -> None:
        self.kind, self.source = kind, source
        self.gemm = self.other = 0
        self._nodes: list[Node] = []
        self._made_by: dict[Any, tuple[int, ...]] = {}
        self._groups: dict[tuple[int, ...], str] = {}

    def value(self, key: Any, after: Iterable[Any]) -> None:
        """A value that costs nothing: an input, a view, a tuple."""
        self._made_by[key] = self._parents(after)

    def known(self, key: Any) -> bool:
        """Whether the value is there."""
        return key in self._made_by

    def compute(self, key: Any, name: str, op: str, after: Iterable[Any], inputs: Sequence[Tensor],
                outputs: Sequence[Tensor], gemm: int | None = None, moved: int | None = None, **more: Any) -> None:
        """An operator: `gemm` FLOPs, else one per element of its largest tensor; it reads inputs and writes outputs, or
        moves `moved` bytes."""
        elements = max((tensor.elements for tensor in (*inputs, *outputs)), default=0)
        self.gemm += gemm or 0
        self.other += 0 if gemm is not None else elements
        if moved is None:
            moved = sum(tensor.bytes for tensor in (*inputs, *outputs))
        self._add(key, name, NodeKind.COMP, after, inputs, outputs,
                  {"is_cpu_op": False, "num_ops": elements if gemm is None else gemm, "tensor_size": moved,
                   "op_type": op, **more})

    def collective(self, key: Any, name: str, op: CommOp, after: Iterable[Any], inputs: Sequence[Tensor],
                   outputs: Sequence[Tensor], group: str | None, **more: Any) -> None:
        """A collective: its bytes are those of its inputs, as Chakra counts; `group` None: all ranks."""
        self._add(key, name, NodeKind.COMM_COLL, after, inputs, outputs,
                  {"is_cpu_op": False, "comm_type": int(op), "comm_size": sum(tensor.bytes for tensor in inputs),
                   "pg_name": group, **more})

    def group(self, ranks: tuple[int, ...], name: str | None = None) -> str:
        """The name of a group; one that is new gets `name`, else the next number."""
        return self._groups.setdefault(ranks, name or str(len(self._groups) + 1))

    def messages(self, key: Any, name: str, after: Iterable[Any], to: Sequence[int], of: Sequence[int], size: int,
                 tag: int) -> None:
        """Sends to some ranks and receives from some; the value is there when all are done."""
        before, made = self._parents(after), list[int]()
        for kind, peers, word in ((NodeKind.COMM_SEND, to, "comm_dst"), (NodeKind.COMM_RECV, of, "comm_src")):
            for peer in peers:
                made.append(len(self._nodes) + FIRST_ID)
                attrs = {"is_cpu_op": False, "comm_size": size, "comm_tag": tag, word: peer}
                self._nodes.append(Node(made[-1], name, int(kind), (), before,
                                        attrs=tuple(attribute(*each) for each in attrs.items())))
        self._made_by[key] = tuple(made) or before

    def done(self) -> GraphTrace:
        """The trace; groups that were used are defined by its first node."""
        nodes = list(self._nodes)
        if self._groups:
            text = groups_text((name, ranks) for ranks, name in self._groups.items())
            info = IOInfo(text, "[[]]", "['String']")
            nodes.insert(0, Node(1, GROUPS_NODE, int(NodeKind.METADATA), inputs=info))
        groups = {name: ranks for ranks, name in self._groups.items()}
        return GraphTrace(self.kind, tuple(nodes), groups, self.gemm, self.other, self.source)

    def _parents(self, keys: Iterable[Any]) -> tuple[int, ...]:
        found = {parent for key in keys for parent in self._made_by.get(key, ())}
        return tuple(sorted(found))

    def _add(self, key: Any, name: str, kind: NodeKind, after: Iterable[Any], inputs: Sequence[Tensor],
             outputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> None:
        number = len(self._nodes) + FIRST_ID
        made: list[Attribute] = [attribute(word, value) for word, value in attrs.items() if value is not None]
        self._nodes.append(Node(number, name, int(kind), (), self._parents(after), inputs=_info(inputs),
                                outputs=_info(outputs), attrs=tuple(made)))
        self._made_by[key] = (number,)


def _info(tensors: Sequence[Tensor]) -> IOInfo:
    return IOInfo("[]", str([list(tensor.shape) for tensor in tensors]),
                  str([f"Tensor({tensor.dtype})" for tensor in tensors]))
