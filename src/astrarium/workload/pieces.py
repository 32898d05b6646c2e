"""What the graph gives to assembly: one block's work for one micro-batch on one rank, as a few steps of numbers."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from astrarium.vocab import CommOp, NodeKind

__all__ = ["BF16", "FUSED", "BlockPieces", "Fusion", "Numbers", "Piece", "Sketch", "Step", "Torch", "Weight"]


class Numbers(NamedTuple):
    """Formats in which kernels compute: products with weights, those with experts' weights, attention to a cache
    (`cached`), everything else (`vector`). `weights`, `expert_weights` and `keys`: formats in which memory holds
    quantised weights and a quantised cache; else "". `attention`: (product, weights) of attention's own products;
    None: as the others."""

    product: str = "bf16"
    experts: str = "bf16"
    vector: str = "bf16"
    cached: str = "bf16"
    weights: str = ""
    expert_weights: str = ""
    keys: str = ""
    attention: tuple[str, str] | None = None


BF16 = Numbers()


class Fusion(NamedTuple):
    """Which operators share a kernel: elementwise neighbours (`neighbours`), norms and softmax with these (`norms`),
    the gradients of products of one operand (`qkv`), and what serving engines have in one (`engine`: see Op.fused;
    `reduced`: norms of the residual stream too, in the all_reduce in front of them; `carried`: a block begins behind
    one). `operators`, and `casts` of weights (autocast): see Software."""

    neighbours: bool = True
    norms: bool = True
    qkv: bool = False
    engine: bool = False
    reduced: bool = False
    carried: bool = False
    operators: str = "fused"
    casts: bool = False


FUSED = Fusion()


class Torch(NamedTuple):
    """How programs in PyTorch write what has several forms there: see Software."""

    rms_norm: str = "kernel"
    rotary: str = "halves"
    autocast: bool = False


class Sketch(NamedTuple):
    """A Kernel to be, before its sizes are whole numbers. `operands` of a product: left and right operand, result.
    `launches`, `held` and `op`: see Kernel. `spread`, of experts' products: see Op."""

    kind: str
    precision: str
    shape: tuple[float, ...] = ()
    work: float = 1.0
    launches: int = 1
    operands: tuple[str, ...] = ()
    held: str = ""
    spread: tuple[int, int, float] = (1, 0, 1.0)
    op: str = ""


class Step(NamedTuple):
    """One node to be. `after` holds indexes of earlier steps of the piece; empty: it waits for the piece's entry.

    Compute: `flops` (all), of which `gemm` are of GEMM class; `bytes` read and written; the `kernel`. Collectives and
    messages: `bytes` as Chakra counts them (all_gather: the shard), `axes` the mesh axes of the group. SEND and RECV
    go to, or come from, the rank `shift` further along the one axis in `axes` (cyclic). `weight`: a gradient of
    weights, which may wait. `host`: ns of a step on the host.
    """

    name: str
    kind: NodeKind
    after: tuple[int, ...] = ()
    flops: float = 0
    gemm: float = 0
    bytes: float = 0
    op: CommOp | None = None
    axes: tuple[str, ...] = ()
    shift: int = 0
    weight: bool = False
    kernel: Sketch | None = None
    host: float = 0


class Piece(Struct, frozen=True):
    """Steps in order of issue. `exit` is the step (index) that gives what the next piece waits for; -1: its entry."""

    steps: tuple[Step, ...]
    exit: int


class Weight(NamedTuple):
    """One weight tensor of a block on one rank.

    `elements` of this rank before ZeRO; the gradient must be summed over `replicas` (mesh axes over which the weight is
    replicated and its gradient partial), and ZeRO shards over those. `dense`: False for experts. `product`: weights of
    one block with the same number have their gradients from one product (-1: from none); `matrix` elements of one
    matrix: all, or one expert's. `role`: what stores it (see kernels.role_of).
    """

    name: str
    elements: float
    replicas: tuple[str, ...]
    dense: bool = True
    product: int = -1
    matrix: float = 0
    role: str = "weights"


class BlockPieces(Struct, frozen=True):
    """A block (layer) for one micro-batch on one rank.

    `forward`; `backward` with recomputation, if any, in front; `weights`. `saved` bytes live from the end of forward to
    the end of backward, `working` more while forward or backward runs (`working_back`
    while backward does, if that is another number). `output` bytes are what goes to the next
    pipeline stage (and, as a gradient, back).
    """

    name: str
    forward: Piece
    backward: Piece
    weights: tuple[Weight, ...]
    saved: float
    working: float
    output: float
    working_back: float | None = None
