"""Number formats of inference and sparse weights: bytes per element by the graph's roles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Config, Knob, Problem, replace_all
from astrarium.workload.model.checkpoint import Checkpoint
from astrarium.workload.pieces import Numbers

__all__ = ["BYTES", "Cache", "Compression", "Format", "Formats", "assumed", "density", "dispatch_width", "numbers_of",
           "resolved", "taken", "widths_of"]

Wide = Literal["fp32", "fp16", "bf16"]
Format = Literal["fp32", "fp16", "bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int8", "int4"]
Operand = Literal["fp32", "fp16", "bf16", "fp8", "nvfp4", "int8"]
Cache = Literal["fp32", "fp16", "bf16", "fp8", "int8", "int4"]

BYTES: Mapping[str, float] = MappingProxyType({
    "fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "fp8_block": 1.0 + 4 / 128**2, "int8": 1.0,
    "nvfp4": 0.5 + 1 / 16, "mxfp4": 0.5 + 1 / 32, "int4": 0.5})
"""With scales of the format's own: 4 bytes for 128 x 128 numbers (DeepSeek-V3, arXiv 2412.19437, section 3.3.2), a byte
for 16 (NVFP4) or 32 (OCP MX)."""

CAST: Mapping[str, str] = MappingProxyType({"fp8": "fp8", "fp8_block": "fp8", "nvfp4": "nvfp4"})
"""Weights -> the format to which engines cast the activations of their products. Others are unpacked (W8A16, W4A16)."""
WIDE = ("fp32", "fp16", "bf16")


def _operands(formats: Formats) -> Iterator[Problem]:
    """Narrow activations are operands of products of narrow weights."""
    kind, weights = formats.activations, {formats.held, formats.experts or formats.held}
    if formats.weights is None and formats.experts is None:     # the checkpoint says; then these are looked at again
        return
    narrow = sorted(weights.difference(WIDE))
    if kind is not None and kind != formats.messages and not narrow:
        yield Problem("activations", f"{kind} is what products of quantised weights take; these weights are in "
                      f"{formats.held}", f"weights: {kind}, or messages of the format" if kind in WIDE else
                      f"weights: {kind}, or no activations")
    for each in narrow:
        if kind is not None and BYTES[kind] < BYTES[each] - 0.01:
            yield Problem("activations", f"{kind} is narrower than weights in {each}", CAST.get(each, each))


class Formats(Config, frozen=True, kw_only=True):
    """Formats of what is held, computed and moved. A roofline's time follows bytes and its one peak; compute models
    that time kernels take those of the formats."""

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_operands,)
    weights: Annotated[Format | None, Knob(
        "Weights of the layers' products; fp8_block: a scale for 128 x 128 weights. Embeddings, head, norms, routers "
        "are in the format of messages, as checkpoints have them. Left out, with experts: the checkpoint's, or bf16.")
                       ] = None
    experts: Annotated[Format | None, Knob("Weights of routed experts (gpt-oss: mxfp4); left out: as weights.")] = None
    attention: Annotated[Format | None, Knob("Weights of attention or its replacement (NVFP4 checkpoints: "
                                             "bf16); left out: as weights.")] = None
    activations: Annotated[Operand | None, Knob(
        "What products of quantised weights take (the A8 of W8A8); left out: as engines do (fp8 with fp8, fp8_block; "
        "nvfp4 with nvfp4; else the format of messages).")] = None
    messages: Annotated[Wide, Knob("The residual stream, what lies between kernels, and messages.")] = "bf16"
    cache: Annotated[Cache | None, Knob("Keys and values in the cache; left out: the checkpoint's, or bf16.")] = None
    scale_group: Annotated[int | None, Knob("Weights that share one 16-bit scale (GPTQ and AWQ: 128); left out: no "
                                            "scales are counted but those of fp8_block, nvfp4 and mxfp4.", ge=1)] = None
    sparse: Annotated[Literal["none", "2:4"],
                      Knob("2:4: of four weights two are kept, with 2 bits of position each; half of the FLOPs.")
                      ] = "none"

    @property
    def held(self) -> Format:
        """Format of the layers' weights where no checkpoint prints more."""
        return self.weights or "bf16"

    @property
    def cached(self) -> Cache:
        """Format of the cache where no checkpoint prints more."""
        return self.cache or "bf16"


class Compression(Config, frozen=True, kw_only=True):
    """A smaller key-value cache."""

    keep: Annotated[float, Knob("Share of past tokens that stay in the cache (H2O, arXiv 2306.14048: 0.2).",
                                gt=0, lt=1.0000001)] = 1.0
    share: Annotated[int, Knob("Neighbouring layers with one cache (cross-layer attention, arXiv 2405.12981: 2).",
                               ge=1)] = 1


def resolved(formats: Formats, checkpoint: Checkpoint | None) -> Formats:
    """The formats with what they leave out as the checkpoint has it (None: bf16). Raises ConfigError where the two do
    not fit."""
    published = checkpoint or Checkpoint()
    more: dict[str, Any] = {"cache": formats.cache or published.cache or "bf16", "weights": formats.held}
    if formats.weights is None and formats.experts is None:
        more |= {"weights": published.weights, "experts": published.experts,
                 "attention": formats.attention or published.attention,
                 "scale_group": formats.scale_group or published.scale_group}
        if published.weight_only and formats.activations is None:
            more["activations"] = formats.messages
    return replace_all(formats, more)


def taken(formats: Formats, checkpoint: Checkpoint | None) -> Iterator[str]:
    """A sentence about what comes from the checkpoint."""
    if checkpoint is None:
        return
    used, formats = resolved(formats, checkpoint), replace_all(formats, {"cache": formats.cached})
    names = ("weights", "attention", "experts", "cache", "scale_group", "activations")
    stated = [f"{name} {getattr(used, name)}" for name in names if getattr(used, name) != getattr(formats, name)]
    if stated:
        yield f"left out, so as the published checkpoint has them: {', '.join(stated)}"


def density(formats: Formats) -> float:
    """Share of the weights that products compute."""
    return 1.0 if formats.sparse == "none" else 0.5


def numbers_of(formats: Formats) -> Numbers:
    """Formats in which kernels compute and memory holds weights and the cache."""
    (product, weights), (experts, expert_weights) = (
        _product(kind or formats.held, formats) for kind in (formats.weights, formats.experts))
    attention = None if formats.attention is None else _product(formats.attention, formats)
    cached, keys = _unpacked(formats.cached, formats.messages)
    return Numbers(product, experts, formats.messages, cached, weights, expert_weights, keys, attention)


def assumed(formats: Formats) -> Iterator[str]:
    """Sentences about what kernels of quantised weights do, as far as the formats leave it open."""
    if formats.sparse != "none":        # refused by models that time kernels
        return
    numbers = numbers_of(formats)
    pairs = {"products": (numbers.weights, numbers.product)}
    if formats.experts is not None:
        pairs["products of experts"] = numbers.expert_weights, numbers.experts
    if numbers.attention is not None:
        pairs["products of attention"] = numbers.attention[1], numbers.attention[0]
    for what, (held, computed) in pairs.items():
        if held and held != computed:
            yield f"{what} unpack {held} weights to {computed}"
        elif held:
            yield f"{what} cast activations to {computed} (rows of such kernels time both)"
    if numbers.weights:
        yield f"logits and routers are computed in {formats.messages}, as checkpoints leave their weights"
    if formats.scale_group:
        yield "scales of groups count as bytes of memory, not in the times of kernels"


def _product(weights: Format, formats: Formats) -> tuple[str, str]:
    """(format in which a product computes, format of quantised weights), by the kernels' names."""
    if weights in WIDE:
        computed, held = _unpacked(weights, formats.messages)
    else:
        taken, held = formats.activations or CAST.get(weights, formats.messages), _kernels(weights)
        computed = held if taken in (weights, CAST.get(weights)) else _kernels(taken)
    return computed, f"{weights} {formats.sparse}" if formats.sparse != "none" else held


def _unpacked(stored: str, other: str) -> tuple[str, str]:
    """(the wider of two operands' formats, to which the other is unpacked; the stored one's where it is quantised)."""
    wider = max(other, stored, key=BYTES.__getitem__)
    return wider, stored if BYTES[stored] < BYTES["bf16"] else ""


def _kernels(name: str) -> str:
    """The name that kernels of a format have."""
    return "fp4" if name == "nvfp4" else name


def widths_of(formats: Formats) -> Mapping[str, float]:
    """Bytes per element, of weights per element of the dense matrix."""
    weights, plain = _stored(formats, formats.held), BYTES[formats.messages]
    own = {role: _stored(formats, kind) for role, kind in (
        ("experts", formats.experts), ("attention", formats.attention)) if kind is not None}
    return MappingProxyType({"weights": weights, **own, "plain": plain, "activations": plain, "gradients": 0.0,
                             "state": BYTES[formats.cached], "stats": 4.0, "mask": 1.0, "index": 8.0})


def dispatch_width(formats: Formats, exchange: str) -> float:
    """Bytes per element of tokens on their way to experts on other ranks, which come back in the format of messages.

    Engines quantise them as experts' products take them, with a scale for 128 numbers beside fp8_block; DeepEP's
    high-throughput kernels send no nvfp4.
    """
    weights = formats.experts or formats.held
    taken = formats.messages if weights in WIDE else formats.activations or CAST.get(weights, formats.messages)
    if taken == "nvfp4":
        return BYTES[formats.messages if exchange == "deepep" else "nvfp4"]
    if taken == "fp8":
        return 1.0 + (4 / 128 if weights == "fp8_block" else 0.0)
    return BYTES[formats.messages]


def _stored(formats: Formats, kind: Format) -> float:
    """Bytes of a weight in a format, with its share of a scale (where the format has none of its own) and positions."""
    own = kind in ("fp8_block", "nvfp4", "mxfp4", *WIDE)
    size = BYTES[kind] + (2 / formats.scale_group if formats.scale_group and not own else 0.0)
    return size if formats.sparse == "none" else (size + 2 / 8) * density(formats)
