"""Work as columns: what traces become before a run, and what workload generators make without any file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from astrarium.arrays import F64, I32, I64, U8, U64, Bool
from astrarium.errors import TraceError, UnsupportedError
from astrarium.vocab import Kernel

__all__ = ["Generated", "Phase", "Tensors", "TraceClass"]


class TraceClass(Struct, frozen=True, eq=False):
    """Traces of ranks that are equal up to groups, peers and tags. Nodes ascend by id; columns are [nodes].

    `num_ops` is NaN and `comm_type` -1 where the attribute is missing. `involved` is a bit per dim (bit 0 the
    innermost), or -1 where the attribute is missing. Node i waits for the distinct nodes
    `parent[parent_ptr[i]:parent_ptr[i+1]]` (indexes). Comm nodes (collectives, sends, receives; in node order) have
    their arguments in `slot_a` and `slot_b` [ranks, slots]: peer rank and tag of sends and receives; of collectives
    `slot_b` is the group's index or -1 for all ranks. Comm node k has slot `slot[k]`, or slot k where `slot` is None;
    comm nodes share one only if they are equal in type, operation, bytes and priority. `kernel` numbers the node's
    Kernel in `kernels`, -1 where flops and bytes are all that is known; None: of no node, or what `operators`, of
    recorded traces, finds when asked: the same two.
    """

    ranks: I32
    node_id: U64
    type: U8
    is_cpu: Bool
    duration_us: U64
    num_ops: F64
    tensor_size: U64
    comm_type: I32
    comm_size: I64
    involved: I32
    priority: I32
    parent_ptr: I64
    parent: I32
    slot_a: I32
    slot_b: I32
    sources: Sequence[str] = ()                 # the file of every rank of the run, for messages
    names: Callable[[int], str] | None = None   # node index -> the node's name, for messages
    slot: I32 | None = None                     # [comm nodes] slot of each
    begin: int = 0                              # ps after the run's start at which these ranks begin
    kernel: I32 | None = None
    kernels: tuple[Kernel, ...] = ()            # distinct; other classes of the run may have the same ones
    operators: Callable[[], tuple[I32, tuple[Kernel, ...]]] | None = None
    tier: I32 | None = None                     # [nodes] which of `tiers` a node reaches, -1: it names none
    tiers: tuple[str, ...] = ()                 # names of tiers of memory, as the nodes say them
    source_tier: I32 | None = None              # [nodes] of a copy between tiers: where it comes from, else -1

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled with every name written out, and its operators found."""
        names = tuple(map(self.names, range(len(self.node_id)))).__getitem__ if self.names else None
        found = partial(_found, self.operators()) if self.operators else None
        plain = {field: getattr(self, field) for field in self.__struct_fields__}
        return _remade, ({**plain, "names": names, "operators": found},)

    def fault(self, node: int, message: str, *, row: int = 0, expected: str | None = None) -> TraceError:
        """An error about node index `node` of rank `ranks[row]`, with its file, rank, id and name."""
        rank = int(self.ranks[row])
        name = self.names(node) if self.names else None
        return TraceError(self.sources[rank] if self.sources else "workload", message, rank=rank,
                          node=int(self.node_id[node]), name=name, expected=expected)

    def refusal(self, node: int, message: str, *, row: int = 0, expected: str | None = None) -> UnsupportedError:
        """An UnsupportedError about node index `node`: the trace is legal, but this cannot be simulated."""
        error = self.fault(node, message, row=row, expected=expected)
        return UnsupportedError(error.path, error.message, expected=expected)


def _remade(fields: dict[str, Any]) -> TraceClass:
    return TraceClass(**fields)


def _found(operators: tuple[I32, tuple[Kernel, ...]]) -> tuple[I32, tuple[Kernel, ...]]:
    return operators


class Tensors(Struct, frozen=True, eq=False):
    """Tensors of one class of equal ranks. Nodes are indexes by ascending node id.

    `size` bytes and `writer` (-1: there from the start) are [tensors]; tensor i is read by the nodes
    `reader[read_ptr[i]:read_ptr[i + 1]]`; it is there from the start of its writer to the end of its last reader, or of
    the run where it has none. `tier` [tensors] says which of `tiers` holds it, -1: the NPU's local memory, which holds
    all of them where `tier` is None.
    """

    size: I64
    writer: I32
    read_ptr: I64
    reader: I32
    tier: I32 | None = None
    tiers: tuple[str, ...] = ()


class Phase(Struct, frozen=True):
    """A stretch of a class's nodes, by id: `prefill` or `decode`; `tokens` that each sequence gains in it."""

    name: str
    nodes: int
    tokens: float


class Generated(Struct, frozen=True, eq=False):
    """What a workload generator makes: classes that cover every rank once, and the groups that they name.

    `groups[g]` holds the ranks of group g in order and `names[g]` its name, which is what a trace file writes as
    `pg_name`; `tensors` [classes], None where nothing is said about memory (a generator may make them when somebody
    asks). `phases` [classes], of equal names.
    """

    classes: tuple[TraceClass, ...]
    groups: tuple[I32, ...]
    names: tuple[str, ...]
    tensors: Sequence[Tensors | None]
    phases: tuple[tuple[Phase, ...], ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled with the tensors of every class made."""
        return Generated, (self.classes, self.groups, self.names, tuple(self.tensors), self.phases)
