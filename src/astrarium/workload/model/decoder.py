"""Decoder-only transformers: GPT and LLaMA styles, any attention, sliding windows, mixture of experts.

The parts that only some decoders have are modules of their own, with their fields, operators and parameters: latent
attention, the indexer of sparse attention, gated delta nets, experts, modules for prediction. Hugging Face's many
decoders are read in `hugging_face_decoders` and `hugging_face_experts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from msgspec.structs import replace

from astrarium.config import Knob, Problem
from astrarium.errors import UnsupportedError
from astrarium.workload.divisors import divides
from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, add, gather, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.base import Cache, Count, Counts, Generation, Model, Split
from astrarium.workload.model.cached import (
    LayerKind,
    cache_axes,
    cache_sizes,
    cached_core,
    kv_heads,
    sparse,
    states_of,
)
from astrarium.workload.model.delta_net import DeltaNet, delta_axes, delta_counts, delta_ops, delta_sizes, delta_widths
from astrarium.workload.model.experts import (
    Experts,
    expert_axes,
    expert_ops,
    expert_rules,
    expert_sizes,
    expert_weights,
)
from astrarium.workload.model.hugging_face_decoders import DECODERS
from astrarium.workload.model.hugging_face_experts import EXPERTS
from astrarium.workload.model.hugging_face_keys import Readers
from astrarium.workload.model.indexer import INDEX_LOSS, Indexer, index_counts, index_sizes
from astrarium.workload.model.language_head import language_head
from astrarium.workload.model.latent import Latent, latent_counts, latent_heads, latent_sizes, latent_states
from astrarium.workload.model.parameters import ffn_count, linear_count
from astrarium.workload.model.parts import ACTIVATION, INSIDE, NORM, STREAM, block, core, dropped, ffn, linear, norm
from astrarium.workload.model.prediction import prediction_block

__all__ = ["Decoder"]

STATISTICS = ("index_loss", "q_squares", "k_squares", "d.q_squares", "d.k_squares")


def _decoder_rules(model: Decoder) -> Iterator[Problem]:
    if model.groups > model.heads:
        yield Problem("kv_heads", f"{model.groups} is more than {model.heads} heads", f"1 to {model.heads}")
    elif model.heads % model.groups:
        legal = ", ".join(str(n) for n in range(1, model.heads + 1) if model.heads % n == 0)
        yield Problem("kv_heads", f"{model.groups} does not divide {model.heads} heads", f"one of {legal}")
    if model.mla is not None and model.kv_heads is not None:
        yield Problem("kv_heads", "means nothing with mla", "no kv_heads")
    if model.mla is not None and model.head_size is not None:
        yield Problem("head_size", "means nothing with mla", "no head_size")
    if model.mla is not None and "qkv" in model.biases:
        yield Problem("biases", "qkv means nothing with mla", "out, mlp or neither")
    if model.positions == "learned" and model.max_positions is None:
        yield Problem("max_positions", "is missing", "the length of the learned position table")
    if model.window is None and model.delta is None and model.full_every:
        yield Problem("full_every", "means nothing without window or delta", "one of them, or 0")
    if model.window is not None and model.delta is not None:
        yield Problem("window", "means nothing with delta", "no window")
    if model.sparse is not None and (model.mla is None or model.mla.q_rank is None):
        yield Problem("sparse", "needs mla with q_rank, from which the indexer makes its queries", "both, or neither")
    if model.sparse is not None and model.sparse.layers is not None and 0 not in model.sparse.layers:
        yield Problem("sparse.layers", "the first layer has no layer before it that chooses", "0 among them")
    if model.sparse is not None and model.window is not None:
        yield Problem("sparse", "means nothing with window", "one of the two")
    if model.gated_heads and model.mla is not None:
        yield Problem("gated_heads", "means nothing with mla", "false")
    if model.moe is not None and model.moe.dense_layers > model.layers:
        yield Problem("moe.dense_layers", f"{model.moe.dense_layers} is more than {model.layers} layers",
                      f"0 to {model.layers}")


def _layouts(model: Decoder, split: Split) -> Iterator[Problem]:
    """What forbids a layout of inference."""
    if split.pp > model.layers:
        yield Problem("pp", f"{split.pp} stages of {model.layers} layers", f"at most {model.layers}")
    if split.ep > 1 and model.moe is None:
        yield Problem("ep", f"{split.ep}, but the model has no experts", "1")
    if split.even:
        yield from _even(model, split)


def _even(model: Decoder, split: Split) -> Iterator[Problem]:
    tp = split.tp
    yield from divides("tp", tp, model.heads, "heads")
    if model.mla is None and model.groups % tp and tp % model.groups:
        yield Problem("tp", f"{tp} neither divides {model.groups} key and value heads nor is a multiple of them",
                      f"a divisor or a multiple of {model.groups}")
    yield from divides("tp", tp, model.ffn, "(ffn)")
    if model.moe is not None:
        yield from expert_rules(model.moe.experts, split)
        yield from divides("moe_tp", split.moe_tp, model.moe.expert_ffn or model.ffn, "(expert_ffn)")


def _cache(model: Decoder) -> Cache:
    return Cache(heads=1 if model.mla is not None else model.groups, sight=lambda index: model.layer(index).window)


class Decoder(Model, frozen=True, kw_only=True):
    """A decoder-only transformer. The defaults are LLaMA's; GPT's differ in six fields."""

    tag: ClassVar[str] = "decoder"
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_decoder_rules,)
    generation: ClassVar[Generation | None] = Generation(_layouts, _cache)
    unstated: ClassVar[Mapping[str, Any]] = MappingProxyType({"seq": None})
    layers: Annotated[int, Knob("Layers.", ge=1, lt=100_001)]
    d_model: Annotated[int, Knob("Length of a token's vector.", ge=1)]
    heads: Annotated[int, Knob("Query heads of a layer.", ge=1, lt=65_537)]
    kv_heads: Annotated[int | None, Knob("Key and value heads (MHA: heads, MQA: 1, GQA: between); left out: heads.",
                                         ge=1)] = None
    head_size: Annotated[int | None, Knob("Length of a head's vectors; left out: d_model / heads.", ge=1)] = None
    ffn: Annotated[int, Knob("Inner size of the FFN.", ge=1)]
    gated: Annotated[bool, Knob("The FFN has a gate (SwiGLU): three matrices instead of two.")] = True
    activation: Annotated[Literal["silu", "gelu", "relu"], Knob("Activation of the FFN.")] = "silu"
    vocab: Annotated[int, Knob("Tokens of the vocabulary, with padding.", ge=1)]
    tied_embeddings: Annotated[bool, Knob("The head is the embedding, transposed.")] = False
    embedding_norm: Annotated[bool, Knob("A norm behind the embedding (BLOOM).")] = False
    seq: Annotated[int | None, Knob("Context length of training; null (an imported model): workload.seq says it.",
                                    ge=1)] = 2048
    positions: Annotated[Literal["learned", "rotary", "alibi", "none"], Knob("How a token knows its place.")] = "rotary"
    max_positions: Annotated[int | None, Knob("Length of the learned position table.", ge=1)] = None
    norm: Annotated[Literal["rms", "layer"], Knob("RMS norm (scale), or layer norm (scale and offset).")] = "rms"
    rotary_share: Annotated[float, Knob("Part of a head that rotary positions turn.", gt=0, lt=1.0000001)] = 1.0
    qk_norm: Annotated[bool, Knob("A norm over queries and keys (Qwen3).")] = False
    qk_norm_scale: Annotated[Literal["head", "all", "none"],
                             Knob("Its scale: one for all heads, one for every number of all heads (MiniMax-M2), none "
                                  "(Llama 4).")] = "head"
    gated_heads: Annotated[bool, Knob("A gate, made of the input, over what the heads give (Qwen3-Next).")] = False
    sinks: Annotated[bool, Knob("A learned score per head that softmax sees besides (gpt-oss).")] = False
    parallel: Annotated[bool, Knob("Attention and FFN side by side on one input (GPT-NeoX), not in a row.")] = False
    biases: Annotated[Sequence[Literal["qkv", "out", "mlp", "head"]],
                      Knob("Linear layers with an offset: query, key and value; attention's output; FFN; head.")] = ()
    window: Annotated[int | None, Knob("Tokens that a token looks back (itself included); left out: all.", ge=1)] = None
    window_kind: Annotated[Literal["sliding", "chunked"],
                           Knob("chunked: a token looks back to the last multiple of window (Llama 4).")] = "sliding"
    full_every: Annotated[int, Knob("With a window, or with delta: every k-th layer looks at all tokens; 0: none.",
                                    ge=0)] = 0
    delta: Annotated[DeltaNet | None, Knob("Gated delta net in place of attention (but for full_every).")] = None
    mla: Annotated[Latent | None, Knob("Latent attention; left out: ordinary heads.")] = None
    sparse: Annotated[Indexer | None, Knob("Sparse attention by an indexer; left out: queries see all.")] = None
    moe: Annotated[Experts | None, Knob("Mixture of experts; left out: FFNs.")] = None
    mtp: Annotated[int, Knob("Modules for multi-token prediction (DeepSeek-V3), trained beside the head; inference "
                             "leaves them out.", ge=0, lt=65)] = 0

    @property
    def groups(self) -> int:
        """Key and value heads."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def head(self) -> Fraction:
        """Length of a head's vectors; not whole where heads do not divide d_model (5140 / 40 = 257/2)."""
        return Fraction(self.d_model, self.heads) if self.head_size is None else Fraction(self.head_size)

    @property
    def attention(self) -> Literal["mha", "gqa", "mqa", "mla"]:
        """The kind of attention, by its common name."""
        if self.mla is not None:
            return "mla"
        return "mha" if self.groups == self.heads else "mqa" if self.groups == 1 else "gqa"

    def layer(self, index: int) -> LayerKind:
        """What layer `index` (from 0) is."""
        moe = self.moe
        routed = moe is not None and index >= moe.dense_layers and (index - moe.dense_layers + 1) % moe.every == 0
        full = self.full_every > 0 and (index + 1) % self.full_every == 0
        indexers = None if self.sparse is None else self.sparse.layers
        return LayerKind(routed, None if full else self.window, self.delta is not None and not full,
                         indexers is None or index in indexers)

    def ep_units(self) -> int | None:
        """Experts of a layer, which ep divides; None: the model has none."""
        return None if self.moe is None else self.moe.experts

    def stack(self, options: Options) -> Stack:
        """The blocks of a decoder; layers that are alike are one block."""
        share = options.packed.share if options.packed else 1
        kinds = [(self.layer(index), index % share == 0) for index in range(self.layers)]
        distinct = list(dict.fromkeys(kinds))
        number = {kind: 1 + place for place, kind in enumerate(distinct)}
        head = language_head(options, norm_kind=self.norm, tied=self.tied_embeddings, bias="head" in self.biases)
        layers = tuple(_layer(self, kind, options, owner=owner) for kind, owner in distinct)
        blocks = (_embedding(self, options), *layers, head)
        if options.packed is not None:
            blocks = tuple(sparse(block, options.packed.density) for block in blocks)
        last: tuple[int, ...] = (len(blocks) - 1,) if options.packed is None or options.packed.sampled else ()
        if self.mtp and options.packed is None:
            kind = self.layer(self.layers - 1)
            module = prediction_block(self.norm, _layer(self, kind, options, owner=True), head)
            last = (*range(len(blocks), len(blocks) + self.mtp), *last)
            blocks += tuple(replace(module, name=f"{module.name}{depth}") for depth in range(1, self.mtp + 1))
        sizes: dict[str, Size] = {
            "d": self.d_model, "heads": self.heads, "kv_heads": kv_heads(self.groups, options), "head": self.head,
            "ffn": self.ffn, "vocab": self.vocab, "positions": self.max_positions or 1,
            **latent_sizes(self.mla, self.d_model), **expert_sizes(self.moe, self.ffn, options),
            **cache_sizes(self.window if self.sparse is None else self.sparse.top_k, options),
            **delta_sizes(self.delta, options), **index_sizes(self.sparse)}
        return Stack(blocks, (0,), tuple([number[kind] for kind in kinds]), last, sizes,
                     {**expert_axes(options), **cache_axes(options), **delta_axes()},
                     tied=frozenset({"embedding"} if self.tied_embeddings or len(last) > 1 else ()))

    def counts(self) -> Counts:
        """Parameters by part; a token uses top_k of the routed experts, and no module for prediction."""
        moe, norm = self.moe, self.d_model * (2 if self.norm == "layer" else 1)
        kinds = [self.layer(index) for index in range(self.layers)]
        routed = sum(kind.moe for kind in kinds)
        mixed = [delta_counts(self.delta, self.d_model) if kind.delta and self.delta else _attention_counts(self, kind)
                 for kind in kinds]
        ffn = ffn_count(self.d_model, self.ffn, gated=self.gated, bias="mlp" in self.biases)
        parts: dict[str, Count] = {
            "embedding": self.vocab * self.d_model,
            "positions": (self.max_positions or 0) * self.d_model if self.positions == "learned" else 0,
            "attention": sum(matrices for matrices, _ in mixed),
            "ffn": (self.layers - routed) * ffn,
            "norms": sum(2 * norm + inner for _, inner in mixed) + norm * (2 if self.embedding_norm else 1),
            "head": linear_count(0 if self.tied_embeddings else self.d_model, self.vocab, "head" in self.biases),
        }
        last = kinds[-1]
        module = sum(mixed[-1]) + 2 * norm + 3 * norm + 2 * self.d_model**2 + (0 if last.moe else ffn)
        if moe is None:
            parts["mtp"] = self.mtp * module
            return parts, parts["mtp"]
        expert = ffn_count(self.d_model, moe.expert_ffn or self.ffn, gated=self.gated, bias="mlp" in self.biases)
        experts = (moe.experts + moe.shared_experts) * expert
        router = moe.experts * (self.d_model + moe.router_bias) + (self.d_model if moe.shared_gate else 0)
        parts |= {"experts": routed * experts, "router": routed * router,
                  "mtp": self.mtp * (module + (experts + router if last.moe else 0))}
        return parts, routed * (moe.experts - moe.top_k) * expert + parts["mtp"]

    @staticmethod
    def readers() -> Readers:
        """Values of `model_type` in a Hugging Face config.json."""
        return {**DECODERS, **EXPERTS}


def _attention_counts(model: Decoder, kind: LayerKind) -> tuple[Count, Count]:
    """Parameters of (matrices, norms) of one layer's attention."""
    if model.mla is not None:
        matrices, norms = latent_counts(model.mla, model.d_model, model.heads, bias="out" in model.biases)
        more = (0, 0)
        if model.sparse is not None and kind.indexes:
            more = index_counts(model.sparse, model.d_model, model.mla.q_rank or 0)
        return matrices + more[0], norms + more[1]
    query, keys = model.heads * model.head, model.groups * model.head
    made = query * (2 if model.gated_heads else 1)
    matrices = linear_count(model.d_model, made + 2 * keys, "qkv" in model.biases) + (model.heads if model.sinks else 0)
    every: Mapping[str, Count] = {"head": 2 * model.head, "all": query + keys, "none": 0}
    scales = every[model.qk_norm_scale] if model.qk_norm else 0
    return matrices + linear_count(query, model.d_model, "out" in model.biases), scales


def _layer(model: Decoder, kind: LayerKind, options: Options, *, owner: bool) -> Block:
    """Norm, attention, residual; norm, FFN, residual. `owner`: of layers that share a cache, the one that makes it."""
    ops: list[Op] = []
    weights: dict[str, str] = {}
    states: dict[str, str] = {}
    ops.append(norm(model.norm, "norm1", "x", "h", weights))
    ops += _mixer(model, kind, options, weights, states, owner=owner)
    mixer = frozenset(weights)
    kept = dropped(options, ops, "a", "dropout1")
    source = "x" if model.parallel else "r"
    ops.append(add("residual1", f"x{STREAM} + {kept}{STREAM} -> r{STREAM}"))
    ops.append(norm(model.norm, "norm2", source, "g", weights))
    inner: dict[str, Any] = {"gated": model.gated, "activation": model.activation, "bias": "mlp" in model.biases}
    ops += expert_ops(model.moe, options, weights, **inner) if kind.moe and model.moe else ffn(weights, **inner)
    kept = dropped(options, ops, "f", "dropout2")
    ops.append(add("residual2", f"r{STREAM} + {kept}{STREAM} -> y{STREAM}"))
    found = block(_name(kind, owner), ops, weights, states=states, experts=expert_weights(weights), attention=mixer,
                  widths={"choice": "index", "chosen": "index", **dict.fromkeys(STATISTICS, "stats"),
                          **(delta_widths(model.delta, options) if kind.delta and model.delta else {})})
    learns = model.sparse is not None and options.packed is None and kind.indexes
    return replace(found, losses=(INDEX_LOSS,)) if learns else found


def _mixer(model: Decoder, kind: LayerKind, options: Options, weights: dict[str, str], states: dict[str, str], *,
           owner: bool) -> list[Op]:
    """From h to what the layer adds to the stream, a: a delta net, or attention."""
    if kind.delta and model.delta:
        ops, heads, size, result = delta_ops(model.delta, options, weights, states), "v_heads", "v_size", "o"
    else:
        ops, heads, size, result = _heads(model, kind, options, weights, owner=owner), "heads", "head", "o"
        size = size if model.mla is None else "v_size"
        if model.gated_heads:
            dims, result = f"[batch,seq,{heads},{size}]", "og"
            ops.insert(0, linear("head_gate", f"h{INSIDE}", f"d,{heads},{size}", f"hg{dims}", weights,
                                 bias="qkv" in model.biases))
            ops.append(point("gated", f"o{dims} + hg{dims} -> og{dims}", ACTIVATION["silu"]))
        if options.packed is not None:
            states |= latent_states(kind, model.sparse) if model.mla else states_of(kind)
    return [*ops, linear("out", f"{result}[batch,seq,{heads},{size}]", f"{heads},{size},d", f"a{INSIDE}", weights,
                         bias="out" in model.biases and not kind.delta)]


def _name(kind: LayerKind, owner: bool) -> str:
    return "_".join([*([] if owner else ["sharing"]), *(["window"] if kind.window is not None else []),
                     *(["delta"] if kind.delta else []), *([] if kind.indexes else ["choice_sharing"]),
                     *(["expert"] if kind.moe else []), "layer"])


def _heads(model: Decoder, kind: LayerKind, options: Options, weights: dict[str, str], *, owner: bool) -> list[Op]:
    """From h to the heads' outputs o."""
    if model.mla is not None:
        return latent_heads(model.mla, model.sparse, kind, options, weights, _work(model, kind, options), owner=owner)
    bias = "qkv" in model.biases
    made = (("q", "heads"), ("k", "kv_heads"), ("v", "kv_heads")) if owner else (("q", "heads"),)
    ops = [linear(name, f"h{INSIDE}", f"d,{heads},head", f"{name}[batch,seq,{heads},head]", weights, bias=bias)
           for name, heads in made]
    names = {"q": "q", "k": "k"}
    for name, heads in made[:2]:
        dims = f"[batch,seq,{heads},head]"
        if model.qk_norm:
            ops += _head_norm(model, options, name, heads, weights)
            names[name] = f"{name}n"
        if model.positions == "rotary":     # two products and a sum; nothing but angles is needed for backward
            ops.append(point(f"rope_{name}", f"{names[name]}{dims} -> {name}r{dims}", 3 * model.rotary_share,
                             saves="nothing"))
            names[name] = f"{name}r"
    q, k = names["q"], names["k"]
    if model.sinks:
        weights["sinks"] = "heads"
    if options.packed is not None:
        _one_chunk(model, kind, options)
        return ops + cached_core(kind, options, q, k, owner=owner)
    return ops + core(options, _work(model, kind, options), q=q, k=k, sinks="sinks" if model.sinks else "")


def _head_norm(model: Decoder, options: Options, name: str, heads: str, weights: dict[str, str]) -> list[Op]:
    """A norm over each head's vector, or over all heads' (`all`: ranks of tp then sum up its squares, a number of fp32
    a token: vLLM, SGLang), with the scale that the model has."""
    dims, scale = f"[batch,seq,{heads},head]", f"{name}_scale"
    if model.qk_norm_scale == "none":
        return [point(f"{name}_norm", f"{name}{dims} -> {name}n{dims}", NORM["rms"] - 1)]
    own = "head" if model.qk_norm_scale == "head" else f"{heads},head"
    weights[scale] = own.replace(",", " ")
    if model.qk_norm_scale == "head" or options.degrees.get("tp", 1) == 1:
        return [point(f"{name}_norm", f"{name}{dims} + {scale}[{own}] -> {name}n{dims}", NORM["rms"])]
    squares = f"{name}_squares[batch,seq]"
    return [point(f"{name}_norm_squares", f"{name}{dims} -> {squares}", 2),
            point(f"{name}_norm", f"{name}{dims} + {squares} + {scale}[{own}] -> {name}n{dims}", NORM["rms"] - 2)]


def _one_chunk(model: Decoder, kind: LayerKind, options: Options) -> None:
    """Refuse chunked attention over more than one chunk: how much of the last one is cached would depend on the place.
    """
    packed = options.packed
    longest = max(part.past + part.new for part in packed.parts) if packed is not None else 0
    if kind.window is not None and model.window_kind == "chunked" and longest > kind.window:
        raise UnsupportedError("workload.model.window_kind", f"chunked attention over {longest} tokens in inference is "
                               "not modelled", expected=f"at most {kind.window} tokens (one chunk)")


def _work(model: Decoder, kind: LayerKind, options: Options) -> float:
    """Share of all scores that is computed: all (`full`), or what the mask leaves (`skip`)."""
    seq = options.seq
    sight = kind.window or (seq if model.sparse is None else model.sparse.top_k)
    window = min(sight, seq)
    if options.mask == "full":
        return window / seq
    if kind.window is not None and model.window_kind == "chunked":
        whole, rest = divmod(seq, window)
        return (whole * window * (window + 1) + rest * (rest + 1)) / (2 * seq**2)
    return (window * (window + 1) / 2 + (seq - window) * window) / seq**2


def _embedding(model: Decoder, options: Options) -> Block:
    weights = {"embedding": "vocab d"}
    ops = [gather("tokens", f"index[batch,seq] * embedding[vocab,d] -> e{INSIDE}")]
    last = "e"
    if model.positions == "learned":
        weights["position"] = "positions d"
        ops.append(gather("place", f"place_index[batch,seq.res] * position[positions,d] -> p{STREAM}"))
        ops.append(add("sum", f"e{STREAM} + p{STREAM} -> s{STREAM}"))
        last = "s"
    if model.embedding_norm:
        ops.append(norm(model.norm, "embedding_norm", last, "n", weights))
        last = "n"
    last = dropped(options, ops, last, "dropout0")
    return block("embedding", ops, weights, start="", end=f"{last}{STREAM}",
                 widths={"index": "index", "place_index": "index"})
