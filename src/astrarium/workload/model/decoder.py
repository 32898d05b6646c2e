"""Decoder-only transformers: GPT and LLaMA styles, any attention, sliding windows, mixture of experts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from astrarium.config import Config, Knob, Problem
from astrarium.workload.model.base import Model

__all__ = ["Decoder", "DeltaNet", "Experts", "Indexer", "Latent", "LayerKind"]


class Latent(Config, frozen=True, kw_only=True):
    """Multi-head latent attention (MLA): keys and values come from one short vector per token (arXiv 2405.04434)."""

    q_rank: Annotated[int | None, Knob("Length of the vector that queries are made from; left out: d_model itself.",
                                       ge=1)] = None
    kv_rank: Annotated[int, Knob("Length of the vector that keys and values are made from: what is cached.", ge=1)]
    nope_size: Annotated[int, Knob("Part of a head's query and key without position.", ge=0)]
    rope_size: Annotated[int, Knob("Part of a head's query and key with rotary position; one key for all heads.", ge=0)]
    v_size: Annotated[int, Knob("A head's value.", ge=1)]


class Indexer(Config, frozen=True, kw_only=True):
    """Sparse attention (DeepSeek-V3.2): small heads score all tokens; a query sees those with the highest scores."""

    heads: Annotated[int, Knob("Heads of the indexer.", ge=1)]
    head_size: Annotated[int, Knob("Length of its queries and of its one key per token, which is cached.", ge=1)]
    top_k: Annotated[int, Knob("Tokens that a query sees.", ge=1)]


def _delta_heads(delta: DeltaNet) -> Iterator[Problem]:
    if delta.value_heads % delta.key_heads:
        yield Problem("value_heads", f"{delta.value_heads} is not a multiple of {delta.key_heads} key_heads",
                      f"a multiple of {delta.key_heads}")


class DeltaNet(Config, frozen=True, kw_only=True):
    """Gated delta net (arXiv 2412.06464): linear attention with a state of key_size x value_size per value head."""

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_delta_heads,)
    key_heads: Annotated[int, Knob("Query and key heads.", ge=1)]
    key_size: Annotated[int, Knob("Length of a query and a key.", ge=1)]
    value_heads: Annotated[int, Knob("Value heads: a multiple of key_heads.", ge=1)]
    value_size: Annotated[int, Knob("Length of a value.", ge=1)]
    convolution: Annotated[int, Knob("Width of the causal convolution over queries, keys and values.", ge=1)] = 4
    chunk: Annotated[int, Knob("Tokens of a chunk: inside, all pairs; between, the state.", ge=1)] = 64


def _top_k(moe: Experts) -> Iterator[Problem]:
    if moe.top_k > moe.experts:
        yield Problem("top_k", f"{moe.top_k} is more than there are experts", f"1 to {moe.experts}")
    if moe.imbalance > moe.experts:
        yield Problem("imbalance", f"{moe.imbalance:g} is more than everything on one of {moe.experts} experts",
                      f"1 to {moe.experts}")


class Experts(Config, frozen=True, kw_only=True):
    """A mixture of experts in place of the FFN: every token goes to `top_k` routed experts and to all shared ones."""

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_top_k,)
    experts: Annotated[int, Knob("Routed experts of a layer.", ge=1)]
    top_k: Annotated[int, Knob("Routed experts that a token goes to.", ge=1)]
    expert_ffn: Annotated[int | None, Knob("Inner size of one expert; left out: ffn.", ge=1)] = None
    shared_experts: Annotated[int, Knob("Experts of the same size that every token goes to.", ge=0)] = 0
    dense_layers: Annotated[int, Knob("Layers at the start that keep the FFN.", ge=0)] = 0
    every: Annotated[int, Knob("After those, every k-th layer has experts (2: the 2nd, 4th, ...).", ge=1)] = 1
    shared_gate: Annotated[bool, Knob("A learned gate, one number per token, over what shared experts give.")] = False
    router: Annotated[Literal["softmax", "sigmoid"], Knob("What scores become weights.")] = "softmax"
    router_bias: Annotated[bool, Knob("A learned offset per expert in the choice of experts.")] = False
    capacity_factor: Annotated[float | None,
                               Knob("Room of an expert, times the mean load; tokens beyond it are dropped, room "
                                    "that is left is computed all the same. Left out: nothing is dropped or padded.",
                                    gt=0)] = None
    imbalance: Annotated[float, Knob("Load of the busiest expert-parallel rank over the mean.", ge=1)] = 1.0


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
    if model.sparse is not None and model.window is not None:
        yield Problem("sparse", "means nothing with window", "one of the two")
    if model.gated_heads and model.mla is not None:
        yield Problem("gated_heads", "means nothing with mla", "false")
    if model.moe is not None and model.moe.dense_layers > model.layers:
        yield Problem("moe.dense_layers", f"{model.moe.dense_layers} is more than {model.layers} layers",
                      f"0 to {model.layers}")


class LayerKind(NamedTuple):
    """What differs between the layers of one decoder: experts or not, how far back a token looks (None: all), and
    whether a gated delta net stands in the place of attention."""

    moe: bool
    window: int | None
    delta: bool = False


class Decoder(Model, frozen=True, kw_only=True):
    """A decoder-only transformer. The defaults are LLaMA's; GPT's differ in six fields."""

    tag: ClassVar[str] = "decoder"
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_decoder_rules,)
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
        return LayerKind(routed, None if full else self.window, self.delta is not None and not full)
