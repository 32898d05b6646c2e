"""`source: stage`: the flags of STAGE's main.py as fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ClassVar

from astrarium.config import Knob, Problem
from astrarium.workload.config import Workload

__all__ = ["Stage"]

MOST_RANKS, MOST = 1 << 22, 1 << 60


def _whole(work: Stage) -> Iterator[Problem]:
    if work.micro_batch is not None and work.batch % work.micro_batch:
        yield Problem("micro_batch", f"{work.micro_batch} does not divide {work.batch} samples", "a divisor of batch")
    if work.ranks > MOST_RANKS:
        yield Problem("dp", f"{work.ranks} ranks in all", f"at most {MOST_RANKS}")
    widest = max(work.dmodel, work.dff, work.dvocal)
    if max(work.batch * work.seq, work.dmodel) * 6 * widest > MOST:
        yield Problem("batch", "makes tensors of more than 2^60 elements", "less")
    if work.experts is not None and work.experts % work.ep:
        yield Problem("ep", f"{work.ep} does not divide {work.experts} experts", "a divisor of experts")
    if work.experts is not None and not work.tpsp:
        yield Problem("tpsp", "false, with experts", "true, as STAGE demands")
    if work.num_stacks < work.pp:
        yield Problem("pp", f"{work.pp} stages of {work.num_stacks} layers", f"at most {work.num_stacks}")


class Stage(Workload, frozen=True, kw_only=True):
    """A transformer as STAGE (9ec6c02; dense also symbolic_tensor_graph 3a7f49c) counts it, to compare with its traces.

    Sizes are elements, not bytes; a multiply-add is one operation; attention has no term in the square of the sequence;
    embeddings are dense products; the optimizer is one addition per weight; the last part is on stage
    (num_stacks - 1) mod pp; sizes that do not divide are cut off. `source: transformer` is the model itself.
    """

    tag: ClassVar[str] = "stage"
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_whole,)
    dp: Annotated[int, Knob("Data-parallel ranks (innermost).", ge=1)] = 1
    tp: Annotated[int, Knob("Tensor-parallel ranks; ep multiplies them.", ge=1)] = 1
    sp: Annotated[int, Knob("Ranks that divide the sequence.", ge=1)] = 1
    ep: Annotated[int, Knob("Ranks that divide the experts; in a dense model: more tensor-parallel ranks.", ge=1)] = 1
    pp: Annotated[int, Knob("Pipeline stages (outermost).", ge=1)] = 1
    weight_sharded: Annotated[bool, Knob("Weights are sharded over dp (FSDP).")] = False
    tpsp: Annotated[bool, Knob("Between layers' matrices the sequence is divided over tp.")] = True
    dvocal: Annotated[int, Knob("Vocabulary.", ge=1)] = 32000
    dmodel: Annotated[int, Knob("Length of a token's vector.", ge=1)] = 8192
    dff: Annotated[int, Knob("Inner size of the FFN.", ge=1)] = 28672
    batch: Annotated[int, Knob("Samples of an iteration.", ge=1)] = 64
    micro_batch: Annotated[int | None, Knob("Samples of a micro-batch; left out: batch.", ge=1)] = None
    seq: Annotated[int, Knob("Tokens of a sample.", ge=1)] = 1024
    num_stacks: Annotated[int, Knob("Layers.", ge=1)] = 80
    experts: Annotated[int | None, Knob("Experts of a layer (`--model_type moe`); left out: dense.", ge=1, lt=65537)
                       ] = None
    kexperts: Annotated[int, Knob("Experts that a token goes to.", ge=1)] = 2
    head: Annotated[int, Knob("Heads, which only a model with experts has in STAGE.", ge=1)] = 64
    kvhead: Annotated[int, Knob("Key and value heads, likewise.", ge=1)] = 8

    @property
    def ranks(self) -> int:
        """Ranks that the parallelisation needs."""
        return self.dp * self.tp * self.ep * self.sp * self.pp

    @property
    def tensor(self) -> int:
        """Tensor-parallel ranks."""
        return self.tp * self.ep if self.experts is None else self.tp

    @property
    def expert(self) -> int:
        """Ranks that divide the experts."""
        return 1 if self.experts is None else self.ep

    @property
    def micro_batches(self) -> int:
        """Copies of the graph."""
        return self.batch // (self.micro_batch or self.batch)

    @property
    def head_stage(self) -> int:
        """Where STAGE puts the head and the loss."""
        return (self.num_stacks - 1) % self.pp

    def first_layer(self, stage: int) -> int:
        """First layer of a stage."""
        each, more = divmod(self.num_stacks, self.pp)
        return stage * each + min(stage, more)
