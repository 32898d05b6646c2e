"""Utilisation, throughput and price of training.

MFU = model FLOPs of a step / (step time * peak of all its NPUs); HFU has the FLOPs that are executed in their place.
What counts is in `workload.flops`: Chowdhery et al., PaLM, arXiv 2204.02311, appendix B; Korthikanti et al., arXiv
2205.05198, section 6.3. The peak is that of the number format in which products with weights are computed
(`workload.precision.products`): a step in fp8 is measured against the fp8 peak, as MosaicML Composer's
SpeedMonitor does. A roofline has one peak, at the precision of the workload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from astrarium.compute.config import Compute
from astrarium.cost.figure import Figure, plain_number, refuse_without, without
from astrarium.cost.rent import rent_per_hour
from astrarium.cost.tokens import TERA, ns_of, seconds_of, sequence_of, tokens_of, training_of
from astrarium.design import Design, npu_types
from astrarium.errors import InputError
from astrarium.lower.plan import placement_of
from astrarium.result import Result

if TYPE_CHECKING:       # other workloads start without them
    from astrarium.workload.precision import Precision
    from astrarium.workload.transformer import Transformer

__all__ = ["COST_PER_TERA_TOKENS", "HFU", "MFU", "SAMPLES", "TFLOPS_PER_NPU", "TOKENS", "TOKENS_PER_NPU",
           "conditions"]

LEAST = 1e-300      # above 0, so that it may divide
HOUR = 3600.0


def conditions(design: Design) -> dict[str, object]:
    """What holds for every figure of a training step: sequence length, batch, precision, where times of kernels and
    collectives come from, software stack (None: none is named), the peaks that utilisation refers to. Empty for other
    workloads."""
    if design.workload.tag != "transformer":
        return {}
    work = training_of("conditions", design)
    products = _products(work.precision)
    types = [compute for compute, _ in npu_types(design)[1]]
    peaks = sorted({_rate_at(compute, products) or 0.0 for compute in types} - {0.0})
    return {"sequence_tokens": sequence_of(work), "global_batch": work.global_batch, "ranks": work.ranks,
            "precision": _precision(work.precision), "peak_precision": products, "peak_flop_per_ns": peaks,
            "kernels": sorted({compute.tag for compute in types}), "collectives": design.collective.model,
            "stack": design.stack}


def _products(said: Precision) -> str:
    """The number format in which products with weights are computed."""
    from astrarium.workload.precision import BYTES

    return said.products or max(said.weights, said.activations, key=BYTES.__getitem__)


def _rate_at(compute: Compute, precision: str) -> float | None:
    """The peak of a compute model in a number format; None where it has none."""
    try:
        return compute.peak_at(precision)
    except InputError:
        return None


def _precision(said: Precision) -> str:
    """`bf16`, or each role whose format differs from the activations'."""
    others = [f"{name} {value}" for name in ("products", "weights", "gradients")
              if (value := getattr(said, name)) is not None and value != said.activations]
    return ", ".join([f"activations {said.activations}" if others else said.activations, *others])


def _model_flops(work: Transformer) -> float:
    from astrarium.workload.flops import model_flops

    return model_flops(work)


def _executed_flops(work: Transformer) -> float:
    from astrarium.workload.flops import executed_flops

    return executed_flops(work)


def _peak(design: Design) -> float:
    """Flop/ns of the NPUs of all ranks, at the precision of the products."""
    kinds, types = npu_types(design)
    products = _products(training_of("peak", design).precision)
    counts = np.bincount(kinds[placement_of(design)], minlength=len(types))
    return sum(int(count) * (_rate_at(compute, products) or 0.0) for count, (compute, _) in
               zip(counts, types, strict=True))


def _utilisation(name: str, label: str, flops: Callable[[Transformer], float]) -> Figure:
    def check(design: Design) -> None:
        products = _products(training_of(name, design).precision)
        refuse_without(name, list(without(design, "peak")), "such as 989 TFLOP/s, at the precision of the workload")
        if any(_rate_at(compute, products) is None for compute, _ in npu_types(design)[1]):
            raise InputError(name, f"is not known: the device has no peak at {products}", expected="another precision")

    def measure(design: Design, result: Result) -> float:
        check(design)
        return flops(training_of(name, design)) / (ns_of(result) * _peak(design))

    return Figure(of_both=measure, over_cases="mean", least=LEAST, check=check, label=label,
                  shown=lambda value: f"{100 * value:.1f} %", of_time=-1)


def _rate(name: str, label: str, unit: str, amount: Callable[[Transformer], float]) -> Figure:
    def measure(design: Design, result: Result) -> float:
        return amount(training_of(name, design)) / ns_of(result) * 1e9

    return Figure(of_both=measure, over_cases="mean", least=LEAST, check=lambda design: training_of(name, design),
                  label=label, shown=lambda value: f"{plain_number(value)} {unit}", of_time=-1)


def _tokens(work: Transformer) -> float:
    return float(work.global_batch) * sequence_of(work)


def _check_price(design: Design) -> None:
    training_of("cost_per_tera_tokens", design)
    if design.cost.rental is None:
        refuse_without("cost_per_tera_tokens", list(without(design, "hourly_price")),
                       "US dollars of an NPU for an hour, or cost.rental")


def _price(design: Design, result: Result) -> float:
    _check_price(design)
    return (rent_per_hour(design) or 0.0) / HOUR * seconds_of(result) / tokens_of("cost_per_tera_tokens", design) * TERA


MFU = _utilisation("mfu", "MFU", _model_flops)
HFU = _utilisation("hfu", "HFU", _executed_flops)
TFLOPS_PER_NPU = _rate("model_tflops_per_npu", "model FLOPs per NPU", "TFLOP/s/NPU",
                       lambda work: _model_flops(work) / work.ranks / TERA)
TOKENS = _rate("tokens_per_second", "tokens", "tokens/s", _tokens)
TOKENS_PER_NPU = _rate("tokens_per_second_per_npu", "tokens per NPU", "tokens/s/NPU",
                       lambda work: _tokens(work) / work.ranks)
SAMPLES = _rate("samples_per_second", "samples", "samples/s", lambda work: float(work.global_batch))
COST_PER_TERA_TOKENS = Figure(of_both=_price, over_cases="mean", check=_check_price, label="price of 10^12 tokens",
                              shown=lambda value: f"{value:,.0f} US dollars", of_time=1)
