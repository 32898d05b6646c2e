"""How the NPUs of one engine share a model, and the fields of a workload that say so."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = ["SKEW", "Layout", "exchange_of", "pool_of"]

SKEW = 1.01     # of experts' loads, as of the rows of kernels; routers of models are no more even


class Layout(Struct, frozen=True, order=True):
    """NPUs of one engine: attention over `tp` ranks in each of `dp` replicas, `pp` stages; experts over `ep` groups of
    NPUs, each expert over `tp * dp / ep` of them."""

    tp: int = 1
    dp: int = 1
    pp: int = 1
    ep: int = 1

    def __str__(self) -> str:
        """`tp 4`, `tp 1, dp 8, ep 8`: what is 1 is left out, but for tp."""
        return ", ".join([f"tp {self.tp}"] + [f"{name} {value}" for name, value in (
            ("dp", self.dp), ("pp", self.pp), ("ep", self.ep)) if value > 1])

    @property
    def npus(self) -> int:
        """NPUs of one engine."""
        return self.tp * self.dp * self.pp

    @property
    def kind(self) -> str:
        """The layout's group in tables of errors."""
        if self.dp > 1:
            return "attention-DP"
        return "ep inside tp" if self.ep > 1 else "tp"


def pool_of(experts: int, layout: Layout, exchange: str) -> dict[str, Any]:
    """Fields of a workload (or a pool of one) for a layout. `experts` of a layer (0: none); `exchange`: how the engine
    gets tokens of several dp ranks to whole experts; parts of an expert are always gathered."""
    found: dict[str, Any] = {"tp": layout.tp, "dp": layout.dp, "pp": layout.pp, "ep": layout.ep}
    if experts:
        found["moe_tp"] = layout.tp * layout.dp // layout.ep
        found["redundant_experts"] = -experts % layout.ep
        if layout.dp > 1:
            found["exchange"] = exchange if found["moe_tp"] == 1 else "all_gather"
    return found


def exchange_of(stack: str, rack: bool) -> str:
    """How an engine of a stack gets tokens of several dp ranks to their experts; `rack`: whether an NVLink domain of 72
    joins its NPUs."""
    if stack == "trt-llm" and rack:
        return "nvlink_one_sided"
    return "deepep_low_latency" if stack == "sglang" else "all_gather"
