"""The fitted model of one device: its machine and a forest for each operator class and precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.compute.kernels import attention, experts, gemm
from astrarium.compute.kernels.correction import Correction
from astrarium.compute.kernels.forest import I16, Forest, fixed_point
from astrarium.compute.kernels.machine import STANDS_IN, WEIGHT_ONLY, Machine
from astrarium.compute.kernels.table import F64, Described
from astrarium.errors import InputError, nearest

__all__ = ["FAMILIES", "DeviceModel", "Part"]

Describe = Callable[[F64, str, Machine, F64], Described]
FAMILIES: Mapping[str, tuple[tuple[str, ...], Describe]] = MappingProxyType({
    "gemm": (gemm.COLUMNS, gemm.describe),
    "attention": (attention.COLUMNS, attention.describe),
    "decode": (attention.COLUMNS, attention.decode),
    "mla": (attention.COLUMNS, attention.latent),
    "experts": (experts.COLUMNS, experts.describe),
})
"""Operator class -> (shape columns, base and features)."""
QUANTISED = "vllm"
"""Whose products with quantised weights are the default. TensorRT-LLM's rows in fp8 and fp4 have its scaling of
activations in several kernels (12 us for the smallest product, vLLM's 5), and its servers do not run so."""


class Part(Struct, frozen=True, eq=False):
    """A forest of log2(measured / base); `variants` number its option; `default` is the one taken when none is asked.

    `error`: figures of rows left out of the fit, per cent. `caches`: formats of the cache in attention's rows, by
    variant.
    """

    forest: Forest
    variants: tuple[str, ...]
    default: str
    rows: int
    error: Mapping[str, Any]
    caches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class DeviceModel(Struct, frozen=True, eq=False):
    """`parts`: "family/precision" -> Part; `corrections`: of a user's own rows, by the same names; `sustained`: the
    part of the machine's peaks to which residuals are relative (`power`)."""

    machine: Machine
    parts: Mapping[str, Part]
    version: str
    notice: str
    corrections: Mapping[str, Correction] = field(default_factory=dict)
    sustained: float = 1.0

    def part(self, family: str, precision: str) -> Part:
        """The part of a class and precision, or of the precision that stands in for it."""
        for name in (precision, *STANDS_IN.get(precision, ())):
            if f"{family}/{name}" in self.parts:
                return self.parts[f"{family}/{name}"]
        known = [name.partition("/")[2] for name in self.parts if name.startswith(f"{family}/")]
        held = next((f" (weights in {held})" for (_, held), name in WEIGHT_ONLY.items() if name == precision), "")
        raise InputError(f"compute.device {self.machine.name}", f"no measured rows of {family} at {precision}{held}",
                         expected=f"{family} at one of " + ", ".join(known) if known else "one of " + ", ".join(
                             self.parts), did_you_mean=nearest(precision, known))

    def check_framework(self, framework: str | None) -> None:
        """Raises InputError where no part was measured with a framework."""
        known = sorted({name for part in self.parts.values() for each in part.variants
                        for name in (each, each.split("/", maxsplit=1)[0])})
        if framework is not None and framework not in known:
            raise InputError("compute.framework", f"{framework[:60]!r} was not measured on {self.machine.name}",
                             expected="one of " + ", ".join(known), did_you_mean=nearest(framework, known))

    def variant(self, part: Part, framework: str | None) -> int:
        """The number of a framework ("trtllm" or "trtllm/1.3.0rc20"; None: the default), its last version first."""
        if framework is None:
            return part.variants.index(part.default)
        for name in reversed(part.variants):
            if framework in (name, name.split("/", maxsplit=1)[0]):
                return part.variants.index(name)
        self.check_framework(framework)
        raise InputError("compute.framework", f"{framework} has no rows of these kernels on {self.machine.name}",
                         expected="one of " + ", ".join(part.variants))

    def chosen(self, family: str, precision: str, held: str, framework: str | None) -> str:
        """The variant that answers for kernels whose weights or cache memory holds in the format `held` ("": as wide as
        the rest): the framework's last version; None: the default, or the one that `held` needs. Raises InputError."""
        part = self.part(family, precision)
        first = part.variants[self.variant(part, framework)]
        names = (first,) if framework is not None or not held else (first, *reversed(part.variants))
        if family == "gemm":
            return next((name for name in names if name.startswith(QUANTISED)), first)
        for name in names:
            if not (held and part.caches) or held in part.caches[name]:
                return name
        known = sorted({each for name in names for each in part.caches[name]})
        raise InputError(f"compute.device {self.machine.name}", f"no measured rows of {family} at {precision} with a "
                         f"cache in {held}" + ("" if framework is None else f" ({first})"),
                         expected="a cache in " + " or ".join(known), did_you_mean=nearest(held, known))

    def latency_ns(self, family: str, precision: str, shape: F64, framework: str | None = None,
                   clock: float = 1.0) -> F64:
        """Predicted time, ns [n], of kernels `shape` f64 [columns of the family, n]; `clock`: a part of the measured
        one, which lengthens what is bound by arithmetic and leaves what is bound by memory."""
        part = self.part(family, precision)
        option = np.full(shape.shape[1], float(self.variant(part, framework)))
        describe, machine = FAMILIES[family][1], self.machine.at(self.sustained)
        described = describe(shape, precision, machine, option)
        slower = 1.0 if clock == 1 else describe(shape, precision, machine.at(clock), option).base / described.base
        columns = fixed_point(described.features)
        exponent = part.forest(columns)
        correction = self._correction(family, precision)
        if correction is not None:
            exponent = exponent + correction(columns)
        return slower * described.base * np.exp2(exponent)

    def _correction(self, family: str, precision: str) -> Correction | None:
        """A user's rows of the class at the precision; of fp16 those of bf16 stand in, and the other way round."""
        both = ("fp16", "bf16") if precision in ("fp16", "bf16") else ()
        return next((self.corrections[f"{family}/{name}"] for name in (precision, *both)
                     if f"{family}/{name}" in self.corrections), None)

    def residual(self, family: str, precision: str, shape: F64, ns: F64) -> tuple[I16, F64]:
        """(features, log2(ns / predicted)) of measured kernels, without a correction."""
        option = np.full(len(ns), float(self.variant(self.part(family, precision), None)))
        machine = self.machine.at(self.sustained)
        columns = fixed_point(FAMILIES[family][1](shape, precision, machine, option).features)
        plain = replace(self, corrections=MappingProxyType({}))
        return columns, np.log2(ns / plain.latency_ns(family, precision, shape))
