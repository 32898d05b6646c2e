"""Heads of ordinary attention: their sizes and dims, also where layers of one model have different ones."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from astrarium.workload.graph import Options
from astrarium.workload.graph.layout import Size
from astrarium.workload.graph.options import usual_axes
from astrarium.workload.model.cached import HeadDims, LayerKind, kv_heads
from astrarium.workload.model.decoder_shape import Shape

__all__ = ["HeadSizes", "head_axes", "head_dims", "head_sizes", "sizes_of"]

DIMS = ("kv_heads", "head", "head_v")
FULL = ".full"          # ends the dims of layers that look at all tokens, where their heads are others


class HeadSizes(NamedTuple):
    """Key and value heads of a layer, lengths of a key and of a value, and whether values have a matrix."""

    kv: int
    key: Fraction
    value: Fraction
    projected: bool = True
    sinks: bool = False


def sizes_of(model: Shape, kind: LayerKind) -> HeadSizes:
    """The heads of a layer with attention."""
    full = model.full_heads
    if full is None or kind.window is not None:
        return HeadSizes(model.groups, model.head, Fraction(model.value_size or model.head), sinks=model.sinks)
    key = Fraction(full.head_size or model.head)
    value = Fraction(model.value_size) if model.value_size and full.head_size is None else key
    return HeadSizes(full.kv_heads, key, value, not full.keys_are_values, model.sinks and full.sinks)


def head_dims(model: Shape, kind: LayerKind) -> HeadDims:
    """The dims of a layer with attention."""
    end = FULL if model.full_heads is not None and kind.window is None else ""
    sizes = sizes_of(model, kind)
    return HeadDims(*(f"{dim}{end}" for dim in (DIMS[0], DIMS[1], DIMS[1] if sizes.key == sizes.value else DIMS[2])))


def head_sizes(model: Shape, options: Options) -> Mapping[str, Size]:
    """Sizes of these dims."""
    found: dict[str, Size] = {}
    for end, kind in (("", LayerKind(False, 1)), (FULL, LayerKind(False, None))):
        each = sizes_of(model, kind)
        sizes: tuple[Size, ...] = (kv_heads(each.kv, options), each.key, each.value)
        found |= {f"{dim}{end}{q}": size for q in ("", ".q") for dim, size in zip(DIMS, sizes, strict=True)}
    return MappingProxyType(found)


def head_axes(options: Options) -> Mapping[str, tuple[str, ...]]:
    """Axes of the dims of layers that look at all tokens."""
    usual = usual_axes(options)
    return MappingProxyType({f"kv_heads{FULL}": usual["kv_heads"], f"kv_heads{FULL}.q": usual["kv_heads.q"]})
