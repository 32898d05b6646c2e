"""The small traces of chakra_generator: one file per family and rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from astrarium.trace._oneof import KINDS
from astrarium.trace.build import TraceBuilder
from astrarium.trace.node import Attribute
from astrarium.vocab import CommOp, NodeKind

__all__ = ["sample_traces"]

COLLECTIVES = (CommOp.ALL_REDUCE, CommOp.ALL_TO_ALL, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.BROADCAST,
               CommOp.BARRIER)
SAMPLES = {"bool": True, "string": "12345", "bytes": b"12345", "double": 1.25, "float": 1.25}


def sample_traces(ranks: int, *, runtime: int = 5, tensor_size: int = 1024,
                  comm_size: int = 65536) -> Iterator[tuple[str, bytes]]:
    """(file name, bytes) of every family and rank: runtimes in microseconds, sizes in bytes; the names are Chakra's.

    Sends go to the next rank, which receives them in the family of receives: both families have both, so they run.
    """
    families: dict[str, Callable[[TraceBuilder, int], object]] = {
        "one_metadata_node_all_types": lambda made, rank: made.node(NodeKind.METADATA, "METADATA_NODE", _all_kinds()),
        "one_remote_mem_load_node": lambda made, rank: made.memory("MEM_LOAD_NODE", tensor_size),
        "one_remote_mem_store_node": lambda made, rank: made.memory("MEM_STORE_NODE", tensor_size, store=True),
        "one_comp_node": lambda made, rank: made.comp("COMP_NODE", runtime),
        "two_comp_nodes_independent": lambda made, rank: (made.comp("COMP_NODE", runtime),
                                                          made.comp("COMP_NODE", runtime)),
        "two_comp_nodes_dependent": lambda made, rank: made.comp("COMP_NODE", runtime,
                                                                 after=[made.comp("COMP_NODE", runtime)]),
        "one_comm_send_node": lambda made, rank: _message(made, rank, ranks, comm_size),
        "one_comm_recv_node": lambda made, rank: _message(made, rank, ranks, comm_size)}
    for op in COLLECTIVES:
        families[op.name] = lambda made, rank, op=op: made.coll(  # type: ignore[misc]
            op.name, op, 0 if op == CommOp.BARRIER else comm_size)
    for name, make in families.items():
        for rank in range(ranks):
            made = TraceBuilder()
            make(made, rank)
            yield f"{name}.{rank}.et", made.encode()


def _message(made: TraceBuilder, rank: int, ranks: int, size: int) -> None:
    """Rank 2k sends to rank 2k + 1; the last of an odd number has no partner and computes nothing."""
    peer = rank ^ 1
    if peer >= ranks:
        return
    if rank % 2 == 0:
        made.send("COMM_SEND_NODE", peer, size, rank // 2)
    else:
        made.recv("COMM_RECV_NODE", peer, size, rank // 2)


def _all_kinds() -> list[Attribute]:
    """An attribute of every kind that there is."""
    found = []
    for kind in KINDS:
        scalar, form = kind.rsplit("_", 1)
        value = SAMPLES.get(scalar, 12345)
        single = form == "val"
        found.append(Attribute(scalar if single else f"{scalar}_list", value if single else (value, value), kind))
    return found
