"""Ring attention: keys and values travel around a mesh axis while each rank works on what it has.

Liu, Zaharia, Abbeel: Ring Attention (arXiv 2310.01889). Forward sends keys and values n - 1 times; backward sends them
n - 1 times and their gradients n times, the last bringing them home.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from astrarium.vocab import NodeKind
from astrarium.workload.graph.amount import total
from astrarium.workload.graph.draft import Draft, Drafts

__all__ = ["emit_ring"]


def emit_ring(drafts: Drafts, whole: Draft, axis: str, ranks: int, shards: Sequence[float], backward: bool) -> int:
    """`whole`, the work of all rounds, as `ranks` rounds; `shards`: bytes of keys, of values. Returns the last step."""
    payload = total(shards, 0.0)
    arrived, done = set(whole.after), -1
    gradients: set[int] = set()
    for turn in range(ranks):
        after = arrived | ({done} if turn else set())
        name = f"{whole.name}.{turn}"
        sent: set[int] = set()
        if turn < ranks - 1:
            sent = _exchange(drafts, f"{name}.kv", arrived if turn else set(whole.after), axis, payload)
        done = drafts.emit(replace(whole, name=name, after=after | gradients, flops=whole.flops / ranks,
                                   gemm=whole.gemm / ranks, reads=dict(whole.reads),
                                   writes=dict(whole.writes) if turn == ranks - 1 else {}))
        arrived = sent or arrived
        if backward:
            gradients = _exchange(drafts, f"{name}.d_kv", {done}, axis, payload)
    if not gradients:
        return done
    last = max(gradients)
    drafts.wait(last, {done})
    return last


def _exchange(drafts: Drafts, name: str, after: set[int], axis: str, payload: float) -> set[int]:
    """A send to the next rank of the axis and the receive from the one before."""
    drafts.emit(Draft(name + ".send", NodeKind.COMM_SEND, set(after), axes=(axis,), shift=1, payload=payload))
    return {drafts.emit(Draft(name + ".recv", NodeKind.COMM_RECV, set(after), axes=(axis,), shift=-1, payload=payload,
                              writes={name: payload}))}
