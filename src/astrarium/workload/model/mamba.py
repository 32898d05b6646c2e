"""State-space models of the Mamba-2 kind (arXiv 2405.21060): a state of fixed size in place of attention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ClassVar

from astrarium.config import Knob, Problem
from astrarium.errors import UnsupportedError
from astrarium.workload.divisors import divides
from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, add, gather
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.base import Counts, Generation, Model, Split
from astrarium.workload.model.cached import StateFormat, sparse
from astrarium.workload.model.hugging_face_keys import Fields, Keys, Readers
from astrarium.workload.model.language_head import language_head
from astrarium.workload.model.mamba_mixer import (
    MambaMixer,
    mamba_axes,
    mamba_counts,
    mamba_ops,
    mamba_sizes,
    mamba_widths,
)
from astrarium.workload.model.parts import INSIDE, STREAM, block, linear, norm

__all__ = ["Mamba"]


def _heads(model: Mamba) -> Iterator[Problem]:
    if model.inner % model.head_size:
        yield Problem("head_size", f"{model.head_size} does not divide {model.inner} (expand x d_model)",
                      f"a divisor of {model.inner}")
    elif model.heads % model.groups:
        yield Problem("groups", f"{model.groups} does not divide {model.heads} heads", f"a divisor of {model.heads}")


def _layouts(model: Mamba, split: Split) -> Iterator[Problem]:
    """What forbids a layout of inference."""
    if split.even:
        yield from divides("tp", split.tp, model.heads, "heads")
    if split.pp > model.layers:
        yield Problem("pp", f"{split.pp} stages of {model.layers} layers", f"at most {model.layers}")
    if split.ep > 1:
        yield Problem("ep", f"{split.ep}, but the model has no experts", "1")
    if split.sp > 1:
        yield Problem("sp", f"{split.sp}, but a state is not spread over ranks like a cache", "1")
    if split.compressed:
        yield Problem("compression", "has no effect for a model without a cache", "no compression")


class Mamba(Model, frozen=True, kw_only=True):
    """A decoder of Mamba-2 blocks (no attention, no FFN)."""

    tag: ClassVar[str] = "mamba"
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_heads,)
    generation: ClassVar[Generation | None] = Generation(_layouts)
    layers: Annotated[int, Knob("Layers.", ge=1, lt=100_001)]
    d_model: Annotated[int, Knob("Length of a token's vector.", ge=1, lt=2**20)]
    vocab: Annotated[int, Knob("Tokens of the vocabulary, with padding.", ge=1)]
    seq: Annotated[int | None, Knob("Context length of training; null (an imported model): workload.seq says it.",
                                    ge=1)] = 2048
    state: Annotated[int, Knob("Length of the state (N) of each channel.", ge=1)] = 128
    head_size: Annotated[int, Knob("Channels of a head (P).", ge=1)] = 64
    expand: Annotated[int, Knob("Inner channels over d_model.", ge=1)] = 2
    groups: Annotated[int, Knob("Groups of heads that share B and C.", ge=1)] = 1
    convolution: Annotated[int, Knob("Width of the causal convolution.", ge=1)] = 4
    chunk: Annotated[int, Knob("Tokens of a chunk (Q): inside, all pairs; between, the state.", ge=1)] = 256
    tied_embeddings: Annotated[bool, Knob("The head is the embedding, transposed.")] = True
    state_format: Annotated[StateFormat, Knob("Format of the state in inference.")] = "activations"

    @property
    def inner(self) -> int:
        """Inner channels."""
        return self.expand * self.d_model

    @property
    def heads(self) -> int:
        """Heads of a layer."""
        return self.inner // self.head_size

    @property
    def mixer(self) -> MambaMixer:
        """What every layer is."""
        return MambaMixer(heads=self.heads, head_size=self.head_size, state=self.state, groups=self.groups,
                          convolution=self.convolution, chunk=self.chunk, state_format=self.state_format)

    def stack(self, options: Options) -> Stack:
        """The blocks. Raises UnsupportedError for a step of inference whose tokens are sharded."""
        packed = options.packed
        sizes: dict[str, Size] = {"d": self.d_model, "vocab": self.vocab, **mamba_sizes(self.mixer, options),
                                  "sampled": (packed.sampled if packed else 0) or 1}
        head = language_head(options, norm_kind="rms", tied=self.tied_embeddings)
        blocks: tuple[Block, ...] = (_embedding(), _layer(self, options), head)
        if packed is not None:
            blocks = tuple(sparse(each, packed.density) for each in blocks)
        return Stack(blocks, (0,), (1,) * self.layers, (2,) if packed is None or packed.sampled else (), sizes,
                     {**mamba_axes(self.mixer, options), "seq.all": (), "sampled": ()},
                     tied=frozenset({"embedding"} if self.tied_embeddings else ()))

    def counts(self) -> Counts:
        """Parameters by part; all are used by every token."""
        matrices, norms = mamba_counts(self.mixer, self.d_model)
        return {
            "embedding": self.vocab * self.d_model,
            "mixer": self.layers * matrices,
            "norms": self.layers * (self.d_model + norms) + self.d_model,
            "head": 0 if self.tied_embeddings else self.vocab * self.d_model,
        }, 0

    @staticmethod
    def readers() -> Readers:
        """Map `model_type` of a Hugging Face config.json to a reader."""
        return {"mamba2": _mamba2}


def _embedding() -> Block:
    ops = [gather("tokens", f"index[batch,seq] * embedding[vocab,d] -> e{INSIDE}")]
    return block("embedding", ops, {"embedding": "vocab d"}, start="", end=f"e{STREAM}", widths={"index": "index"})


def _layer(model: Mamba, options: Options) -> Block:
    weights: dict[str, str] = {}
    states: dict[str, str] = {}
    ops: list[Op] = [norm("rms", "norm", "x", "h", weights), *mamba_ops(model.mixer, options, weights, states),
                     linear("out", "w[batch,seq,m_heads,p]", "m_heads,p,d", f"o{INSIDE}", weights, bias=False),
                     add("residual", f"x{STREAM} + o{STREAM} -> y{STREAM}")]
    return block("layer", ops, weights, states=states, widths=mamba_widths(model.mixer, options))


def _mamba2(keys: Keys) -> Fields:
    keys.only("use_bias", False)
    keys.only("use_conv_bias", True)
    keys.unused("residual_in_fp32", "rescale_prenorm_residual", "time_step_floor", "time_step_limit", "time_step_max",
                "time_step_min", "time_step_rank")
    keys.notes.append("the file does not say how long samples are: training takes its workload.seq")
    found: Fields = {
        "seq": None, "layers": keys.whole("num_hidden_layers"), "d_model": keys.whole("hidden_size"),
        "vocab": keys.whole("vocab_size"), "state": keys.whole("state_size", 128),
        "head_size": keys.whole("head_dim", 64), "expand": keys.whole("expand", 2), "groups": keys.whole("n_groups"),
        "convolution": keys.whole("conv_kernel", 4), "chunk": keys.whole("chunk_size", 256),
        "tied_embeddings": keys.flag("tie_word_embeddings", False)}
    heads = Mamba(**found).heads
    if keys.whole("num_heads") != heads:
        raise UnsupportedError(f"{keys.name}: num_heads", f"{keys.whole('num_heads')} has no model here",
                               expected=f"{heads} (expand x hidden_size / head_dim)")
    return found
