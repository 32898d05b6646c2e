"""Number formats of inference and sparse weights: bytes per element by the graph's roles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from astrarium.config import Config, Knob
from astrarium.workload.pieces import Numbers

__all__ = ["BYTES", "Compression", "Formats", "assumed", "density", "numbers_of", "widths_of"]

Format = Literal["fp32", "fp16", "bf16", "fp8", "int8", "fp4", "int4", "mxfp4"]

BYTES: Mapping[str, float] = MappingProxyType({
    "fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5, "int4": 0.5,
    "mxfp4": 0.5 + 1 / 32})     # with a byte of scale for 32 numbers

CAST = ("fp8", "fp4")
"""Formats of weights to which products cast wider activations (W8A8, NVFP4); weights in other narrow formats are
unpacked to the format of activations (W8A16, W4A16)."""


class Formats(Config, frozen=True, kw_only=True):
    """Formats of what is held and moved. A roofline's time follows bytes and its one peak; compute models that time
    kernels take those of the formats: fp8 and fp4 weights compute in their format, other narrow ones are unpacked."""

    weights: Annotated[Format, Knob("Weights.")] = "bf16"
    experts: Annotated[Format | None, Knob("Weights of routed experts (gpt-oss: mxfp4); left out: as weights.")] = None
    activations: Annotated[Format, Knob("Activations, in memory and in messages.")] = "bf16"
    cache: Annotated[Format, Knob("Keys and values in the cache.")] = "bf16"
    scale_group: Annotated[int | None, Knob("Weights that share one 16-bit scale (GPTQ and AWQ: 128); left out: no "
                                            "scales are counted.", ge=1)] = None
    sparse: Annotated[Literal["none", "2:4"],
                      Knob("2:4: of four weights two are kept, with 2 bits of position each; half of the FLOPs.")
                      ] = "none"


class Compression(Config, frozen=True, kw_only=True):
    """A smaller key-value cache."""

    keep: Annotated[float, Knob("Share of past tokens that stay in the cache (H2O, arXiv 2306.14048: 0.2).",
                                gt=0, lt=1.0000001)] = 1.0
    share: Annotated[int, Knob("Neighbouring layers with one cache (cross-layer attention, arXiv 2405.12981: 2).",
                               ge=1)] = 1


def density(formats: Formats) -> float:
    """Share of the weights that products compute."""
    return 1.0 if formats.sparse == "none" else 0.5


def numbers_of(formats: Formats) -> Numbers:
    """Formats in which kernels compute and memory holds weights and the cache."""
    (product, weights), (experts, expert_weights) = (
        _product(kind, formats) for kind in (formats.weights, formats.experts or formats.weights))
    cached, keys = _unpacked(formats.cache, formats.activations)
    return Numbers(product, experts, _plain(formats.activations), cached, weights, expert_weights, keys)


def assumed(formats: Formats) -> Iterator[str]:
    """Sentences about what kernels of quantised weights do, as far as the formats leave it open."""
    if formats.sparse != "none":        # refused by models that time kernels
        return
    numbers, wide = numbers_of(formats), formats.activations
    pairs = {"products": (numbers.weights, numbers.product)}
    if formats.experts is not None:
        pairs["products of experts"] = numbers.expert_weights, numbers.experts
    for what, (held, computed) in pairs.items():
        if held and held != computed:
            yield f"{what} unpack {held} weights to {computed}"
        elif held and computed != wide:
            yield f"{what} cast activations to {computed} (rows of such kernels time both)"
    if numbers.weights and formats.weights != wide:
        yield f"logits are computed in {wide}, with weights of that format, as checkpoints leave the head"
    if formats.scale_group:
        yield "scales of groups count as bytes of memory, not in the times of kernels"


def _product(weights: Format, formats: Formats) -> tuple[str, str]:
    """(format in which a product computes, format of quantised weights)."""
    computed, held = _unpacked(weights, formats.activations)
    if held in CAST:
        computed = held
    if computed == weights and BYTES[weights] < BYTES["bf16"]:
        held = weights
    return computed, f"{weights} {formats.sparse}" if formats.sparse != "none" else held


def _unpacked(stored: Format, other: Format) -> tuple[str, str]:
    """(the wider of two operands' formats, to which the other is unpacked; the stored one's where it is quantised)."""
    wider = _plain(max(other, stored, key=BYTES.__getitem__))
    return wider, stored if BYTES[stored] < min(BYTES[other], BYTES["bf16"]) else ""


def _plain(name: Format) -> str:
    return "fp4" if name == "mxfp4" else name


def widths_of(formats: Formats) -> Mapping[str, float]:
    """Bytes per element, of weights per element of the dense matrix."""
    weights = _stored(formats, formats.weights)
    experts = {} if formats.experts is None else {"experts": _stored(formats, formats.experts)}
    return MappingProxyType({"weights": weights, **experts, "activations": BYTES[formats.activations], "gradients": 0.0,
                             "state": BYTES[formats.cache], "stats": 4.0, "mask": 1.0, "index": 8.0})


def _stored(formats: Formats, kind: Format) -> float:
    """Bytes of a weight in a format, with its share of a scale (where the format has none of its own) and positions."""
    scale = 2 / formats.scale_group if formats.scale_group and kind != "mxfp4" else 0.0
    size = BYTES[kind] + scale
    return size if formats.sparse == "none" else (size + 2 / 8) * density(formats)
