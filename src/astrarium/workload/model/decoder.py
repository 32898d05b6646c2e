"""Decoder-only transformers: GPT and LLaMA styles, any attention, sliding windows, mixture of experts.

The parts that only some decoders have are separate modules, with their fields, operators and parameters: latent
attention, the indexer of sparse attention, gated delta nets, experts, modules for prediction. Hugging Face's many
decoders are read in `hugging_face_decoders` and `hugging_face_experts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from msgspec.structs import replace

from astrarium.config import Knob, Problem
from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, add, gather, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.base import Cache, Counts, Generation, Model
from astrarium.workload.model.cached import LayerKind, cache_axes, cache_sizes, sparse, states_of
from astrarium.workload.model.compressed import Compressed, compressed_axes, compressed_ops, compressed_sizes
from astrarium.workload.model.decoder_counts import decoder_counts
from astrarium.workload.model.decoder_rules import FEEDS, MIXERS, decoder_rules, layout_rules
from astrarium.workload.model.decoder_shape import FullHeads
from astrarium.workload.model.delta_net import DeltaNet, delta_axes, delta_ops, delta_sizes, delta_widths
from astrarium.workload.model.experts import (
    Experts,
    expert_axes,
    expert_ops,
    expert_sizes,
    expert_weights,
    expert_widths,
)
from astrarium.workload.model.head_sizes import head_axes, head_dims, head_sizes
from astrarium.workload.model.heads import head_ops
from astrarium.workload.model.hugging_face_decoders import DECODERS
from astrarium.workload.model.hugging_face_experts import EXPERTS
from astrarium.workload.model.hugging_face_keys import Readers
from astrarium.workload.model.hugging_face_patterns import PATTERNS
from astrarium.workload.model.indexer import INDEX_CACHE, INDEX_LOSS, INDEX_STATE, Indexer, index_sizes
from astrarium.workload.model.language_head import language_head
from astrarium.workload.model.latent import Latent, latent_sizes, latent_states
from astrarium.workload.model.mamba_mixer import MambaMixer, mamba_axes, mamba_ops, mamba_sizes, mamba_widths
from astrarium.workload.model.parts import ACTIVATION, INSIDE, STREAM, block, dropped, ffn, linear, norm
from astrarium.workload.model.prediction import module_stack, prediction_block, renamed
from astrarium.workload.model.streams import STREAMS, collapsed, expanded, stream_sizes, with_streams

__all__ = ["Decoder"]

STATISTICS = ("index_loss", "q_squares", "k_squares", "d.q_squares", "d.k_squares")
RESIDUAL = f"res{STREAM}"


def _cache(model: Decoder) -> Cache:
    def sight(index: int) -> int | None:
        kind = model.layer(index)
        window = model.compressed.window if model.compressed else kind.window
        return window if kind.attends else 1        # a state, or nothing, does not grow

    return Cache(heads=1 if model.mla is not None else model.groups, sight=sight,
                 limit=model.window if model.window_kind == "chunked" else None)


class Decoder(Model, frozen=True, kw_only=True):
    """A decoder-only transformer. The defaults are LLaMA's; GPT's differ in six fields."""

    tag: ClassVar[str] = "decoder"
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (decoder_rules,)
    generation: ClassVar[Generation | None] = Generation(layout_rules, _cache, predicts=True)
    unstated: ClassVar[Mapping[str, Any]] = MappingProxyType({"seq": None})
    layers: Annotated[int, Knob("Layers.", ge=1, lt=100_001)]
    d_model: Annotated[int, Knob("Length of a token's vector.", ge=1, lt=2**20)]
    heads: Annotated[int, Knob("Query heads of a layer.", ge=1, lt=65_537)]
    kv_heads: Annotated[int | None, Knob("Key and value heads (MHA: heads, MQA: 1, GQA: between); left out: heads.",
                                         ge=1)] = None
    head_size: Annotated[int | None, Knob("Length of a head's vectors; left out: d_model / heads.", ge=1,
                                          lt=2**20)] = None
    ffn: Annotated[int, Knob("Inner size of the FFN.", ge=1, lt=2**24)]
    gated: Annotated[bool, Knob("The FFN has a gate (SwiGLU): three matrices instead of two.")] = True
    activation: Annotated[Literal["silu", "gelu", "relu", "relu2"], Knob("Activation of the FFN.")] = "silu"
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
    pattern: Annotated[Sequence[str] | None, Knob(
        "Kinds of the layers, in order, in place of what other fields say of it: full, window, sparse, delta or mamba; "
        "ffn or experts; or one of each joined by + (window+experts).")] = None
    ffns: Annotated[Sequence[int] | None, Knob("Inner size of every layer's FFN; left out: ffn.", ge=1)] = None
    mamba: Annotated[MambaMixer | None, Knob("Mamba-2 mixer of the layers that pattern says.")] = None
    full_heads: Annotated[FullHeads | None, Knob("Heads of layers that look at all tokens; left out: as the others."
                                                 )] = None
    value_size: Annotated[int | None, Knob("Length of a head's value; left out: head_size.", ge=1)] = None
    post_norms: Annotated[bool, Knob("Norms also over what attention and FFN give (Gemma).")] = False
    compressed: Annotated[Compressed | None, Knob("Attention to a window and to compressed tokens; left out: none."
                                                     )] = None
    streams: Annotated[int, Knob("Copies of the residual stream, which layers mix (hyper-connections, DeepSeek-V4).",
                                 ge=1, lt=65)] = 1
    mtp: Annotated[int, Knob("Modules for multi-token prediction (DeepSeek-V3), trained together with the head; "
                             "inference runs one as a draft (speculation.draft: mtp).", ge=0, lt=65)] = 0

    @property
    def groups(self) -> int:
        """Key and value heads."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def head(self) -> Fraction:
        """Length of a head's vectors; a fraction if heads do not divide d_model (5140 / 40 = 257/2)."""
        return Fraction(self.d_model, self.heads) if self.head_size is None else Fraction(self.head_size)

    @property
    def attention(self) -> Literal["mha", "gqa", "mqa", "mla"]:
        """The kind of attention, by its common name."""
        if self.mla is not None:
            return "mla"
        return "mha" if self.groups == self.heads else "mqa" if self.groups == 1 else "gqa"

    def layer(self, index: int) -> LayerKind:
        """The layer with this `index`, from 0."""
        moe = self.moe
        indexers = None if self.sparse is None else self.sparse.layers
        indexes, inner = indexers is None or index in indexers, self.ffns[index] if self.ffns else None
        if self.pattern is not None:
            words = self.pattern[index].split("+")
            return LayerKind("experts" in words, self.window if "window" in words else None, "delta" in words, indexes,
                             "mamba" in words, "sparse" in words, any(word in MIXERS for word in words),
                             any(word in FEEDS for word in words), inner)
        routed = moe is not None and index >= moe.dense_layers and (index - moe.dense_layers + 1) % moe.every == 0
        full = self.full_every > 0 and (index + 1) % self.full_every == 0
        return LayerKind(routed, None if full else self.window, self.delta is not None and not full, indexes,
                         inner=inner, ratio=self.compressed.ratios[index] if self.compressed else None)

    def ep_units(self) -> int | None:
        """Experts of a layer, which ep divides; None: the model has none."""
        return None if self.moe is None else self.moe.experts

    def stack(self, options: Options) -> Stack:
        """The blocks of a decoder; equal layers are one block."""
        share = options.packed.share if options.packed else 1
        kinds = [(self.layer(index), index % share == 0) for index in range(self.layers)]
        distinct = list(dict.fromkeys(kinds))
        number = {kind: 1 + place for place, kind in enumerate(distinct)}
        head = language_head(options, norm_kind=self.norm, tied=self.tied_embeddings, bias="head" in self.biases,
                             residual=RESIDUAL if _engine(self, options) else "")
        layers = tuple(_layer(self, kind, options, owner=owner) for kind, owner in distinct)
        first = _embedding(self, options)
        if self.streams > 1:
            first, head = with_streams(first, head)
        blocks = (first, *layers, head)
        if options.packed is not None:
            blocks = tuple(sparse(block, options.packed.density) for block in blocks)
        last: tuple[int, ...] = (len(blocks) - 1,) if options.packed is None or options.packed.sampled else ()
        if self.mtp and options.packed is None:
            kind = self.layer(self.layers - 1)
            module = prediction_block(self.norm, _layer(self, kind, options, owner=True), head)
            last = (*range(len(blocks), len(blocks) + self.mtp), *last)
            blocks += tuple(replace(module, name=f"{module.name}{depth}") for depth in range(1, self.mtp + 1))
        found = Stack(blocks, (0,), tuple([number[kind] for kind in kinds]), last, self.sizes(options),
                     {**expert_axes(options), **cache_axes(options), **delta_axes(), **head_axes(options),
                      **mamba_axes(self.mamba, options), "index_kv": ("tp",), **compressed_axes(),
                      **{f"ffn.{inner}": ("tp",) for inner in self.ffns or ()}},
                     tied=frozenset({"embedding"} if self.tied_embeddings or len(last) > 1 else ()))
        return module_stack(found, self.norm, options) if options.module else found

    def sizes(self, options: Options) -> Mapping[str, Size]:
        """Sizes of the dims of its blocks."""
        return {
            "d": self.d_model, "heads": self.heads, **head_sizes(self, options), "ffn": self.ffn,
            **{f"ffn.{inner}": inner for inner in {*(self.ffns or ())}}, "vocab": self.vocab,
            "positions": self.max_positions or 1, **mamba_sizes(self.mamba, options),
            **latent_sizes(self.mla, self.d_model), **expert_sizes(self.moe, self.ffn, options),
            **cache_sizes(self.window if self.sparse is None else self.sparse.top_k, options),
            **delta_sizes(self.delta, options), **index_sizes(self.sparse, options), **stream_sizes(self.streams),
            **compressed_sizes(self.compressed, int(self.head), options)}

    def counts(self) -> Counts:
        """Parameters by part; a token uses top_k of the routed experts, and no module for prediction."""
        return decoder_counts(self)

    @staticmethod
    def readers() -> Readers:
        """Map `model_type` of a Hugging Face config.json to a reader."""
        return {**DECODERS, **EXPERTS, **PATTERNS}


def _engine(model: Decoder, options: Options) -> bool:
    """Whether the stream and what a layer adds to it go on side by side, as in engines."""
    return options.engine and model.streams == 1


def _layer(model: Decoder, kind: LayerKind, options: Options, *, owner: bool) -> Block:
    """Norm, attention, residual; norm, FFN, residual; or one of the two. Engines add a layer's last residual with the
    next one's norm: the stream and what is added to it go on side by side. `owner`: of layers that share a cache, the
    one that makes it."""
    ops: list[Op] = []
    weights: dict[str, str] = {}
    states: dict[str, str] = {}
    engine, several, both = _engine(model, options), model.streams > 1, kind.mixes and kind.feeds
    stream, middle, end = ("sum" if both else "res", "res", "") if engine else ("x", "r" if kind.mixes else "x", "y")
    if engine:
        ops.append(add("residual", f"x{STREAM} + {RESIDUAL} -> {stream}{STREAM}"))
    if kind.mixes:
        ops += collapsed("streams1", stream, "x1", weights) if several else []
        ops.append(norm(model.norm, "norm1", "x1" if several else stream, "h", weights))
        ops += _mixer(model, kind, options, weights, states, owner=owner)
    mixer = frozenset(weights)
    if kind.mixes:
        kept = dropped(options, ops, _post_norm(model, ops, "a", "post_norm1", weights), "dropout1")
        ops += [_joined(model, "1", stream, kept, middle if kind.feeds else end)] if kind.feeds or end else []
    if kind.feeds:
        ops += collapsed("streams2", middle, "r1", weights) if several else []
        ops.append(norm(model.norm, "norm2", "r1" if several else stream if model.parallel else middle, "g", weights))
        ops += _feed(model, kind, options, weights, middle)
        kept = dropped(options, ops, _post_norm(model, ops, "f", "post_norm2", weights), "dropout2")
        ops += [_joined(model, "2", middle, kept, end)] if end else []
    found = block(_name(kind, owner), ops, weights, states=states, experts=expert_weights(weights), attention=mixer,
                  start=f"x{STREAMS if several else STREAM}", end=f"{end or kept}{STREAMS if several else STREAM}",
                  memory=RESIDUAL if engine else "", takes=engine, gives=engine, widths=_widths(model, kind, options))
    learns = model.sparse is not None and options.packed is None and kind.attends and kind.sparse and kind.indexes
    return replace(found, losses=(INDEX_LOSS,)) if learns else found


def _widths(model: Decoder, kind: LayerKind, options: Options) -> Mapping[str, str]:
    """Roles of tensors that are not those of their kinds."""
    return {"choice": "index", "chosen": "index", **dict.fromkeys(STATISTICS, "stats"), **expert_widths(options),
            **(delta_widths(model.delta, options) if kind.delta and model.delta else {}),
            **(mamba_widths(model.mamba, options) if kind.mamba and model.mamba else {})}


def _joined(model: Decoder, number: str, stream: str, kept: str, target: str) -> Op:
    """The stream with what a part of the layer adds to it."""
    if model.streams > 1:
        return expanded(f"streams{number}", kept, stream, target, model.streams)
    return add(f"residual{number}", f"{stream}{STREAM} + {kept}{STREAM} -> {target}{STREAM}")


def _post_norm(model: Decoder, ops: list[Op], tensor: str, name: str, weights: dict[str, str]) -> str:
    """The tensor behind a norm, where the model has it there."""
    if not model.post_norms:
        return tensor
    ops.append(norm(model.norm, name, tensor, f"{tensor}n", weights))
    return f"{tensor}n"


def _feed(model: Decoder, kind: LayerKind, options: Options, weights: dict[str, str], source: str) -> list[Op]:
    """From the norm's output g to f: an FFN, experts, or both side by side, experts from a norm of the stream."""
    inner: dict[str, Any] = {"gated": model.gated, "activation": model.activation, "bias": "mlp" in model.biases}
    size = "ffn" if kind.inner is None else f"ffn.{kind.inner}"
    if not (kind.moe and model.moe):
        return ffn(weights, **inner, inner=f"[batch,seq,{size}]", matrix=f"d,{size}")
    if not model.moe.beside_ffn:
        return expert_ops(model.moe, options, weights, **inner)
    ops = ffn(weights, **inner, result=f"fd{INSIDE}", inner=f"[batch,seq,{size}]", matrix=f"d,{size}")
    ops += [norm(model.norm, "post_norm_ffn", "fd", "fdn", weights),
            norm(model.norm, "norm_experts", source, "ge", weights)]
    weights |= {"router_scale": "d", "expert_scale": "experts.router"}
    ops += [renamed(op, {"g": "ge", "f": "fe"}) for op in expert_ops(model.moe, options, weights, **inner)]
    ops.append(norm(model.norm, "post_norm_experts", "fe", "fen", weights))
    return [*ops, add("side_by_side", f"fdn{STREAM} + fen{STREAM} -> f{STREAM}")]


def _mixer(model: Decoder, kind: LayerKind, options: Options, weights: dict[str, str], states: dict[str, str], *,
           owner: bool) -> list[Op]:
    """From h to what the layer adds to the stream, a: attention, a delta net or a Mamba mixer."""
    if kind.delta and model.delta:
        ops, heads, size, result = delta_ops(model.delta, options, weights, states), "v_heads", "v_size", "o"
    elif kind.mamba and model.mamba:
        ops, heads, size, result = mamba_ops(model.mamba, options, weights, states), "m_heads", "p", "w"
    elif model.compressed is not None:
        ops = compressed_ops(model.compressed, kind.ratio or 0, model.rotary_share, options, weights, states)
        heads, size, result = "out_groups", "out_rank", "low"
    else:
        ops, heads, result = head_ops(model, kind, options, weights, owner=owner), "heads", "o"
        size = head_dims(model, kind).value if model.mla is None else "v_size"
        if model.gated_heads:
            dims, result = f"[batch,seq,{heads},{size}]", "og"
            ops.insert(0, linear("head_gate", f"h{INSIDE}", f"d,{heads},{size}", f"hg{dims}", weights,
                                 bias="qkv" in model.biases))
            ops.append(point("gated", f"o{dims} + hg{dims} -> og{dims}", ACTIVATION["silu"]))
        if options.packed is not None:
            states |= latent_states(kind, model.sparse) if model.mla else states_of(kind, head_dims(model, kind))
            if model.sparse is not None and kind.sparse and not model.mla:
                states[INDEX_CACHE] = INDEX_STATE
    return [*ops, linear("out", f"{result}[batch,seq,{heads},{size}]", f"{heads},{size},d", f"a{INSIDE}", weights,
                         bias="out" in model.biases and kind.attends)]


def _name(kind: LayerKind, owner: bool) -> str:
    ratio = [] if kind.ratio is None else [f"compressed{kind.ratio}"]
    return "_".join([*([] if owner else ["sharing"]), *(["window"] if kind.window is not None else []),
                     *(["delta"] if kind.delta else []), *(["mamba"] if kind.mamba else []), *ratio,
                     *([] if kind.mixes else ["feed"]), *([] if kind.indexes else ["choice_sharing"]),
                     *(["expert"] if kind.moe else []), "layer"])


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
