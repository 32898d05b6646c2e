"""Inference of a model under a parallelisation: the `workload` section with `source: inference`.

The rules say what is legal between its fields, each with the nearest values that would be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Config, ConfigError, Knob, Problem, default
from astrarium.config.named import Named
from astrarium.errors import InputError
from astrarium.units import Time
from astrarium.workload.config import Workload
from astrarium.workload.divisors import divides
from astrarium.workload.inference.formats import Compression, Formats, resolved
from astrarium.workload.inference.spread import Exchange, expert_parts, routing_rules, spread_rules
from astrarium.workload.inference.use_cases import USE_CASES
from astrarium.workload.mesh import Mesh, mesh_of, parse_order
from astrarium.workload.model.base import Model, Split, cache_of, with_layers
from astrarium.workload.routing import Routing

__all__ = ["CONDITIONS", "Inference", "Operators", "Speculation"]

Rules = tuple[Callable[[Any], Iterable[Problem]], ...]
Operators = Literal["fused", "eager", "compiled"]
MOST = 2_000_000        # blocks that one program runs


def _model(work: Inference) -> Iterator[Problem]:
    yield from _layouts(work.model, Split(
        tp=work.tp, sp=work.sp, pp=work.pp, ep=work.ep, moe_tp=work.expert_parts,
        redundant=work.redundant_experts, even=work.uneven == "refuse",
        compressed=work.compression != Compression()))


def _layouts(model: Model, split: Split, *, draft: bool = False) -> Iterator[Problem]:
    """What a model asks of a layout; a draft has a cache."""
    if model.generation is None or (draft and cache_of(model) is None):
        yield Problem("model", f"{type(model).__name__} generates no tokens with a cache", "a decoder")
        return
    yield from model.generation.rules(model, split)


def _experts(work: Inference) -> Iterator[Problem]:
    yield from spread_rules(work.model, work.tp, work.dp, work.ep, work.moe_tp, work.exchange)
    yield from routing_rules(work.model, work.routing, work.redundant_experts)


def _formats(work: Inference) -> Iterator[Problem]:
    try:
        resolved(work.formats, work.model.checkpoint)
    except ConfigError as error:
        yield from (Problem(f"formats.{each.path.rpartition('.')[2]}", each.message, each.expected) for each in
                    error.problems)


def _operators(work: Inference) -> Iterator[Problem]:
    if work.operators != "fused" and work.fusion is not True:
        yield Problem("fusion", f"{work.fusion} has no effect with operators: {work.operators}",
                      "operators: fused, or fusion: true (the stack may have set it)")
    if work.fused_weights and work.operators == "fused":
        yield Problem("fused_weights", "has no effect with operators: fused", "operators: eager or compiled")


def _order(work: Inference) -> Iterator[Problem]:
    try:
        parse_order(work.order)
    except InputError as error:
        yield Problem("order", error.message, error.expected)


def _lengths(work: Inference) -> Iterator[Problem]:
    if work.use_case is not None:
        for field in ("prompt", "generated"):
            if getattr(work, field) is not None:
                yield Problem(field, "has no effect together with use_case", f"no {field}, or no use_case")
        return
    known = work.phase == "decode" and (work.context is not None or work.mix is not None)
    if work.prompt is None and not known:
        yield Problem("prompt", "is missing", "tokens of a prompt, or a use_case")
    if work.generated is None and work.phase != "prefill" and not known:
        yield Problem("generated", "is missing", "decode steps, or a use_case")


def _phases(work: Inference) -> Iterator[Problem]:
    for field, given, phases in (("context", work.context is not None, ("decode",)),
                                 ("mix", work.mix is not None, ("decode",)),
                                 ("steps", work.steps != 1, ("decode",)),
                                 ("contexts", work.contexts != "mean", ("request",)),
                                 ("chunk", work.chunk is not None, ("prefill", "request"))):
        if given and work.phase not in phases:
            yield Problem(field, f"has no effect with phase: {work.phase}", "phase: " + " or ".join(phases))


def _batch(work: Inference) -> Iterator[Problem]:
    if work.batch % (work.dp * work.micro_batches):
        unit = work.dp * work.micro_batches
        low, high = work.batch // unit * unit, -(-work.batch // unit) * unit
        yield Problem("batch", f"{work.batch} is not a multiple of dp x micro_batches = {unit}",
                      f"{low} or {high}" if low else f"{high}")


def _mix(work: Inference) -> Iterator[Problem]:
    """Check that there are as many contexts as sequences, and no other field for them."""
    if work.mix is None:
        return
    if work.context is not None:
        yield Problem("context", "has no effect together with mix", "no context, or no mix")
    if work.speculation is not None:
        yield Problem("mix", "is not for speculation", "one context")
    if len(work.mix) != work.sequences:
        yield Problem("mix", f"names {len(work.mix)} sequences", f"{work.sequences}: batch / (dp * micro_batches)")


def _tokens(work: Inference) -> Iterator[Problem]:
    """sp divides the tokens of every pass."""
    if work.uneven != "refuse" or work.sp == 1 or work.batch % (work.dp * work.micro_batches):
        return
    passes, (prompt, _) = [], work.lengths
    batch = f"{work.batch} sequences" + (f" on {work.dp} ranks of dp" if work.dp > 1 else "") + (
        f" in {work.micro_batches} micro-batches" if work.micro_batches > 1 else "")
    if work.phase != "decode":
        size = min(work.chunk or prompt, prompt)
        passes += [(work.sequences * size, f"a prefill (batch: {batch}, {size} tokens each)"),
                   (work.sequences * (prompt % size), f"the last chunk (batch: {batch}, {prompt % size} tokens each)")]
    if work.phase != "prefill":
        passes.append((work.sequences, f"a decode step (batch: {batch}, a token each)"))
    for tokens, name in passes:
        if tokens % work.sp:
            for problem in divides("sp", work.sp, tokens, f"tokens of {name}"):
                yield Problem("sp", problem.message, f"{problem.expected}, another batch, or uneven: pad or fractional")
            return


def _layers(work: Inference) -> Iterator[Problem]:
    model, cache, share = with_layers(work.model), cache_of(work.model), work.compression.share
    layers = model.layers if model is not None else None
    if work.stage_layers is not None and (len(work.stage_layers) != work.pp or sum(work.stage_layers) != layers):
        yield Problem("stage_layers", f"{len(work.stage_layers)} numbers, {sum(work.stage_layers)} in all",
                      f"pp ({work.pp}) numbers, {layers} in all")
    if layers is None or cache is None or share == 1:
        return
    if layers % share:
        yield from divides("compression.share", share, layers, "layers")
        return
    if any(cache.sight(index) != cache.sight(index - index % share) for index in range(layers)):
        yield Problem("compression.share", "layers with and without a window cannot share a cache", "1")
    even = [layers // work.pp] * work.pp
    for count in work.stage_layers or even:
        if count % share or (layers % work.pp and work.stage_layers is None):
            yield Problem("compression.share", "layers that share a cache would be on two stages",
                          f"stages of a multiple of {share} layers")
            return


def _speculation(work: Inference) -> Iterator[Problem]:
    if work.speculation is None:
        return
    if work.pp > 1:
        yield Problem("pp", "the draft would wait for the last stage at every token", "1, with speculation")
    if work.phase == "prefill":
        yield Problem("speculation", "has no effect with phase: prefill", "phase: decode or request")
    draft = work.speculation.draft
    if isinstance(draft, str):
        yield from _module(work)
        return
    for problem in _layouts(draft, Split(work.tp, even=work.uneven == "refuse"), draft=True):
        yield problem.under("speculation.draft") if problem.path == "model" else problem


def _module(work: Inference) -> Iterator[Problem]:
    """What forbids the model's own module as a draft."""
    if work.model.generation is not None and not work.model.generation.predicts:
        yield Problem("speculation.draft", f"{type(work.model).__name__} has no module for multi-token prediction",
                      "a draft model")
    if work.compression.share > 1:
        yield Problem("compression.share", "a module's layer has a separate cache", "1, with speculation.draft: mtp")


def _size(work: Inference) -> Iterator[Problem]:
    model, generated = with_layers(work.model), work.lengths[1]
    layers = model.layers if model is not None else 1
    rounds = {"prefill": 0, "decode": work.steps, "request": generated}[work.phase]
    chunks = 0 if work.phase == "decode" else -(-work.lengths[0] // (work.chunk or work.lengths[0]))
    if (rounds + chunks) * work.micro_batches * layers > MOST:
        yield Problem("phase", f"{rounds + chunks} passes of {work.micro_batches} micro-batches by {layers} layers "
                      "are too many to simulate one by one", "phase: prefill and decode, added up")


RULES: Rules = (
    _model, _experts, _formats, _operators, _order, _lengths, _phases, _batch, _mix, _tokens, _layers, _speculation,
    _size)

WHOLE = "workload.uneven != 'refuse' or"

CONDITIONS = (
    ("workload.tp * workload.dp % workload.ep == 0",),
    (f"{WHOLE} workload.model.heads % workload.tp == 0",),
    (f"{WHOLE} workload.model.ffn % workload.tp == 0",),
    (f"{WHOLE} (workload.model.moe.experts + workload.redundant_experts) % workload.ep == 0",),
    ("workload.batch % (workload.dp * workload.micro_batches) == 0",),
    ("system.placement != 'identity' or "
     "workload.dp * workload.tp * workload.sp * workload.pp == network.npus",),
)
"""The rules that need only numbers and names, as conditions on the paths of a design, for spaces. Each entry is a
condition, then others to use if a name of it does not apply."""


class Speculation(Config, frozen=True, kw_only=True):
    """Speculative decoding (arXiv 2211.17192): a draft model guesses tokens, the model verifies all of them at once."""

    draft: Annotated[Literal["mtp"] | Named[Model],
                     Knob("The draft model, on the same ranks; mtp: the model's own module for multi-token prediction, "
                          "a layer like its last, with the model's embedding and head (DeepSeek-V3).")]
    tokens: Annotated[int, Knob("Tokens that the draft guesses before each verification.", ge=1, lt=65)]
    acceptance: Annotated[float, Knob("Probability that a guessed token is accepted.", ge=0, lt=1.0000001)]


class Inference(Workload, frozen=True):
    """Prefill, decode, or whole requests of a batch of sequences that start together.

    Axes: ranks = tp * sp * dp * pp. tp divides heads and matrices (key and value heads that are fewer than tp are
    copied), sp the tokens and the context of every sequence, dp the sequences, pp the layers. Experts lie on the ranks
    of tp and dp: on `ep` of them different ones, on `moe_tp` of them parts of the same ones.
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
    ep: Annotated[int, Knob("Ranks, out of tp x dp, that divide the experts.", ge=1)] = 1
    moe_tp: Annotated[int | None, Knob("Ranks, out of tp x dp, that divide every expert (moe_tp_size); left out: tp "
                                       "where dp is a multiple of ep, else tp x dp / ep.", ge=1)] = None
    exchange: Annotated[Exchange, Knob("How tokens of several dp ranks get to their experts: all_gather brings every "
                                       "rank all tokens and scatters their sums (as is always done where dp ranks have "
                                       "parts of an expert); all_to_all and deepep_low_latency send a token to each of "
                                       "its experts, the others once to each rank that has some.")] = "all_to_all"
    redundant_experts: Annotated[int, Knob("Copies of the busiest experts, spread over ep (EPLB).", ge=0)] = 0
    routing: Annotated[Routing, Knob("How often tokens choose each expert.")] = Routing()
    micro_batches: Annotated[int, Knob("Parts of a replica's sequences that follow each other through the stages.",
                                       ge=1)] = 1
    order: Annotated[str, Knob("Rank order, innermost axis first: megatron (tp-cp-sp-ep-dp-pp), stage "
                               "(dp-tp-sp-cp-ep-pp), or all six axes joined by -.")] = "megatron"
    stage_layers: Annotated[Sequence[int] | None, Knob("Layers of every stage; left out: as even as can be.", ge=1)
                            ] = None
    attention: Annotated[Literal["flash", "flash_2", "unfused"], Knob(
        "Attention as one kernel (prompts and decoding sequences apart), or as separate ones. flash_2: together with "
        "prompts, decoding sequences are rows of the prompts' kernel, a tile each.")] = "flash"
    mask: Annotated[Literal["full", "skip"], Knob("Whether kernels skip the scores that the causal (or sliding) mask "
                                                  "hides, or compute all of them.")] = "skip"
    fusion: Annotated[bool | Literal["engine", "engine_norms"], Knob(
        "true: neighbouring elementwise operators are one kernel; engine: kernels as in serving engines, a layer of "
        "experts in one; engine_norms: norms behind an all_reduce are part of its kernel, too.")] = True
    formats: Annotated[Formats, Knob("Number formats, and sparse weights.")] = Formats()
    compression: Annotated[Compression, Knob("A smaller cache: fewer tokens, fewer layers.")] = Compression()
    speculation: Annotated[Speculation | None, Knob("Speculative decoding; left out: a token per step.")] = None
    uneven: Annotated[Literal["refuse", "pad", "fractional"],
                      Knob("Sizes that do not divide: refused, rounded up, or divided as real numbers (COSMIC).")
                      ] = "refuse"
    operators: Annotated[Operators, Knob(
        "What runs the operators of a layer: kernels as `fusion` says; eager: what PyTorch launches one by one; "
        "compiled: what it launches for layers that torch.compile compiled, each alone.")] = "fused"
    fused_weights: Annotated[bool, Knob("Where PyTorch runs them: queries, keys and values have one weight, gate and "
                                        "up another.")] = False
    host_launch: Annotated[Time, Knob("Host time of a kernel (Python, dispatch, launch): a pass takes at least that of "
                                      "all kernels of its stage. None in a CUDA graph.", lt=2**42)] = default("0 ns")

    @property
    def ranks(self) -> int:
        """Ranks that the parallelisation needs."""
        return self.tp * self.sp * self.dp * self.pp

    @property
    def mesh(self) -> Mesh:
        """Ranks and their coordinates."""
        return mesh_of(self.order, tp=self.tp, sp=self.sp, ep=self.ep, dp=self.dp, pp=self.pp,
                       moe_tp=self.expert_parts)

    @property
    def expert_parts(self) -> int:
        """Ranks that divide every expert."""
        return expert_parts(self.tp, self.dp, self.ep, self.moe_tp)

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
        """Mean number of tokens in the cache at a decode step."""
        prompt, generated = self.lengths
        return prompt + generated // 2 if self.context is None else self.context
