"""Execution traces as columns: one set per class of equal ranks, and an array rank -> class."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from astrarium.arrays import F64, I32, I64, U8, U16, U32, U64, Bool
from astrarium.errors import InternalError, UnsupportedError
from astrarium.vocab import NodeKind

__all__ = ["Attr", "Columns", "Traces", "total"]

_AT_ONCE = 1 << 16       # nodes
LARGEST = float(np.finfo(np.float64).max)


class Attr(enum.IntEnum):
    """Attributes that the simulator reads: bit numbers in `Columns.present` and `Columns.wrong`."""

    IS_CPU_OP = 0
    COMM_TYPE = 1
    COMM_SIZE = 2
    COMM_PRIORITY = 3
    NUM_OPS = 4
    TENSOR_SIZE = 5
    STREAM = 6
    INVOLVED_DIM = 7
    PG_NAME = 8
    COMM_SRC = 9
    COMM_DST = 10
    COMM_TAG = 11


class Columns(Struct, frozen=True, eq=False, dict=True):
    """The nodes of one class of equal ranks, in file order. Arrays are read-only; [nodes] unless said otherwise.

    An attribute that is absent, or whose value has the wrong type, is 0 here; `has` and `is_wrong` tell.
    `group`, `source`, `destination` and `tag` are [ranks of the class, comm nodes] and -1 where absent or wrong.
    Unsigned 64-bit attributes beyond 2^63 - 1 appear negative.
    """

    node_id: U64
    type: U8             # vocab.NodeKind; 255: a number that Chakra does not define
    start: U64           # us
    duration: U64        # us
    data_ptr: I64        # [nodes + 1]
    data_dep: U64        # node ids, as in the file: duplicates, unknown ids and all
    ctrl_ptr: I64        # [nodes + 1]
    ctrl_dep: U64
    present: U16         # bit per Attr: the attribute has a value that can be read
    wrong: U16           # bit per Attr: it has a value of the wrong type
    is_cpu_op: U8
    comm_type: I64       # vocab.CommOp, unchecked
    comm_size: I64       # bytes
    comm_priority: I64
    num_ops: F64         # flop
    tensor_size: I64     # bytes
    stream: I64
    dims: U32            # bit i: involved_dim[i]
    dims_count: U8       # length of involved_dim
    comm_node: I32       # [comm nodes] indexes of collectives, sends and receives
    group: I32           # index into Traces.texts
    source: I64
    destination: I64
    tag: I64
    meta_node: I32       # [metadata nodes with inputs.values] indexes
    meta_offset: U64     # where the text is in `data`
    meta_size: U32
    offset: U64          # where the node's message is in `data`
    size: U32
    name_offset: U64
    name_size: U32
    data: bytes          # file of the first rank of the class, decompressed
    metadata: bytes      # its GlobalMetadata message
    source_class: Any    # what rebuilds the other ranks' files

    def __repr__(self) -> str:
        return f"Columns({self.nodes} nodes)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without what rebuilds files."""
        plain = {field: getattr(self, field) for field in self.__struct_fields__}
        return _remade, ({**plain, "source_class": Pickled()},)

    @property
    def nodes(self) -> int:
        return len(self.node_id)

    @property
    def ranks(self) -> int:
        return len(self.group)

    def has(self, attr: Attr) -> Bool:
        """[nodes] whether the attribute is there and readable."""
        return np.asarray(self.present & np.uint16(1 << attr), np.bool_)

    def is_wrong(self, attr: Attr) -> Bool:
        """[nodes] whether the attribute is there but of a type that cannot be used."""
        return np.asarray(self.wrong & np.uint16(1 << attr), np.bool_)

    def name(self, node: int) -> str:
        """Name of node index `node` on the first rank of the class."""
        start = int(self.name_offset[node])
        return self.data[start:start + int(self.name_size[node])].decode("utf-8", "replace")

    def names(self) -> list[str]:
        """Names of all nodes on the first rank of the class. One Python string per node: for display only."""
        spans = zip(self.name_offset.tolist(), self.name_size.tolist(), strict=True)
        return [self.data[start:start + size].decode("utf-8", "replace") for start, size in spans]

    def distinct_names(self) -> tuple[list[str], I32]:
        """Names on the first rank of the class, in order of first appearance, and [nodes] each node's place there."""
        known: dict[bytes, int] = {}
        place = np.empty(self.nodes, np.int32)
        for first in range(0, self.nodes, _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            spans = zip(self.name_offset[part].tolist(), self.name_size[part].tolist(), strict=True)
            place[part] = [known.setdefault(self.data[start:start + size], len(known)) for start, size in spans]
        return [name.decode("utf-8", "replace") for name in known], place

    @property
    def is_recorded(self) -> bool:
        """Whether a profiler recorded this trace (`kind: profiled`): then its ids ascend in time."""
        from astrarium.trace.node import trace_kind  # generated workloads start without it: 10 ms

        return trace_kind(self.metadata) == "profiled"

    @cached_property
    def issue_order(self) -> I64:
        """Node indexes of the collectives in the order in which the host issued them.

        PyTorch numbers operators where they are called (`rf_id`; a kernel has that of the operator that launched it);
        two threads of gloo may begin two operations the other way round. Without numbers: the order of node ids.
        """
        found: I64 = self.comm_node[self.type[self.comm_node] == NodeKind.COMM_COLL].astype(np.int64)
        nodes: list[int] = found[np.argsort(self.node_id[found], kind="stable")].tolist()
        numbers = {node: self._issue_number(node) for node in nodes}
        if None not in numbers.values():
            nodes.sort(key=lambda node: numbers[node] or 0)
        return np.array(nodes, np.int64)

    def _issue_number(self, node: int) -> int | None:
        from astrarium.trace.node import decode_node

        at = int(self.offset[node])
        found = decode_node(self.data[at:at + int(self.size[node])]).attr("rf_id")
        return found.value if found is not None and isinstance(found.value, int) and found.value > 0 else None

    def involved_dims(self, node: int) -> tuple[bool, ...] | None:
        """The `involved_dim` list of node index `node`, None where absent."""
        if not int(self.present[node]) >> Attr.INVOLVED_DIM & 1:
            return None
        return tuple(bool(int(self.dims[node]) >> i & 1) for i in range(int(self.dims_count[node])))

    def inputs_values(self, index: int) -> str:
        """`inputs.values` of metadata node number `index` (of `meta_node`)."""
        start = int(self.meta_offset[index])
        return self.data[start:start + int(self.meta_size[index])].decode("utf-8", "replace")


class Traces(Struct, frozen=True, eq=False):
    """Execution traces of ranks 0 .. n-1."""

    classes: tuple[Columns, ...]
    rank_class: I32              # [ranks]
    rank_row: I32                # [ranks] row of the rank in its class's [ranks of the class, comm nodes] arrays
    texts: tuple[str, ...]       # process group names by number
    sources: tuple[str, ...]     # [ranks] the path, or a word for it, of each rank
    described: Mapping[int, bytes] = field(default_factory=dict)   # GlobalMetadata of profiled ranks
    groups: Mapping[str, tuple[int, ...]] | None = None     # in the place of those that the traces define

    def _repr_html_(self) -> str:
        """The first rank's nodes by kind and times, for a notebook."""
        from astrarium.registry import celled

        return celled("trace", self)

    @property
    def ranks(self) -> int:
        return len(self.rank_class)

    @property
    def nodes(self) -> int:
        """Nodes of all ranks together."""
        return int(np.array([c.nodes for c in self.classes], np.int64)[self.rank_class].sum()) if self.ranks else 0

    @property
    def is_recorded(self) -> bool:
        """Whether a profiler recorded the trace of every rank."""
        return all(columns.is_recorded for columns in self.classes)

    def of(self, rank: int) -> tuple[Columns, int]:
        """(columns of the rank's class, its row in them)."""
        return self.classes[int(self.rank_class[rank])], int(self.rank_row[rank])

    def members(self, number: int) -> npt.NDArray[np.intp]:
        """Ranks of class `number`, by row."""
        ranks = np.flatnonzero(self.rank_class == number)
        if not np.array_equal(self.rank_row[ranks], np.arange(len(ranks))):
            raise InternalError(f"rows of trace class {number} are not in order of rank")
        return ranks

    def file_bytes(self, rank: int) -> bytes:
        """The rank's file as it was read (decompressed), byte for byte."""
        columns, row = self.of(rank)
        return bytes(columns.source_class.rebuild(row))


class Pickled:
    """In the place of a native class of traces, after a pickle."""

    def rebuild(self, row: int) -> bytes:      # noqa: ARG002
        """Raises UnsupportedError."""
        raise UnsupportedError("traces", "a pickle holds no trace files", expected="the traces, read again")


def _remade(fields: dict[str, Any]) -> Columns:
    return Columns(**fields)


def total(values: F64) -> float:
    """The sum of those that are numbers: a file may say NaN and infinities."""
    with np.errstate(over="ignore"):
        return float(np.clip(values[np.isfinite(values)].sum(), -LARGEST, LARGEST))
