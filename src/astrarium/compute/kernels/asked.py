"""What kernels ask of a device's model: the class, precision and shape of the rows that answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from astrarium.arrays import F64, I64
from astrarium.compute.kernels.backward import BACKWARD_WORK, slowdown
from astrarium.compute.kernels.choice import is_torch
from astrarium.compute.kernels.machine import BYTES, WEIGHT_ONLY
from astrarium.compute.kernels.model import DeviceModel, Site
from astrarium.compute.kernels.rows import FEW
from astrarium.compute.kernels.tiles import LAYOUTS
from astrarium.engine.plugins.kernels import Columns
from astrarium.errors import InputError, nearest

__all__ = ["KINDS", "SCANS", "STREAMS", "Asked", "asked_of", "normalised"]

STREAMS = ("normalisation", "pointwise", "embedding", "optimizer", "quantisation", "scan")
"""Kinds that move bytes and compute little; a scan with a shape has its own rows on devices that measured it."""
LEAST_HEADS = 64.0
"""Of sparse latent attention in prompts (FlashMLA's `flash_mla_sparse_fwd`; SGLang pads fewer)."""
SCANS = "bf16"
"""Operands of the rows of scans, whose states are in fp32."""
SIXTEEN = {"fp16": "bf16"}
"""Precision -> whose rows of PyTorch it takes."""
ABSORBED = 512      # rank of latent keys and values: the longest side of absorbed matrices
KINDS = ("gemm", "grouped_gemm", "attention", "attention_backward", "mla", *STREAMS)


class Asked(NamedTuple):
    """What kernels ask of a device's model: the part `family`/`precision`, for weights or a cache that memory holds in
    the format `held` (see Kernel); the kernel at `place` [n] takes the time of `shape` [columns, n] so many `times`
    [n]. `site`: the model whose kernels they are, as far as rows tell models apart (see model.Part); `op`: see Kernel,
    and of attention's backward pass `backward`."""

    family: str
    precision: str
    held: str
    place: I64
    shape: F64
    times: F64
    site: Site | None = None
    op: str = ""

    def where(self, chosen: npt.NDArray[Any]) -> Asked:
        """The kernels of a mask."""
        if chosen.all():
            return self
        return self._replace(place=self.place[chosen], shape=self.shape[:, chosen], times=self.times[chosen])

    def by_site(self) -> Iterator[Asked]:
        """The kernels of each model separately."""
        if self.family in ("attention", "decode"):
            sites = np.rint(self.shape[5:7])
        elif self.family == "experts":
            sites = np.rint(np.stack([self.shape[0] * self.shape[5], self.shape[3]])) * (self.shape[4] > 0)
        else:
            sites = np.zeros((2, 0))
        if not sites.size or (sites == sites[:, :1]).all():
            yield self._replace(site=_site(sites[:, 0])) if sites.size else self
            return
        for each in np.unique(sites, axis=1).T:
            yield self.where((sites == each[:, None]).all(axis=0))._replace(site=_site(each))


def _site(numbers: F64) -> Site | None:
    return (int(numbers[0]), int(numbers[1])) if numbers.any() else None


def _products(part: Columns) -> Iterator[Asked]:
    """What products with weights ask; that of one expert is a product like others."""
    shape, precision = part.shape.astype(np.float64), _weight_only(part)
    plain = np.full(len(part.place), part.kind == "gemm") | (len(shape) == 4) & (shape[0] == 1)
    if plain.any():
        yield Asked("gemm", precision, part.held, part.place, shape, part.flops / (2.0 * np.prod(shape, axis=0)),
                    op=part.op).where(plain)
    if not plain.all():
        yield _layers(part, shape, precision).where(~plain)


def _layers(part: Columns, shape: F64, precision: str) -> Asked:
    """What products of experts ask."""
    if len(shape) == 4:
        rest = np.tile(np.array([[0.0], [1.0], [0.0]]), shape.shape[1])
    else:
        rest = np.stack([shape[4], shape[5], shape[6] / 100])
    whole = np.concatenate([shape[:4], rest])
    _, m, n, k, second, _, _ = whole
    times = np.where(second > 0, 1.0, part.flops / (2.0 * m * k * (n + second)))    # rows of layers: the busiest rank's
    return Asked("experts", precision, part.held, part.place, whole, times)


def _attention(part: Columns) -> Iterator[Asked]:
    """What attention asks, and a multi-token query of latent attention, in which each query has its own keys and the
    kernel computes 64 heads at least (sparse)."""
    batch, heads, kv_heads, queries, keys, long, value = part.shape.astype(np.float64)
    times = part.flops / (2.0 * batch * heads * queries * keys * (long + value) * part.work)
    backward = part.kind == "attention_backward"
    if backward:
        times = times * slowdown(queries)
    cache = np.full(len(times), BYTES.get(part.held or part.precision, BYTES["bf16"]))
    whole = np.stack([batch, heads, kv_heads, queries, keys, long, value, part.work, cache])
    narrow = BYTES.get(part.precision, 2.0) < BYTES["bf16"]
    scores, many = value == 0, queries > FEW
    if part.kind == "mla":
        masks = {"indexer": scores, "sparse": ~scores & many, "mla": ~scores & ~many}
    else:
        masks = {"indexer": scores, "decode": ~scores & (queries == 1), "attention": ~scores & (queries != 1)}
    for family, mask in masks.items():
        if not mask.any():
            continue
        precision, held = part.precision, part.held
        if family in ("indexer", "sparse"):
            precision, held = "bf16", ""
        elif family != "attention" and narrow:
            precision, held = "bf16", part.held or part.precision
        found = Asked(family, precision, held, part.place, whole, times, op="backward" * backward).where(mask)
        if family == "sparse":
            _, heads, _, _, keys, _, _, work, _ = found.shape
            found = found._replace(shape=np.stack([
                found.shape[0], np.maximum(heads, LEAST_HEADS), *found.shape[2:4], np.maximum(1.0, keys * work),
                *found.shape[5:7], np.ones(len(work)), found.shape[8]]))
        yield found


def normalised(parts: Iterable[Columns]) -> Iterator[Asked]:
    """What kernels with a shape ask of a model. Decoding is measured with queries of 16 bits, whatever the cache's
    format: narrower queries take those rows. Raises InputError for shapes that are none of the kind."""
    for part in parts:
        _check(part)
        if part.kind == "scan":
            yield Asked("delta", SCANS, "", part.place, part.shape.astype(np.float64),
                        np.maximum(1, part.launches).astype(np.float64))
        elif part.kind in ("gemm", "grouped_gemm"):
            yield from _products(part)
        else:
            yield from _attention(part)


def _check(part: Columns) -> None:
    if part.kind not in KINDS:
        raise InputError("kernel.kind", f"{part.kind[:60]!r} has no predicted time",
                         expected="one of " + ", ".join(KINDS), did_you_mean=nearest(part.kind, KINDS))
    if part.kind == "scan":
        return
    wanted = {"gemm": (4,), "grouped_gemm": (4, 7)}.get(part.kind, (7,))
    least = np.where(np.arange(len(part.shape)) < 6, 1, 0)
    wrong = (part.shape < least[:, None]).any(axis=0) | (len(part.shape) not in wanted)
    for row in np.flatnonzero(wrong)[:1].tolist():
        raise InputError("kernel.shape", f"{part.kernel(row).shape} does not describe a kernel of kind {part.kind}",
                         expected=" or ".join(map(str, wanted)) + " positive numbers")


def _weight_only(kernel: Columns) -> str:
    """The name of the rows of a product: its precision, or that of kernels with narrower weights. Raises InputError."""
    computed, held = kernel.precision, kernel.held
    name = computed if held in ("", computed) else WEIGHT_ONLY.get((computed, held))
    if name is None:
        known = [computed, *(weights for bits, weights in WEIGHT_ONLY if bits == computed)]
        raise InputError("workload", f"products in {computed} of what is held in {held} have no measured kernels",
                         expected=f"weights in {', '.join(known)}" + f", or products in {held}" * (held in BYTES))
    return name


def asked_of(model: DeviceModel, parts: Iterable[Columns], framework: str | None = None) -> Iterator[Asked]:
    """`normalised`, by the classes that the device has rows of, and by models: sparse attention as latent decoding, an
    indexer's scores as attention with values of one number, and so in decoding, of whose kernel (paged) no device has
    rows. Absorbed products (one of each head) and prompts of latent attention have their own classes where rows
    exist."""
    for asked in normalised(parts):
        own = in_torch(asked) if is_torch(framework) else asked
        if own is not asked and f"{own.family}/{SIXTEEN.get(own.precision, own.precision)}" in model.parts:
            yield own
            continue
        for each in _measured(model, asked):
            yield from each.by_site()


def in_torch(asked: Asked) -> Asked:
    """What PyTorch's own kernels are asked; the same where it has no rows of such."""
    shape, one = asked.shape, np.ones(len(asked.place))
    if asked.held:
        return asked
    if asked.family == "gemm" and asked.op in LAYOUTS:
        return asked._replace(family="product", shape=np.stack([*shape, LAYOUTS.index(asked.op) * one]))
    if asked.family == "experts" and not shape[4].any():
        return asked._replace(family="grouped", shape=np.stack([shape[0], shape[1] / shape[0], *shape[2:4], 0 * one]))
    if asked.family == "attention" and asked.op:
        return asked._replace(family="fused_backward", times=asked.times / slowdown(shape[3]) / BACKWARD_WORK)
    family = {"attention": "fused", "decode": "fused_decode"}.get(asked.family)
    return asked._replace(family=family) if family else asked


def _measured(model: DeviceModel, asked: Asked) -> Iterator[Asked]:
    shape, masks = asked.shape, {asked.family: np.ones(len(asked.place), np.bool_)}

    def apart(family: str, chosen: npt.NDArray[np.bool_]) -> None:
        masks[asked.family], masks[family] = masks[asked.family] & ~chosen, chosen

    if asked.family == "gemm" and f"bmm/{asked.precision}" in model.parts:
        apart("bmm", (shape[0] > 1) & (shape[2:].max(axis=0) <= ABSORBED))
    elif asked.family == "attention" and f"latent/{asked.precision}" in model.parts:
        apart("latent", shape[5] != shape[6])
    elif asked.family == "sparse" and "sparse/bf16" not in model.parts:
        asked = asked._replace(family="mla")
        masks = {"mla": masks["sparse"]}
    elif asked.family == "indexer":
        single, rows = shape[3] == 1, "indexer/bf16" in model.parts
        masks = {"decode": single, "indexer" if rows else "attention": ~single}
        asked = asked._replace(shape=np.concatenate([shape[:6], np.where(single | (not rows), 1.0, shape[6:7]),
                                                     shape[7:]]))
    for family, mask in masks.items():
        if mask.any():
            yield asked.where(mask)._replace(family=family)
