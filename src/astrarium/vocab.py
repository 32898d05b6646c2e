"""Value types that the sibling layers share: operations, node kinds, schedules.

Frozen data without behaviour of its own; anything with a choice in it lives in the layer it belongs to.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["KERNELS", "CommOp", "Kernel", "NodeKind", "PeerMode", "Placed", "Schedule"]

I32 = npt.NDArray[np.int32]


class CommOp(enum.IntEnum):
    """Collective operations; the values are Chakra's CollectiveCommType (et_def.proto)."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


class NodeKind(enum.IntEnum):
    """Node types of a Chakra execution trace (et_def.proto, NodeType)."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


KERNELS = ("gemm", "grouped_gemm", "attention", "attention_backward", "mla", "normalisation", "pointwise", "embedding",
           "optimizer", "quantisation", "scan", "host")
"""Kinds of a Kernel."""


class Kernel(NamedTuple):
    """What one compute node runs on one NPU.

    `shape`: of a gemm (batch, m, n, k), m along the result's rows; of a grouped_gemm (groups, m of all groups, n, k);
    of attention, attention_backward and mla (batch, heads, kv_heads, queries, keys, length of a key, length of a
    value); else (). `work`: part of the full product that is computed, above all of a masked attention. `precision`:
    bf16, fp16, fp8, fp4, int8, int4 or fp32, that of the operands of products. `flops` and `bytes` are the node's,
    over all of its `launches`; where these have several shapes, `shape` is that of the first.
    """

    kind: str
    precision: str
    shape: tuple[int, ...]
    work: float
    flops: float
    bytes: int
    launches: int = 1


class Placed(NamedTuple):
    """Which memory holds a kind of tensors in training: None, the NPU's own; else the name of a tier, or "", remote
    memory without a name. `prefetch`: layers that are fetched ahead. `step`: whether the tier of the states has a
    processor beside it, which does the optimizer's step.
    """

    parameters: str | None = None
    gradients: str | None = None
    states: str | None = None
    activations: str | None = None
    prefetch: int = 1
    step: bool = False


class PeerMode(enum.IntEnum):
    """How a schedule's peer and block numbers are read by the participant at position `p` of `n`."""

    RELATIVE = 0  # peer (p + x) mod n, block x - x mod n + (p + x) mod n: one program serves every participant
    XOR = 1       # peer p ^ x, block p ^ x
    ABSOLUTE = 2  # peer x, block x: a program per role


@dataclass(frozen=True, eq=False)
class Schedule:
    """One collective algorithm for one operation on `n` participants, as data.

    The payload of a participant is cut into `blocks` equal blocks (padded up to a multiple of `blocks`). Participant
    `p` runs program `program[p]`. Program `q` owns the sends `send_ptr[q]:send_ptr[q+1]` and the receives
    `recv_ptr[q]:recv_ptr[q+1]`, both in program order:

    - send `s` goes to `send_peer[s]`, carries the blocks `send_block[send_block_ptr[s]:send_block_ptr[s+1]]`, may start
      when the first `send_needs[s]` receives *of this program* are complete, and is taken by receive number
      `send_match[s]` (counted within the receiver's program);
    - receive `r` comes from `recv_peer[r]` and is added to what is held when `recv_reduce[r]`, else replaces it.

    Which blocks a participant holds before and after is fixed by `op`; `collective.exam` proves every schedule
    symbolically. Rotation (RELATIVE) and xor (XOR) symmetry keep a ring of 1,024 at 2,046 sends, not 2 million.
    """

    op: CommOp
    algorithm: str
    n: int
    blocks: int
    peer_mode: PeerMode
    program: I32
    send_ptr: I32
    send_peer: I32
    send_needs: I32
    send_match: I32
    send_block_ptr: I32
    send_block: I32
    recv_ptr: I32
    recv_peer: I32
    recv_reduce: npt.NDArray[np.bool_]
