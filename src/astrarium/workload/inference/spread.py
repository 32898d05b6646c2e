"""How experts lie on the ranks of tp and dp: `ep` ranks have different experts, `moe_tp` ranks parts of the same ones.

Engines spread experts over all tp x dp ranks (TensorRT-LLM: moe_tensor_parallel_size x moe_expert_parallel_size =
tensor_parallel_size; vLLM: --enable-expert-parallel; SGLang: --ep-size). Ranks that remain have copies of the experts:
tp x dp / (moe_tp x ep) of them, each for its own replicas of dp.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from astrarium.config import Problem
from astrarium.workload.divisors import divides, divisors
from astrarium.workload.mesh import spreads
from astrarium.workload.model.base import Model
from astrarium.workload.model.experts import Experts
from astrarium.workload.routing import Routing

__all__ = ["Exchange", "exchanges", "expert_parts", "routing_rules", "spread_rules"]

Exchange = Literal["all_to_all", "all_gather", "deepep", "deepep_low_latency", "nvlink_one_sided", "nvlink_two_sided"]


def expert_parts(tp: int, dp: int, ep: int, moe_tp: int | None) -> int:
    """Parts of an expert: `moe_tp`, else tp where dp is a multiple of ep, else what ep leaves of tp x dp."""
    if moe_tp is not None:
        return moe_tp
    return tp if dp % ep == 0 else max(1, tp * dp // ep)


def exchanges(model: Model, tp: int, ep: int, parts: int) -> bool:
    """Whether tokens go from one rank of dp to another: they have parts of one copy of the experts."""
    return isinstance(getattr(model, "moe", None), Experts) and parts * ep > tp


def spread_rules(model: Model, tp: int, dp: int, ep: int, moe_tp: int | None, exchange: str) -> Iterator[Problem]:
    """What forbids a layout of experts."""
    parts = expert_parts(tp, dp, ep, moe_tp)
    if exchange not in ("all_to_all", "all_gather") and not exchanges(model, tp, ep, parts):
        why = "ranks of dp share no experts" if getattr(model, "moe", None) else "the model has no experts"
        yield Problem("exchange", f"{exchange} has no effect here: {why}",
                      "no exchange, or experts over several ranks of dp")
    elif parts > math.gcd(tp, parts) and exchange not in ("all_to_all", "all_gather"):
        yield Problem("exchange", f"{exchange} sends tokens to a rank of dp with whole experts, and moe_tp is {parts}",
                      "all_gather")
    if tp * dp % ep:
        yield from divides("ep", ep, tp * dp, "ranks of tp x dp")
    elif not spreads(tp, dp, ep, parts):
        legal = [str(each) for each in divisors(tp * dp // ep) if spreads(tp, dp, ep, each)]
        yield Problem("moe_tp", f"{moe_tp} parts of experts on {ep} ranks do not spread over tp x dp = {tp} x {dp}",
                      f"one of {', '.join(legal)}")


def routing_rules(model: Model, routing: Routing, redundant: int) -> Iterator[Problem]:
    """What forbids loads of experts, and copies of them."""
    experts = getattr(model, "moe", None)
    if not isinstance(experts, Experts):
        for field, given in (("routing", routing != Routing()), ("redundant_experts", redundant > 0)):
            if given:
                yield Problem(field, "has no effect for a model without experts", f"no {field}")
        return
    if routing.loads is not None and len(routing.loads) != experts.experts:
        yield Problem("routing.loads", f"names {len(routing.loads)} experts", f"{experts.experts}, those of the model")
    if experts.imbalance > 1 and routing != Routing():
        yield Problem("model.moe.imbalance", "has no effect together with routing", "1, or no routing")
