"""The fitted model of one device: its machine and a forest for each operator class and precision."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.arrays import F64, I16
from astrarium.compute.kernels import attention, delta, experts, fused, gemm, tiles
from astrarium.compute.kernels.artefacts import artefact
from astrarium.compute.kernels.choice import FASTEST, TORCH, framework_of, is_torch, newest
from astrarium.compute.kernels.correction import Correction
from astrarium.compute.kernels.forest import Forest, fixed_point
from astrarium.compute.kernels.machine import STANDS_IN, WEIGHT_ONLY, Machine
from astrarium.compute.kernels.power import Chip
from astrarium.compute.kernels.rowwise import Rowwise
from astrarium.compute.kernels.table import Curve, Described, along
from astrarium.errors import InputError, nearest

__all__ = ["FAMILIES", "DeviceModel", "FamilyModel"]

Describe = Callable[[F64, str, Machine, F64], Described]
Site = tuple[int, int]
FAMILIES: Mapping[str, tuple[tuple[str, ...], Describe]] = MappingProxyType({
    "gemm": (gemm.COLUMNS, gemm.describe),
    "bmm": (gemm.COLUMNS, gemm.describe),
    "attention": (attention.COLUMNS, attention.describe),
    "latent": (attention.COLUMNS, attention.describe),
    "decode": (attention.COLUMNS, attention.decode),
    "mla": (attention.COLUMNS, attention.latent),
    "experts": (experts.COLUMNS, experts.describe),
    "delta": (delta.COLUMNS, delta.describe),
    "sparse": (attention.COLUMNS, attention.latent),
    "indexer": (attention.COLUMNS, attention.indexer),
    "product": (tiles.COLUMNS, tiles.describe),
    "grouped": (tiles.COLUMNS, tiles.describe),
    "fused": (fused.COLUMNS, fused.forward),
    "fused_backward": (fused.COLUMNS, fused.backward),
    "fused_decode": (fused.COLUMNS, fused.decode),
})
"""Operator class -> (shape columns, base and features)."""
PYTORCH = ("product", "grouped", "fused", "fused_backward", "fused_decode")
"""Classes as PyTorch runs them."""
TORCH_FAMILY = MappingProxyType({"gemm": "product", "attention": "fused", "decode": "fused_decode"})
"""Class of others' rows -> that of PyTorch's."""


class FamilyModel(Struct, frozen=True, eq=False):
    """A forest of log2(measured / base); `variants` number its option; `default` is the one taken when none is asked.

    `error`: figures of rows left out of the fit, per cent. Of each variant: `caches`, formats of the cache in
    attention's rows; `counts`, rows; `sites`, models whose kernels it measured: (experts of a layer, columns that they
    take), or of attention (length of a key, of a value); `casts`, rising (elements, ns) of the cast of the activation
    that rows of products contain. `device`: whose rows they are, if another's.
    """

    forest: Forest
    variants: tuple[str, ...]
    default: str
    rows: int
    error: Mapping[str, Any]
    caches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    sites: Mapping[str, tuple[Site, ...]] = field(default_factory=dict)
    casts: Mapping[str, Curve] = field(default_factory=dict)
    device: str = ""


class DeviceModel(Struct, frozen=True, eq=False):
    """`parts`: "family/precision" -> FamilyModel; `corrections`: of a user's own rows, by the same names; `sustained`:
    the part of the machine's peaks to which residuals are relative (`power`); `streams`: operator of PyTorch -> rising
    (bytes, ns); `rowwise`: operator -> constants of kernels whose rows and columns are known; `slower`: operator ->
    rising (bytes, factor of its time), of a user's own rows; `chip`: what it draws, if its own rows say so;
    `framework`: whose kernels answer where a design names none; "": the default; `seen`: numbers of the rows of kernels
    on which it was fitted, as `validate` numbers them."""

    machine: Machine
    parts: Mapping[str, FamilyModel]
    version: str
    notice: str
    corrections: Mapping[str, Correction] = field(default_factory=dict)
    sustained: float = 1.0
    streams: Mapping[str, Curve] = field(default_factory=dict)
    rowwise: Mapping[str, Rowwise] = field(default_factory=dict)
    slower: Mapping[str, Curve] = field(default_factory=dict)
    chip: Chip | None = None
    framework: str = ""
    seen: frozenset[int] = frozenset()

    def part(self, family: str, precision: str) -> FamilyModel:
        """The part of a class and precision, or of the precision that stands in for it."""
        return self.parts[f"{family}/{self._measured(family, precision)}"]

    def _measured(self, family: str, precision: str) -> str:
        """The precision, or the one that stands in for it."""
        for name in (precision, *STANDS_IN.get(precision, ())):
            if f"{family}/{name}" in self.parts:
                return name
        known = [name.partition("/")[2] for name in self.parts if name.startswith(f"{family}/")]
        held = next((f" (weights in {held})" for (_, held), name in WEIGHT_ONLY.items() if name == precision), "")
        raise InputError(f"compute.device {self.machine.name}", f"no measured rows of {family} at {precision}{held}",
                         expected=f"{family} at one of " + ", ".join(known) if known else "one of " + ", ".join(
                             self.parts), did_you_mean=nearest(precision, known))

    def check_framework(self, framework: str | None) -> None:
        """Raises InputError where no part was measured with a framework."""
        known = sorted({name for part in self.parts.values() for each in part.variants
                        for name in (each, framework_of(each))})
        if framework is not None and framework not in (FASTEST, TORCH, *known):
            raise InputError("compute.framework", f"{framework[:60]!r} was not measured on {self.machine.name}",
                             expected="one of " + ", ".join(sorted({FASTEST, TORCH, *known})),
                             did_you_mean=nearest(framework, (TORCH, *known)))

    @functools.lru_cache(maxsize=1024)      # noqa: B019
    def candidates(self, family: str, precision: str, held: str = "", framework: str | None = None,
                   site: Site | None = None) -> tuple[str, ...]:
        """The variants of which the fastest answers for kernels of a class.

        A framework without rows of the class, artefacts left out, takes the fastest of the others.

        Args:
            family: The class.
            precision: The precision of its rows.
            held: The format in which memory holds weights or a cache, where it is narrower than the rest; else "".
            framework: A framework (its newest version), a version ("trtllm/1.3.0rc20"), `fastest`, or None: the
                default, with quantised weights the fastest.
            site: The model (see FamilyModel.sites); variants that measured it answer, if there are any.
        """
        self.check_framework(framework)
        part = self.part(family, precision)
        names = [name for name in part.variants if not (held and part.caches) or held in part.caches[name]]
        if not names:
            known = sorted({each for kinds in part.caches.values() for each in kinds})
            raise InputError(f"compute.device {self.machine.name}", f"no measured rows of {family} at {precision} with "
                             f"a cache in {held}", expected="a cache in " + " or ".join(known),
                             did_you_mean=nearest(held, known))
        if framework in names:
            return (framework,)
        measured = [name for name in names if site in part.sites.get(name, ())]
        names = measured or names
        if framework is None and part.default in names and (part.caches or not held):
            return (part.default,)
        own = self._measured(family, precision)
        real = [name for name in names if not artefact(self.machine.name, family, own, name)] or names
        chosen = sorted([name for name in real if framework == framework_of(name)] or real,
                        key=lambda name: name != part.default)      # of equal versions the first one answers
        return newest(chosen, {} if measured else part.counts)

    def stand_in(self, family: str, precision: str, framework: str | None) -> str:
        """What answers for kernels without rows of their own, as a sentence; "": they have rows."""
        torch = self.parts.get(f"{TORCH_FAMILY.get(family)}/{precision}") if is_torch(framework) else None
        if torch is not None:
            return torch.device and (f"{self.machine.name} has no rows of PyTorch's {family} at {precision}: those of "
                                     f"{torch.device} stand in")
        part, where, own = self.part(family, precision), self.machine.name, self._measured(family, precision)
        if own != precision:
            return f"{where} has no rows of {family} at {precision}: the efficiency of {own} stands in"
        if framework in (None, FASTEST) or framework in part.variants:
            return ""
        if any(framework_of(name) == framework and not artefact(where, family, precision, name)
               for name in part.variants):
            return ""
        found = artefact(where, family, precision, framework)
        why = f" but artefacts ({found.reason})" if found is not None else ""
        return f"{framework} has no rows of {family} at {precision} on {where}{why}: the fastest others stand in"

    def latency_ns(self, family: str, precision: str, shape: F64, framework: str | None = None,
                   clock: float = 1.0, *, alone: bool = False) -> F64:
        """Predicted time, ns [n], of kernels `shape` f64 [columns of the family, n]; `clock`: a part of the measured
        one, which lengthens what is bound by arithmetic and leaves what is bound by memory; `alone`: see `fastest_ns`.
        """
        variants = self.candidates(family, precision, framework=framework)
        return self.fastest_ns(family, precision, shape, variants, clock, alone=alone)

    def fastest_ns(self, family: str, precision: str, shape: F64, variants: Sequence[str], clock: float = 1.0, *,
                   alone: bool = False) -> F64:
        """`latency_ns` of the fastest of several variants, for each kernel; `alone`: of products without the casts of
        their activations that rows contain."""
        part = self.part(family, precision)
        numbers = [part.variants.index(name) for name in variants]
        option = np.full(shape.shape[1], float(numbers[0]))
        describe, machine = FAMILIES[family][1], self._running(family)
        described = describe(shape, precision, machine, option)
        slower = 1.0 if clock == 1 else describe(shape, precision, machine.at(clock), option).base / described.base
        columns, correction = fixed_point(described.features), self._correction(family, precision)
        row = next(place for place, each in enumerate(described.features) if each is option)
        exponents = part.forest.each(columns, row, numbers) if len(numbers) > 1 else part.forest(columns)[None]
        if alone and part.casts:
            exponents = np.stack([np.log2(self.without_cast(family, precision, name, shape, described.base * np.exp2(
                each)) / described.base) for name, each in zip(variants, exponents)])
        if correction is not None:
            for place, number in enumerate(numbers):
                columns[row] = fixed_point(float(number))
                exponents[place] += correction(columns)
        found: F64 = slower * described.base * np.exp2(exponents.min(axis=0))
        return found

    def _running(self, family: str) -> Machine:
        """The machine to which residuals of a class are relative: PyTorch's to the whole data sheet."""
        return self.machine if family in PYTORCH else self.machine.at(self.sustained)

    def without_cast(self, family: str, precision: str, variant: str, shape: F64, ns: F64) -> F64:
        """Times `ns` [n] of a variant's products without the cast of the activation, at least those of the data sheet.
        """
        casts = self.part(family, precision).casts
        if variant not in casts:
            return ns
        batch, m, _, k = shape
        least = FAMILIES[family][1](shape, precision, self.machine, np.zeros(len(m))).base
        return np.maximum(least, ns - along(casts[variant], batch * m * k))

    def _correction(self, family: str, precision: str) -> Correction | None:
        """A user's rows of the class at the precision; of fp16 those of bf16 stand in, and the other way round."""
        both = ("fp16", "bf16") if precision in ("fp16", "bf16") else ()
        return next((self.corrections[f"{family}/{name}"] for name in (precision, *both)
                     if f"{family}/{name}" in self.corrections), None)

    def residual(self, family: str, precision: str, shape: F64, ns: F64, variant: str = "", *, alone: bool = False
                 ) -> tuple[I16, F64]:
        """(features, log2(ns / predicted)) of measured kernels of a variant ("": the default), without a correction;
        `alone`: see `fastest_ns`."""
        part = self.part(family, precision)
        variant = variant or part.default
        option = np.full(len(ns), float(part.variants.index(variant)))
        machine = self._running(family)
        columns = fixed_point(FAMILIES[family][1](shape, precision, machine, option).features)
        plain = replace(self, corrections=MappingProxyType({}))
        return columns, np.log2(ns / plain.fastest_ns(family, precision, shape, (variant,), alone=alone))
