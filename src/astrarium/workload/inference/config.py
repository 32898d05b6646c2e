"""Inference of a model under a parallelisation: the `workload` section with `source: inference`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Config, Knob
from astrarium.config.named import Named
from astrarium.workload.config import Workload
from astrarium.workload.inference.conditions import CONDITIONS
from astrarium.workload.inference.formats import Compression, Formats
from astrarium.workload.inference.rules import RULES
from astrarium.workload.inference.use_cases import USE_CASES
from astrarium.workload.mesh import Mesh, mesh_of
from astrarium.workload.model.base import Model

__all__ = ["Inference", "Speculation"]

Rules = tuple[Callable[[Any], Iterable[Any]], ...]


class Speculation(Config, frozen=True, kw_only=True):
    """Speculative decoding (arXiv 2211.17192): a draft model guesses tokens, the model verifies all of them at once."""

    draft: Annotated[Named[Model], Knob("The draft model, on the same ranks.")]
    tokens: Annotated[int, Knob("Tokens that the draft guesses before each verification.", ge=1, lt=65)]
    acceptance: Annotated[float, Knob("Probability that a guessed token is accepted.", ge=0, lt=1.0000001)]


class Inference(Workload, frozen=True):
    """Prefill, decode, or whole requests of a batch of sequences that start together.

    Axes: ranks = tp * sp * dp * pp; `ep` is a part of dp. tp divides heads and matrices (key and value heads that are
    fewer than tp are copied), sp the tokens and the context of every sequence, dp the sequences, pp the layers.
    """

    tag: ClassVar[str] = "inference"
    rules: ClassVar[Rules] = RULES
    conditions: ClassVar[tuple[tuple[str, ...], ...]] = CONDITIONS
    model: Annotated[Named[Model], Knob("The model: a name of the catalog, a Hugging Face config.json, or a "
                                           "family with its sizes.")]
    batch: Annotated[int, Knob("Sequences, over all replicas.", ge=1)] = 1
    use_case: Annotated[str | None, Knob("Named lengths of prompt and answer, in place of prompt and generated.",
                                         choices=tuple(USE_CASES))] = None
    prompt: Annotated[int | None, Knob("Tokens of a prompt.", ge=1)] = None
    generated: Annotated[int | None, Knob("Decode steps: tokens generated after the first, which prefill gives.",
                                          ge=1)] = None
    phase: Annotated[Literal["prefill", "decode", "request"],
                     Knob("Prefill of the prompts, decode steps, or both: prefill and then all decode steps.")
                     ] = "request"
    context: Annotated[int | None, Knob("Tokens in the cache at a decode step (phase: decode); left out: prompt + half "
                                        "of generated.", ge=1)] = None
    mix: Annotated[Sequence[int] | None, Knob("Tokens in the cache of each sequence of a micro-batch, in place of "
                                              "context (phase: decode).", ge=1)] = None
    steps: Annotated[int, Knob("Decode steps in a row (phase: decode).", ge=1)] = 1
    contexts: Annotated[Literal["mean", "each"],
                        Knob("Decode steps of a request: all at the mean context, or each at its own.")] = "mean"
    chunk: Annotated[int | None, Knob("Prompt tokens of one pass of prefill (chunked prefill); left out: all.", ge=1)
                     ] = None
    tp: Annotated[int, Knob("Ranks that divide every layer's heads and matrices.", ge=1)] = 1
    sp: Annotated[int, Knob("Ranks that divide the tokens, and the context in the cache.", ge=1)] = 1
    dp: Annotated[int, Knob("Replicas; each has its share of the batch.", ge=1)] = 1
    pp: Annotated[int, Knob("Pipeline stages.", ge=1)] = 1
    ep: Annotated[int, Knob("Ranks, out of dp, that divide the experts.", ge=1)] = 1
    micro_batches: Annotated[int, Knob("Parts of a replica's sequences that follow each other through the stages.",
                                       ge=1)] = 1
    order: Annotated[str, Knob("Rank order, innermost axis first: megatron (tp-cp-sp-ep-dp-pp), stage "
                               "(dp-tp-sp-cp-ep-pp), or all six axes joined by -.")] = "megatron"
    stage_layers: Annotated[Sequence[int] | None, Knob("Layers of every stage; left out: as even as can be.", ge=1)
                            ] = None
    attention: Annotated[Literal["flash", "unfused"], Knob("Attention as one kernel, or as separate ones.")] = "flash"
    mask: Annotated[Literal["full", "skip"], Knob("Whether kernels skip the scores that the causal (or sliding) mask "
                                                  "hides, or compute all of them.")] = "skip"
    fusion: Annotated[bool, Knob("Neighbouring elementwise operators are one kernel.")] = True
    formats: Annotated[Formats, Knob("Number formats, and sparse weights.")] = Formats()
    compression: Annotated[Compression, Knob("A smaller cache: fewer tokens, fewer layers.")] = Compression()
    speculation: Annotated[Speculation | None, Knob("Speculative decoding; left out: a token per step.")] = None
    uneven: Annotated[Literal["refuse", "pad", "fractional"],
                      Knob("Sizes that do not divide: refused, rounded up, or divided as real numbers (COSMIC).")
                      ] = "refuse"

    @property
    def ranks(self) -> int:
        """Ranks that the parallelisation needs."""
        return self.tp * self.sp * self.dp * self.pp

    @property
    def mesh(self) -> Mesh:
        """Ranks and their coordinates."""
        return mesh_of(self.order, tp=self.tp, sp=self.sp, ep=self.ep, dp=self.dp, pp=self.pp)

    @property
    def lengths(self) -> tuple[int, int]:
        """(tokens of a prompt, decode steps)."""
        if self.use_case is not None:
            case = USE_CASES[self.use_case]
            return case.prompt, case.generated
        return self.prompt or 1, self.generated or 0

    @property
    def sequences(self) -> int:
        """Sequences of one micro-batch of one replica."""
        return self.batch // (self.dp * self.micro_batches)

    @property
    def mean_context(self) -> int:
        """Tokens in the cache at a decode step, where all are alike."""
        prompt, generated = self.lengths
        return prompt + generated // 2 if self.context is None else self.context
