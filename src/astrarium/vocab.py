"""Value types that the sibling layers share: operations, node kinds, schedules.

Frozen data without behaviour of its own; anything with a choice in it lives in the layer it belongs to.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I32

__all__ = ["KERNELS", "MOST_PLANNED", "TERMS", "CommOp", "Kernel", "NodeKind", "PeerMode", "Placed", "Schedule"]

MOST_PLANNED = 1 << 20     # NPUs of a plan of training


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

    `shape`: of a gemm (batch, m, n, k), m along the result's rows; of a grouped_gemm (groups, m of all groups, n, k),
    and, if it is a whole layer of experts, besides (inner length: the second product's k; ranks over which the experts
    are spread; exponent of the power law of rows over experts, in hundredths); of attention, attention_backward and mla
    (batch, heads, kv_heads, queries, keys, length of a key, length of a value; 0: scores alone); of a scan of a gated
    delta net in inference (sequences, heads, tokens of each, length of a key, of a value); of PyTorch's norms, sums
    over rows and gradients of embeddings (rows, columns) and optimizers (numbers, 1); else (). `work`: part of the full
    product that is computed, above all of a masked attention. `precision`: bf16, fp16, fp8, fp8_block, fp4, int8, int4
    or fp32, that of the operands of products. `flops` and `bytes` are the node's, over all of its `launches` (0: it is
    the end of the kernel before it); where these have several shapes, `shape` is that of the first. `held`: the format
    in which memory holds quantised weights of a product, which then casts its activation itself, or attention's
    quantised cache; else "". `op`: which operator of the kind it is, if kernels of the kind differ: of a gemm `dgrad`
    (the gradient of an activation) or `wgrad` (of a weight: m counts its inputs, n its outputs), "" for a forward
    product; of kinds that move bytes the operator's name, such as rms_norm_backward; else "".
    """

    kind: str
    precision: str
    shape: tuple[int, ...]
    work: float
    flops: float
    bytes: int
    launches: int = 1
    held: str = ""
    op: str = ""


class Placed(NamedTuple):
    """Which memory holds a kind of tensors in training: None, the NPU's own; else the name of a tier, or "", remote
    memory without a name. `prefetch`: layers that are fetched ahead. `step`: whether the tier of the states has a
    processor next to it, which does the optimizer's step.
    """

    parameters: str | None = None
    gradients: str | None = None
    states: str | None = None
    activations: str | None = None
    prefetch: int = 1
    step: bool = False


TERMS = {
    "agent": "What proposes the points of a search: genetic, ant colony, Bayesian and others.",
    "algbw": "Algorithm bandwidth: payload / time, as nccl-tests prints it.",
    "algorithm": "How a collective is done in one dim: ring, direct, halving_doubling, double_binary_tree and others.",
    "axis": "A way to divide a workload over ranks: dp, tp, pp, sp, cp or ep.",
    "backend": "The model of the network: closed_form, contention, fluid, packets, ns3, or a plug-in.",
    "bubble": "The time in which a pipeline stage waits for other stages.",
    "busbw": "Bus bandwidth: algbw times the bytes that an NPU must send per byte of payload (nccl-tests).",
    "chunk": "A part of a collective's payload that passes through the dims separately.",
    "class": "Ranks that do the same at the same time; a folded run has one rank of each class.",
    "collective": "An operation of a group of ranks, such as all_reduce.",
    "composition": "The order in which the chunks of a collective visit the dims: baseline, blueconnect or themis.",
    "constraint": "What a point of a space must fulfil to be simulated.",
    "cp": "Context parallelism: ranks share the tokens of a sequence, in attention too.",
    "design": "All of a system and its workload: six sections, in a file or as a value.",
    "dim": "A level of the network in which NPUs are connected by one shape; the innermost comes first.",
    "dp": "Data parallelism: ranks have their own samples and sum gradients.",
    "endpoint delay": "The time between the arrival of a chunk and the first message that follows from it.",
    "ep": "Expert parallelism: ranks share the experts of a layer.",
    "exposed communication": "The time in which a rank communicates and does not compute.",
    "extrapolated": "Of an interval: no measured row has what the brackets name, so both ends are further out than "
                    "those of the measured rows.",
    "figure": "One number of a run or a design (time, memory, energy, money), usable as an objective.",
    "fold": "To run one rank for all ranks of its class, if this is proved to give the same integers.",
    "front": "The trials that no other trial is better than in every objective.",
    "group": "Ranks that take part in a collective together.",
    "host": "A machine with several NPUs. (A node is a node of a trace.)",
    "itl": "Inter-token latency: the time between two tokens of one request.",
    "knob": "A field of a design that a search may change, named by its path: network.dims[1].bandwidth.",
    "lane": "A resource of an NPU on which nodes run one after the other: compute, memory, streams of communication.",
    "latency": "The time between the sending of a bit and its arrival over a link.",
    "layout": "How the planner divides a model over ranks: the degree of each axis, micro-batch, ZeRO stage.",
    "link bandwidth": "The bytes per time that one link carries in one direction.",
    "lower bound": "A value that no simulation of a design can be below; a search skips designs by it.",
    "makespan": "The time from the start to the end of the last rank.",
    "medium": "The implementation of a backend in the engine: it moves bytes.",
    "mfu": "Model FLOP utilisation: the arithmetic of the model's forward and backward pass, without recomputation, "
           "over the step time and the peak of all NPUs.",
    "micro-batch": "The samples that pass through a pipeline together.",
    "node": "A step of a trace: a compute, memory, send, receive or collective operation.",
    "npu": "A processor: GPU, TPU or other accelerator. It has a place in the network.",
    "objective": "The figure, or the product of figures, that a search makes small or large.",
    "overhead": "Time or memory that software adds: launches (compute.launch_gap), "
                "libraries' memory (workload.overhead), "
                "the allocator's (plan --reserve), a serving engine's steps (policy.overhead of a serving file).",
    "payload": "The bytes of a collective that one rank has before or after it (nccl-tests' S).",
    "phase": "The part of a chunk's way through a collective that is done in one dim.",
    "plan": "What the engine runs: nodes, collectives and network as arrays of integers.",
    "pp": "Pipeline parallelism: ranks have their own layers.",
    "rank": "A process of a workload. system.placement says on which NPU it runs.",
    "rental": "The price of an NPU by the hour, with energy and network, instead of a purchase: cost.rental.",
    "schedule": "An algorithm for one operation and number of participants: who sends which block when.",
    "shape": "How the NPUs of a dim are connected: ring, switch, fully_connected, mesh, hypercube and others.",
    "source": "Where a workload comes from: trace files, a model, one collective.",
    "sp": "Sequence parallelism as a separate axis (COSMIC, STAGE). Megatron's is the setting tp_sequence.",
    "space": "A design with knobs, their values and constraints: what a search draws from.",
    "stack": "The software of a training job (nemo, megatron-lm, fsdp): settings that were fitted to measured steps.",
    "stage": "The layers that one rank of a pipeline has.",
    "stream": "A queue of communication of an NPU; collectives of one stream do not overlap. "
              "system.comm_streams: how many.",
    "study": "A search with all its trials, on disk.",
    "tier": "A memory behind an NPU's local one: its host's, CXL, a pool.",
    "topology": "All dims of a network together.",
    "tp": "Tensor parallelism: ranks share the matrices of a layer.",
    "tpot": "Time per output token: the mean time between the tokens of one request, after the first.",
    "trace": "A Chakra execution trace: the nodes of each rank, and what they wait for.",
    "trial": "A point of a space that was judged.",
    "ttft": "Time to first token: from the arrival of a request to its first token.",
    "unvalidated": "Too few rows like the design were measured to know the error of its prediction; an interval, if "
                   "there is one, is that of rows of other devices or settings.",
    "zero": "ZeRO stage: what is sharded over dp (1: optimizer states, 2: gradients too, 3: parameters too).",
}
"""The words of the product, each with one meaning: docs/reference/glossary.md."""


class PeerMode(enum.IntEnum):
    """How a schedule's peer and block numbers are read by the participant at position `p` of `n`."""

    RELATIVE = 0  # peer (p + x) mod n, block x - x mod n + (p + x) mod n: one program serves every participant
    XOR = 1       # peer p ^ x, block p ^ x
    ABSOLUTE = 2  # peer x, block x: a program per role


class Schedule(Struct, frozen=True, eq=False):
    """One collective algorithm for one operation on `n` participants, as data.

    The payload of a participant is cut into `blocks` equal blocks (padded up to a multiple of `blocks`). Participant
    `p` runs program `program[p]`. Program `q` owns the sends `send_ptr[q]:send_ptr[q+1]` and the receives
    `recv_ptr[q]:recv_ptr[q+1]`, both in program order:

    - send `s` goes to `send_peer[s]`, carries the blocks `send_block[send_block_ptr[s]:send_block_ptr[s+1]]`, may start
      when the first `send_needs[s]` receives *of this program* are complete, and is taken by receive number
      `send_match[s]` (counted within the receiver's program);
    - receive `r` comes from `recv_peer[r]` and is added to what is held when `recv_reduce[r]`, else replaces it.

    Places `n` and above are `switches` that compute (ABSOLUTE only): they begin with nothing, add what they receive
    with `recv_reduce`, and send copies of what they hold.

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
    switches: int = 0
