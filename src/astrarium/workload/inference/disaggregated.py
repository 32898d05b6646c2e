"""Prefill and decode on separate ranks: the `workload` section with `source: disaggregated`.

DistServe (arXiv 2401.09670), Splitwise (arXiv 2311.18677). The cache goes from prefill ranks to decode ranks as soon as
a stage has it for a micro-batch: each pair of ranks sends the layers, heads and sequences that both hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Config, ConfigError, Knob, Problem, default
from astrarium.config.named import Named
from astrarium.units import Time
from astrarium.workload.config import Workload
from astrarium.workload.inference.config import Inference, Operators, Speculation
from astrarium.workload.inference.formats import Compression, Formats
from astrarium.workload.inference.retrieval import Retrieval
from astrarium.workload.inference.spread import Exchange, expert_parts
from astrarium.workload.inference.use_cases import USE_CASES
from astrarium.workload.model.base import Model, cache_of
from astrarium.workload.routing import Routing

__all__ = ["Disaggregated", "Pool"]

Rules = tuple[Callable[[Any], Iterable[Problem]], ...]


class Pool(Config, frozen=True, kw_only=True):
    """Ranks of one phase: workers * tp * dp * pp of them."""

    workers: Annotated[int, Knob("Engines, each with its own experts and dp replicas.", ge=1)] = 1
    tp: Annotated[int, Knob("Ranks that divide every layer's heads and matrices.", ge=1)] = 1
    dp: Annotated[int, Knob("Replicas of a worker; each has its share of the batch.", ge=1)] = 1
    pp: Annotated[int, Knob("Pipeline stages.", ge=1)] = 1
    ep: Annotated[int, Knob("Ranks, out of tp x dp, that divide the experts.", ge=1)] = 1
    moe_tp: Annotated[int | None, Knob("Ranks, out of tp x dp, that divide every expert; left out: tp where dp is a "
                                       "multiple of ep, else tp x dp / ep.", ge=1)] = None
    exchange: Annotated[Exchange, Knob("How tokens of several dp ranks get to their experts.")] = "all_to_all"
    redundant_experts: Annotated[int, Knob("Copies of the busiest experts, spread over ep (EPLB).", ge=0)] = 0
    micro_batches: Annotated[int, Knob("Parts of a replica's sequences that follow each other.", ge=1)] = 1
    stage_layers: Annotated[Sequence[int] | None, Knob("Layers of every stage; left out: as even as can be.", ge=1)
                            ] = None

    @property
    def ranks(self) -> int:
        """Ranks of the pool."""
        return self.workers * self.tp * self.dp * self.pp


def _phases(work: Disaggregated) -> Iterator[Problem]:
    if work.model.generation is not None and cache_of(work.model) is None:
        yield Problem("model", "has a state and no cache, and only caches are sent here", "a decoder")
    for field in ("prefill", "decode"):
        try:
            work.phase(field)
        except ConfigError as error:
            for problem in error.problems:
                path = problem.path.removeprefix("Inference.")
                own = path.partition(".")[0] in Pool.__struct_fields__
                yield Problem(f"{field}.{path}" if own else path, problem.message, problem.expected,
                              problem.did_you_mean)
            if field == "prefill":
                return


class Disaggregated(Workload, frozen=True, kw_only=True):
    """Requests of a batch that start together: prefill on some ranks, decode on others, the cache sent in between.

    Ranks: first those of prefill, then those of decode, then the servers of retrieval.
    """

    tag: ClassVar[str] = "disaggregated"
    rules: ClassVar[Rules] = (_phases,)
    model: Annotated[Named[Model], Knob("The model: a name of the catalog, a Hugging Face config.json, or a "
                                           "family with its sizes.")]
    prefill: Annotated[Pool, Knob("Ranks that work on prompts.")]
    decode: Annotated[Pool, Knob("Ranks that generate.")]
    retrieval: Annotated[Retrieval | None, Knob("A vector search before prefill; left out: none.")] = None
    batch: Annotated[int, Knob("Sequences, over all replicas.", ge=1)] = 1
    use_case: Annotated[str | None, Knob("Named lengths of prompt and answer, in place of prompt and generated.",
                                         choices=tuple(USE_CASES))] = None
    prompt: Annotated[int | None, Knob("Tokens of a prompt.", ge=1)] = None
    generated: Annotated[int | None, Knob("Decode steps.", ge=1)] = None
    contexts: Annotated[Literal["mean", "each"],
                        Knob("Decode steps: all at the mean context, or each at its own.")] = "mean"
    chunk: Annotated[int | None, Knob("Prompt tokens of one pass of prefill; left out: all.", ge=1)] = None
    routing: Annotated[Routing, Knob("How often tokens choose each expert.")] = Routing()
    attention: Annotated[Literal["flash", "flash_2", "unfused"], Knob(
        "Attention as one kernel (prompts and decoding sequences apart), or as separate ones. flash_2: together with "
        "prompts, decoding sequences are rows of the prompts' kernel, a tile each.")] = "flash"
    mask: Annotated[Literal["full", "skip"], Knob("Whether kernels skip the scores that the mask hides.")] = "skip"
    fusion: Annotated[bool | Literal["engine", "engine_norms"], Knob(
        "true: neighbouring elementwise operators are one kernel; engine: kernels as in serving engines, a layer of "
        "experts in one; engine_norms: norms behind an all_reduce are part of its kernel, too.")] = True
    operators: Annotated[Operators, Knob("What runs the operators of a layer: see Inference.")] = "fused"
    fused_weights: Annotated[bool, Knob("One weight of queries, keys and values, one of gate and up: see Inference.")
                             ] = False
    host_launch: Annotated[Time, Knob("Host time of a kernel: see Inference.", lt=2**42)] = default("0 ns")
    formats: Annotated[Formats, Knob("Number formats, and sparse weights.")] = Formats()
    compression: Annotated[Compression, Knob("A smaller cache: fewer tokens, fewer layers.")] = Compression()
    speculation: Annotated[Speculation | None, Knob("Speculative decoding, on the ranks that generate; the draft's own "
                                                    "prefill is left out. Left out: a token per step.")] = None

    @property
    def ranks(self) -> int:
        """Ranks of all pools."""
        return self.prefill.ranks + self.decode.ranks + (self.retrieval.servers if self.retrieval else 0)

    def phase(self, name: Literal["prefill", "decode"] | str) -> Inference:
        """One of the pools as a separate workload; decode's also has the prefill that others do."""
        pool = self.prefill if name == "prefill" else self.decode
        prefills = name == "prefill"
        parts = pool.moe_tp if pool.workers == 1 else expert_parts(pool.tp, pool.dp, pool.ep, pool.moe_tp)
        return Inference(
            self.model, batch=self.batch, use_case=self.use_case, prompt=self.prompt, generated=self.generated,
            phase="prefill" if prefills else "request", contexts="mean" if prefills else self.contexts,
            chunk=self.chunk if prefills else None, tp=pool.tp, dp=pool.workers * pool.dp, pp=pool.pp, ep=pool.ep,
            moe_tp=parts, exchange=pool.exchange, redundant_experts=pool.redundant_experts, routing=self.routing,
            micro_batches=pool.micro_batches, stage_layers=pool.stage_layers, attention=self.attention, mask=self.mask,
            fusion=self.fusion, operators=self.operators, fused_weights=self.fused_weights,
            host_launch=self.host_launch, formats=self.formats, compression=self.compression,
            speculation=None if prefills else self.speculation)
