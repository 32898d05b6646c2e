"""Blocks of operators over tensors with named dims: what a model is, before any parallelism.

An operator is written as its tensors with the dims by which it uses them, operands left, results right:

    gemm("q", "h[batch,seq,d] * wq[d,heads,head] -> q[batch,seq,heads,head]")

Two dim names that differ only after the dot (`seq`, `seq.res`) are the same dim, laid out differently. A tensor may be
used by other variants than those that it was made with; `infer` turns the difference into collectives.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

__all__ = ["Block", "Cost", "Costs", "Measures", "Op", "Use", "add", "append", "attention", "base", "gather", "gemm",
           "point", "scan"]

_USE = re.compile(r"\s*([A-Za-z_][A-Za-z_0-9.]*)\[([^\]]*)\]\s*")


def base(dim: str) -> str:
    """`seq.res` -> `seq`."""
    return dim.partition(".")[0]


class Use(NamedTuple):
    """A tensor as an operator sees it."""

    tensor: str
    dims: tuple[str, ...]


NOTHING = Use("", ())


class Cost(Struct, frozen=True):
    """FLOPs on one rank; `gemm` of them are of GEMM class."""

    flops: float
    gemm: float = 0.0


class Measures(Protocol):
    """What the lowering of a block asks of a layout: which axes shard a dim, and how much is then on one rank."""

    def axes_of(self, dim: str) -> tuple[str, ...]:
        """See layout.Layout."""

    def ranks(self, axis: str) -> int:
        """See layout.Layout."""

    def degree(self, axes: Sequence[str]) -> float:
        """See layout.Layout."""

    def local(self, dim: str) -> float:
        """See layout.Layout."""

    def elements(self, dims: tuple[str, ...]) -> float:
        """See layout.Layout."""


class Costs(NamedTuple):
    """What an operator costs whose kind does not say it: of (operator, layout), forward and backward. `shape`: of its
    kernel (see vocab.Kernel), if it has one."""

    forward: Callable[[Op, Measures], Cost]
    backward: Callable[[Op, Measures], Cost]
    shape: Callable[[Op, Measures], tuple[float, ...]] | None = None


class Op(NamedTuple):
    """One operator. `kind` is a key of `ops.KINDS`; `factor` FLOPs per element where the kind counts elements: those of
    the tensor `per`, or of the largest operand.

    `saves`: what backward needs: `inputs`, `outputs`, `mask` (a byte per element of the result), `index` or `nothing`.
    `core` marks what selective recomputation does again; `grad` False: no gradient flows through it. `ring` is the mesh
    axis of ring attention; `work` scales the FLOPs of a product (a causal mask that is skipped: about 0.5); `along` are
    dims that ride along another one and do not multiply the work (`kv_heads` along `heads`). `stops`: a product whose
    gradient goes to its weight alone. `sequences` that attention finds packed into one; `packed`: of a product of
    such scores, the share of all pairs that it computes, 0 of other products. `costs` of a scan. `linear`: the result
    of a partial sum is a partial sum of the results; what the operator makes is summed up, not what it reads. `joins`:
    the result is some rows of a tensor (its dims end in a number) whose other rows other operators make. `fused`:
    operators of one name that follow each other are one kernel of a serving engine; `view`: there it is none at all.
    `spread`, of experts' products: ranks over which the experts are spread, the exponent of the power law of rows over
    experts, in hundredths, and how many times the mean the rows are for that. `stream`:
    the operator of PyTorch that runs it, if that is a kernel which moves bytes (see Kernel.op).
    """

    name: str
    kind: str
    inputs: tuple[Use, ...]
    outputs: tuple[Use, ...]
    factor: float = 1.0
    saves: str = "inputs"
    core: bool = False
    grad: bool = True
    ring: str = ""
    work: float = 1.0
    along: tuple[str, ...] = ()
    stops: bool = False
    sequences: int = 1
    packed: float = 0.0
    costs: Costs | None = None
    linear: bool = False
    joins: bool = False
    fused: str = ""
    view: bool = False
    spread: tuple[int, int, float] = (1, 0, 1.0)
    per: str = ""
    stream: str = ""

    @property
    def packs(self) -> bool:
        """Whether it may be attention, or scores, of sequences that are packed into one: a part of all pairs."""
        return self.kind in ("attention", "attention_backward") or (
            self.kind == "gemm" and base(self.outputs[0].dims[-1]) == "pairs")


class Block(Struct, frozen=True, dict=True):
    """A piece of a model between two points of its residual stream.

    `weights` name -> dims; `states` (a KV cache) likewise, read but never differentiated; `widths` tensor -> precision
    role where it is not that of its kind (`stats` for softmax statistics, `mask`...). `experts` are the weights that ep
    shards, `attention` those of attention or its replacement. `input` and `output` are the stream; a block
    without `input.tensor` starts it, one without `output.tensor` ends it. `memory` travels beside the stream (an
    encoder's output, a condition): the block takes it, with `gives_memory` also hands it on, or makes it. `losses`:
    where backward starts besides the block's end.
    `borrowed`: weights that another block of the same rank holds. `reused`: tensors whose gradient takes their place.
    """

    name: str
    input: Use
    output: Use
    ops: tuple[Op, ...]
    weights: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    states: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    widths: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    experts: frozenset[str] = frozenset()
    attention: frozenset[str] = frozenset()
    memory: Use = NOTHING
    takes_memory: bool = False
    gives_memory: bool = False
    losses: tuple[Use, ...] = ()
    borrowed: frozenset[str] = frozenset()
    reused: frozenset[str] = frozenset()

    def __hash__(self) -> int:
        return hash((self.name, self.input, self.output, self.ops))

    @functools.cached_property
    def matrices(self) -> frozenset[str]:
        """What products have on their right: their weights, and other tensors."""
        return frozenset(op.inputs[1].tensor for op in self.ops if op.kind == "gemm")

    def with_ops(self, ops: Iterable[Op]) -> Block:
        return replace(self, ops=tuple(ops))


@functools.cache
def _parsed(text: str) -> tuple[tuple[Use, ...], tuple[Use, ...]]:
    left, arrow, right = text.partition("->")
    if not arrow:
        raise ValueError(f"{text!r} has no ->")
    return _uses(left), _uses(right)


def _uses(text: str) -> tuple[Use, ...]:
    found = []
    for part in re.split(r"[*+;]|,(?![^\[]*\])", text):
        if not part.strip():
            continue
        match = _USE.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is not tensor[dim,...]")
        found.append(Use(match[1], tuple(dim.strip() for dim in match[2].split(",") if dim.strip())))
    return tuple(found)


def gemm(name: str, text: str, *, work: float = 1.0, core: bool = False, along: tuple[str, ...] = (),
         packed: float = 0.0, sequences: int = 1) -> Op:
    """A matrix product of the first two operands (2 FLOPs per multiply-add); further operands are added (a bias)."""
    inputs, outputs = _parsed(text)
    return Op(name, "gemm", inputs, outputs, work=work, core=core, along=along, packed=packed,
              sequences=sequences)


def point(name: str, text: str, flops: float = 1.0, *, saves: str = "inputs", core: bool = False,
          grad: bool = True, linear: bool = False, per: str = "") -> Op:
    """Elementwise work, normalisation, reduction over dims: `flops` per element of the tensor `per`, or the largest."""
    inputs, outputs = _parsed(text)
    return Op(name, "point", inputs, outputs, factor=flops, saves=saves, core=core, grad=grad, linear=linear, per=per)


def add(name: str, text: str, *, linear: bool = False) -> Op:
    """A sum of tensors of one shape: what residual streams do. Backward costs nothing: every gradient is dY itself."""
    inputs, outputs = _parsed(text)
    return Op(name, "add", inputs, outputs, saves="nothing", linear=linear)


def attention(name: str, text: str, *, ring: str = "", work: float = 1.0, sequences: int = 1) -> Op:
    """Flash attention: q[batch,sq,heads,e] * k[batch,sk,kv,e] * v[batch,sk,kv,f] -> o[batch,sq,heads,f]; a fourth
    operand is a table of offsets that the scores look up.

    `ring`: the mesh axis around which keys and values travel; then sk is local, and everyone sees all of it.
    """
    inputs, outputs = _parsed(text)
    return Op(name, "attention", inputs, outputs, ring=ring, work=work, sequences=sequences)


def scan(name: str, text: str, costs: Costs, factor: float = 1.0) -> Op:
    """A recurrence along the sequence in chunks: one kernel, forward and backward. `costs`, which the family gives,
    count its FLOPs from the operands' dims and `factor`."""
    inputs, outputs = _parsed(text)
    return Op(name, "scan", inputs, outputs, factor=factor, costs=costs)


def append(name: str, text: str) -> Op:
    """New rows into a state: k[batch,seq,heads,e] -> cache[batch,ctx,heads,e]; what is written is as large as k."""
    inputs, outputs = _parsed(text)
    return Op(name, "append", inputs, outputs, saves="nothing", grad=False)


def gather(name: str, text: str) -> Op:
    """A look-up of rows: index[batch,seq] * table[vocab,d] -> x[batch,seq,d]; partial over the axes of `vocab`. Dims of
    the index that the result lacks are summed over (a bag of rows)."""
    inputs, outputs = _parsed(text)
    return Op(name, "gather", inputs, outputs, saves="index")
