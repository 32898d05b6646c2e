"""Decoder-only transformers: GPT and LLaMA styles, any attention, sliding windows, mixture of experts.

The parts that only some decoders have are modules of their own, with their fields, operators and parameters: latent
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
from astrarium.errors import UnsupportedError
from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, add, gather, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.base import Cache, Counts, Generation, Model
from astrarium.workload.model.cached import LayerKind, cache_axes, cache_sizes, cached_core, sparse, states_of
from astrarium.workload.model.decoder_counts import decoder_counts
from astrarium.workload.model.decoder_rules import FEEDS, MIXERS, decoder_rules, layout_rules
from astrarium.workload.model.decoder_shape import FullHeads
from astrarium.workload.model.delta_net import DeltaNet, delta_axes, delta_ops, delta_sizes, delta_widths
from astrarium.workload.model.experts import Experts, expert_axes, expert_ops, expert_sizes, expert_weights
from astrarium.workload.model.heads import head_axes, head_dims, head_sizes, sizes_of
from astrarium.workload.model.hugging_face_decoders import DECODERS
from astrarium.workload.model.hugging_face_experts import EXPERTS
from astrarium.workload.model.hugging_face_keys import Readers
from astrarium.workload.model.hugging_face_patterns import PATTERNS
from astrarium.workload.model.indexer import INDEX_CACHE, INDEX_LOSS, INDEX_STATE, Indexer, block_ops, index_sizes
from astrarium.workload.model.language_head import language_head
from astrarium.workload.model.latent import Latent, latent_heads, latent_sizes, latent_states
from astrarium.workload.model.mamba_mixer import MambaMixer, mamba_axes, mamba_ops, mamba_sizes, mamba_widths
from astrarium.workload.model.parts import ACTIVATION, INSIDE, NORM, STREAM, block, core, dropped, ffn, linear, norm
from astrarium.workload.model.prediction import prediction_block, renamed

__all__ = ["Decoder"]

STATISTICS = ("index_loss", "q_squares", "k_squares", "d.q_squares", "d.k_squares")


def _cache(model: Decoder) -> Cache:
    def sight(index: int) -> int | None:
        kind = model.layer(index)
        return kind.window if kind.attends else 1       # a state, or nothing, does not grow

    return Cache(heads=1 if model.mla is not None else model.groups, sight=sight)


class Decoder(Model, frozen=True, kw_only=True):
    """A decoder-only transformer. The defaults are LLaMA's; GPT's differ in six fields."""

    tag: ClassVar[str] = "decoder"
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (decoder_rules,)
    generation: ClassVar[Generation | None] = Generation(layout_rules, _cache)
    unstated: ClassVar[Mapping[str, Any]] = MappingProxyType({"seq": None})
    layers: Annotated[int, Knob("Layers.", ge=1, lt=100_001)]
    d_model: Annotated[int, Knob("Length of a token's vector.", ge=1)]
    heads: Annotated[int, Knob("Query heads of a layer.", ge=1, lt=65_537)]
    kv_heads: Annotated[int | None, Knob("Key and value heads (MHA: heads, MQA: 1, GQA: between); left out: heads.",
                                         ge=1)] = None
    head_size: Annotated[int | None, Knob("Length of a head's vectors; left out: d_model / heads.", ge=1)] = None
    ffn: Annotated[int, Knob("Inner size of the FFN.", ge=1)]
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
                         inner=inner)

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
            "d": self.d_model, "heads": self.heads, **head_sizes(self, options), "ffn": self.ffn,
            **{f"ffn.{inner}": inner for inner in {*(self.ffns or ())}}, "vocab": self.vocab,
            "positions": self.max_positions or 1, **mamba_sizes(self.mamba, options),
            **latent_sizes(self.mla, self.d_model), **expert_sizes(self.moe, self.ffn, options),
            **cache_sizes(self.window if self.sparse is None else self.sparse.top_k, options),
            **delta_sizes(self.delta, options), **index_sizes(self.sparse, options)}
        return Stack(blocks, (0,), tuple([number[kind] for kind in kinds]), last, sizes,
                     {**expert_axes(options), **cache_axes(options), **delta_axes(), **head_axes(options),
                      **mamba_axes(self.mamba, options), "index_kv": ("tp",),
                      **{f"ffn.{inner}": ("tp",) for inner in self.ffns or ()}},
                     tied=frozenset({"embedding"} if self.tied_embeddings or len(last) > 1 else ()))

    def counts(self) -> Counts:
        """Parameters by part; a token uses top_k of the routed experts, and no module for prediction."""
        return decoder_counts(self)

    @staticmethod
    def readers() -> Readers:
        """Values of `model_type` in a Hugging Face config.json."""
        return {**DECODERS, **EXPERTS, **PATTERNS}


def _layer(model: Decoder, kind: LayerKind, options: Options, *, owner: bool) -> Block:
    """Norm, attention, residual; norm, FFN, residual; or one of the two. `owner`: of layers that share a cache, the one
    that makes it."""
    ops: list[Op] = []
    weights: dict[str, str] = {}
    states: dict[str, str] = {}
    middle = "r" if kind.mixes else "x"
    if kind.mixes:
        ops.append(norm(model.norm, "norm1", "x", "h", weights))
        ops += _mixer(model, kind, options, weights, states, owner=owner)
    mixer = frozenset(weights)
    if kind.mixes:
        kept = dropped(options, ops, _post_norm(model, ops, "a", "post_norm1", weights), "dropout1")
        ops.append(add("residual1", f"x{STREAM} + {kept}{STREAM} -> {middle if kind.feeds else 'y'}{STREAM}"))
    if kind.feeds:
        ops.append(norm(model.norm, "norm2", "x" if model.parallel else middle, "g", weights))
        ops += _feed(model, kind, options, weights, middle)
        kept = dropped(options, ops, _post_norm(model, ops, "f", "post_norm2", weights), "dropout2")
        ops.append(add("residual2", f"{middle}{STREAM} + {kept}{STREAM} -> y{STREAM}"))
    own = {**(delta_widths(model.delta, options) if kind.delta and model.delta else {}),
           **(mamba_widths(model.mamba, options) if kind.mamba and model.mamba else {})}
    found = block(_name(kind, owner), ops, weights, states=states, experts=expert_weights(weights), attention=mixer,
                  widths={"choice": "index", "chosen": "index", **dict.fromkeys(STATISTICS, "stats"), **own})
    learns = model.sparse is not None and options.packed is None and kind.attends and kind.sparse and kind.indexes
    return replace(found, losses=(INDEX_LOSS,)) if learns else found


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
    else:
        ops, heads, result = _heads(model, kind, options, weights, owner=owner), "heads", "o"
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
    return "_".join([*([] if owner else ["sharing"]), *(["window"] if kind.window is not None else []),
                     *(["delta"] if kind.delta else []), *(["mamba"] if kind.mamba else []),
                     *([] if kind.mixes else ["feed"]), *([] if kind.indexes else ["choice_sharing"]),
                     *(["expert"] if kind.moe else []), "layer"])


def _heads(model: Decoder, kind: LayerKind, options: Options, weights: dict[str, str], *, owner: bool) -> list[Op]:
    """From h to the heads' outputs o."""
    if model.mla is not None:
        return latent_heads(model.mla, model.sparse, kind, options, weights, _work(model, kind, options), owner=owner)
    bias, heads, sizes = "qkv" in model.biases, head_dims(model, kind), sizes_of(model, kind)
    made = (("q", "heads", heads.key), ("k", heads.kv, heads.key), ("v", heads.kv, heads.value))
    ops = [linear(name, f"h{INSIDE}", f"d,{count},{size}", f"{name}[batch,seq,{count},{size}]", weights, bias=bias)
           for name, count, size in made[:1 if not owner else 3 if sizes.projected else 2]]
    if owner and not sizes.projected:
        dims = f"[batch,seq,{heads.kv},{heads.key}]"
        ops.append(point("values", f"k{dims} -> v{dims}", NORM["rms"] - 1))
    names = {"q": "q", "k": "k"}
    for name, count, size in made[:2 if owner else 1]:
        dims = f"[batch,seq,{count},{size}]"
        if model.qk_norm:
            ops += _head_norm(model, options, name, (count, size), weights)
            names[name] = f"{name}n"
        if model.positions == "rotary":     # two products and a sum; nothing but angles is needed for backward
            ops.append(point(f"rope_{name}", f"{names[name]}{dims} -> {name}r{dims}", 3 * model.rotary_share,
                             saves="nothing"))
            names[name] = f"{name}r"
    if sizes.sinks:
        weights["sinks"] = "heads"
    blocks = model.sparse if kind.sparse else None
    if blocks is not None and owner:
        ops += block_ops(options, weights)
    if options.packed is not None:
        _one_chunk(model, kind, options)
        return ops + cached_core(kind, options, names["q"], names["k"], heads, owner=owner,
                                 read=None if blocks is None else blocks.top_k)
    return ops + core(options, _work(model, kind, options), q=names["q"], k=names["k"], kv=heads.kv,
                      sizes=(heads.key, heads.value), sinks="sinks" if sizes.sinks else "")


def _head_norm(model: Decoder, options: Options, name: str, dim: tuple[str, str], weights: dict[str, str]) -> list[Op]:
    """A norm over each head's vector, or over all heads' (`all`: ranks of tp then sum up its squares, a number of fp32
    a token: vLLM, SGLang), with the scale that the model has."""
    dims, scale = f"[batch,seq,{','.join(dim)}]", f"{name}_scale"
    if model.qk_norm_scale == "none":
        return [point(f"{name}_norm", f"{name}{dims} -> {name}n{dims}", NORM["rms"] - 1)]
    own = dim[1] if model.qk_norm_scale == "head" else ",".join(dim)
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
    sight = kind.window or (model.sparse.top_k if model.sparse is not None and kind.sparse else seq)
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
