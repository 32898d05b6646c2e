"""A mixture of experts as operators: router, dispatch, experts, combination, shared experts.

Every token's vector is copied to its `top_k` experts (an all_to_all over ep), and their results come back the same way.
Under tp the experts' inner dim is sharded, so results are partial sums: a token's are added up on the rank, and the sum
is reduced over tp once. In inference it has the shared experts' output, too (vLLM, SGLang, TensorRT-LLM); in training
that is reduced apart. With tp_sequence and ep rows are gathered over tp behind the exchange and scattered before the
way back (Megatron's all_to_all dispatcher); without ep tokens are gathered and scattered (its all_gather dispatcher).
The weights of the choice are applied where nothing more has to be kept for backward (Megatron: at the activation).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Config, Knob, Problem
from astrarium.workload.divisors import closest_divisors
from astrarium.workload.graph import Options
from astrarium.workload.graph.draft import BESIDE, EXPERTS
from astrarium.workload.graph.ir import Op, Use, add, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.base import Split
from astrarium.workload.model.parts import INSIDE, STREAM, ffn, linear
from astrarium.workload.routing import Busiest, Routing, busiest, loads_of

__all__ = ["Experts", "expert_axes", "expert_ops", "expert_rules", "expert_sizes", "expert_weights", "expert_widths",
           "rows_per_expert"]

_SCORES = {"softmax": 5.0, "sigmoid": 4.0}     # FLOPs per score
_PREFIX = "expert_"
SENT = "[batch.moe,seq.moe"


def _top_k(moe: Experts) -> Iterator[Problem]:
    if moe.top_k > moe.experts:
        yield Problem("top_k", f"{moe.top_k} is more than there are experts", f"1 to {moe.experts}")
    if moe.imbalance > moe.experts:
        yield Problem("imbalance", f"{moe.imbalance:g} is more than everything on one of {moe.experts} experts",
                      f"1 to {moe.experts}")


class Experts(Config, frozen=True, kw_only=True):
    """A mixture of experts in place of the FFN: every token goes to `top_k` routed experts and to all shared ones."""

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_top_k,)
    experts: Annotated[int, Knob("Routed experts of a layer.", ge=1)]
    top_k: Annotated[int, Knob("Routed experts that a token goes to.", ge=1)]
    expert_ffn: Annotated[int | None, Knob("Inner size of one expert; left out: ffn.", ge=1)] = None
    shared_experts: Annotated[int, Knob("Experts of the same size that every token goes to.", ge=0)] = 0
    dense_layers: Annotated[int, Knob("Layers at the start that keep the FFN.", ge=0)] = 0
    every: Annotated[int, Knob("After those, every k-th layer has experts (2: the 2nd, 4th, ...).", ge=1)] = 1
    shared_ffn: Annotated[int | None, Knob("Inner size of one shared expert; left out: expert_ffn.", ge=1)] = None
    latent: Annotated[int | None, Knob("Routed experts take and give vectors of this length, which two matrices make "
                                       "of a token's and back (Nemotron-3's latent experts); left out: d_model.",
                                       ge=1)] = None
    beside_ffn: Annotated[bool, Knob("Layers with experts have the FFN, too, each with its own norms (Gemma 4).")
                          ] = False
    shared_gate: Annotated[bool, Knob("A learned gate, one number per token, over what shared experts give.")] = False
    router: Annotated[Literal["softmax", "sigmoid"], Knob("What scores become weights.")] = "softmax"
    router_bias: Annotated[bool, Knob("A learned offset per expert in the choice of experts.")] = False
    capacity_factor: Annotated[float | None,
                               Knob("Room of an expert, times the mean load; tokens beyond it are dropped, room "
                                    "that is left is computed all the same. Left out: nothing is dropped or padded.",
                                    gt=0)] = None
    imbalance: Annotated[float, Knob("Load of the busiest expert-parallel rank over the mean.", ge=1)] = 1.0


def expert_rules(experts: int, split: Split) -> Iterator[Problem]:
    """What forbids to spread experts over ep."""
    total, more = experts + split.redundant, -(-experts // split.ep) * split.ep - experts
    if total % split.ep:
        divisor = closest_divisors(total, split.ep)
        what = f"experts and {split.redundant} redundant ones" if split.redundant else "experts"
        yield Problem("ep", f"{split.ep} does not divide {experts} {what}",
                      f"a divisor, such as {divisor}, or redundant_experts: {more}")


def rows_per_expert(moe: Experts, tokens: float, ep: int, *, padded: bool = True) -> float:
    """Rows per expert on the busiest of `ep` ranks: the mean times the imbalance (at most ep), or the capacity (not
    where `padded` is False)."""
    factor = moe.capacity_factor if padded and moe.capacity_factor is not None else min(moe.imbalance, ep)
    return tokens * moe.top_k / moe.experts * factor


def expert_axes(options: Options) -> Mapping[str, tuple[str, ...]]:
    """`batch.moe`, `seq.moe`, `rows.src`: tokens and rows as they are dispatched; `rows.ep`: rows at their expert,
    before they are gathered over tp. Where tokens are gathered, rows are at their expert from the start."""
    tp = ("tp",) if options.tp_sequence and options.experts > 1 else ()
    axes: dict[str, tuple[str, ...]] = {
        "expert_ffn": ("moe_tp",), "shared_ffn": ("tp",), "experts.hit": ("moe_ep",), "seq.moe": ("sp", "cp", *tp),
        "rows.src": ("dp", "sp", "cp", *tp), "rows.ep": ("edp", "sp", "cp", *tp), "batch.moe": ("dp",)}
    if options.gathers_tokens:
        rows = ("edp", "sp", "cp")
        axes |= {"experts.src": ("moe_ep",), "rows.src": rows, "rows.ep": rows, "batch.moe": ("edp",)}
    return MappingProxyType(axes)


def expert_sizes(moe: Experts | None, ffn_size: int, options: Options) -> Mapping[str, Size]:
    """Sizes of the dims of experts, each of `ffn_size` where they have no size of their own, as the busiest rank has
    them. `experts`: with redundant ones; `experts.hit`: those of which a step reads the weights, with choices at
    random."""
    if moe is None:
        return MappingProxyType({})
    tokens, inner = float(options.batch) * options.seq, moe.expert_ffn or ffn_size
    copies = math.prod(options.degrees.get(axis, 1) for axis in ("edp", "sp", "cp"))
    missed = (1.0 - moe.top_k / moe.experts) ** (tokens / copies)
    rows = rows_per_expert(moe, tokens, options.experts, padded=options.padded)
    experts, hit = moe.experts + options.redundant, moe.experts * (1.0 - missed)
    most = _busiest(moe, options)
    if most is not None:
        hit = most.hit * options.experts
        rows *= most.rows if moe.capacity_factor is None else 1.0
        rows *= moe.experts / experts
    sent = _destinations(moe, options.experts) / moe.top_k if options.sends_once else 1.0
    return MappingProxyType({
        "rows": rows, "rows.src": rows * sent, "rows.ep": rows * sent, "experts": experts,
        "experts.router": moe.experts, "experts.hit": hit, "top_k": moe.top_k, "expert_ffn": inner,
        "shared_ffn": moe.shared_experts * (moe.shared_ffn or inner), "gate": 1, "expert_d": moe.latent or 1})


def _destinations(moe: Experts, ranks: int) -> float:
    """Ranks, of `ranks`, that have one of a token's experts, on average."""
    each = moe.experts / ranks
    return ranks * (1.0 - math.prod(max(0.0, 1.0 - each / (moe.experts - number)) for number in range(moe.top_k)))


def _busiest(moe: Experts, options: Options) -> Busiest | None:
    """What the busiest rank gets where that is not the mean."""
    if not options.redundant and options.routing == Routing():
        return None
    tokens = float(options.batch) * options.seq / math.prod(
        options.degrees.get(axis, 1) for axis in ("edp", "sp", "cp"))
    loads = loads_of(options.routing, moe.experts, moe.top_k, tokens)
    return busiest(loads, options.experts, options.redundant, moe.top_k, tokens)


def _spread(moe: Experts, options: Options) -> tuple[int, int, float]:
    """See Op."""
    most, skew = _busiest(moe, options), round(100 * options.routing.skew)
    uneven = most is not None and skew and not options.redundant and moe.capacity_factor is None
    return (options.experts, skew, most.rows) if most is not None and uneven else (options.experts, 0, 1.0)


def expert_weights(weights: Mapping[str, str]) -> frozenset[str]:
    """The `weights` that ep shards."""
    return frozenset(name for name, dims in weights.items() if dims.split()[0] == "experts")


def expert_widths(options: Options) -> Mapping[str, str]:
    """Tensors that go to experts on other ranks of dp, in the format in which they are sent."""
    return MappingProxyType({"gs" if options.gathers_tokens else "b": "dispatch"} if options.exchanges else {})


def expert_ops(moe: Experts, options: Options, weights: dict[str, str], *, gated: bool, activation: str,
               bias: bool) -> list[Op]:
    """From the norm's output g to the sum of the experts' outputs f."""
    result = "fr" if moe.shared_experts else "f"
    route, probs = "route[batch,seq.res,experts.router]", "probs[batch,seq.res,experts.router]"
    ops = [linear("router", f"g{STREAM}", "d,experts.router", route, weights, bias=False),
           point("scores", f"{route} -> {probs}", _SCORES[moe.router], saves="outputs")]
    chosen = probs
    if moe.router_bias:
        weights["router_bias"] = "experts.router"
        chosen += " + router_bias[experts.router]"
    ops.append(point("choose", f"{chosen} -> choice[batch,seq.res,top_k]", 1, saves="nothing", grad=False))
    wide, sent, picked = "d", "g", "choice[batch,seq.moe,top_k]"
    shares = "probs[batch,seq.moe,experts.router]"
    if moe.latent:
        wide, sent = "expert_d", "gl"
        ops.append(linear("latent_down", f"g{STREAM}", "d,expert_d", "gl[batch,seq.res,expert_d]", weights, bias=False))
    if options.gathers_tokens:      # choices and their weights travel with the tokens
        made = f"[batch,seq.res,{wide}]"
        ops.append(point("send", f"choice[batch,seq.res,top_k] + {sent}{made} -> gs{made}", 0))
        sent, picked, shares = "gs", "picked[batch.moe,seq.moe,top_k]", "shares[batch.moe,seq.moe,top_k]"
    sent_apart = options.experts > 1 and not options.gathers_tokens     # by kernels that permute and add up, too
    permute = point("permute", f"{picked} + {sent}{SENT},{wide}] -> b[experts.src,rows.src,{wide}]", 0, saves="index",
                    linear=True)
    sort = point("sort", f"b[experts,rows.ep,{wide}] -> e[experts,rows.ep,{wide}]", 0, saves="nothing", linear=True)
    inner = ffn(weights, gated=gated, activation=activation, bias=bias,
                source=f"e[experts,rows,{wide}]", result=f"be[experts,rows,{wide}]", inner="[experts,rows,expert_ffn]",
                matrix=f"experts,{wide},expert_ffn", prefix=_PREFIX)
    layer = [sort, *(inner if options.packed is None else [_of_the_hit(op, weights) for op in inner])]
    if options.sends_once:
        layer.append(point("collect", f"be[experts,rows,{wide}] -> bc[experts,rows.ep,{wide}]", 1, saves="nothing",
                           linear=True))
    back, made = "bc" if options.sends_once else "be", "fl" if moe.latent else result
    combine = point("combine", f"{back}[experts.src,rows.src,{wide}] + {shares} -> {made}{SENT},{wide}]", 2,
                    saves="nothing", linear=True)
    layer = [permute._replace(view=sent_apart), *layer, combine._replace(view=sent_apart)]
    spread = _spread(moe, options)
    ops += [op._replace(fused=EXPERTS, spread=spread) for op in layer]
    if moe.latent:      # of partial sums over tp: one all_reduce behind it and the shared experts
        ops.append(linear("latent_up", "fl[batch,seq.res,expert_d]", "expert_d,d", f"{result}{STREAM}", weights,
                          bias=False)._replace(linear=options.packed is not None))
    return ops + _shared(moe, options, weights, gated=gated, activation=activation, bias=bias)


def _shared(moe: Experts, options: Options, weights: dict[str, str], *, gated: bool, activation: str,
            bias: bool) -> list[Op]:
    """Shared experts, and the sum of their output and the routed experts'. In CUDA graphs of decoding sequences engines
    run them on a second stream in parallel with the routed ones (vLLM's shared_experts_stream, SGLang's
    forward_normal_dual_stream, TensorRT-LLM's maybe_execute_in_parallel): they take no time of their own."""
    if not moe.shared_experts:
        return []
    dims, once = (STREAM, False) if options.packed is None else (INSIDE, True)
    ops = ffn(weights, gated=gated, activation=activation, bias=bias, source=f"g{INSIDE}", result=f"fs{INSIDE}",
              inner="[batch,seq,shared_ffn]", matrix="d,shared_ffn", prefix="shared_")
    summed = "fs"
    if moe.shared_gate:
        summed, gate = "fsg", "[batch,seq.res,gate]"
        ops += [linear("shared_share", f"g{STREAM}", "d,gate", f"sg{gate}", weights, bias=False),
                point("shared_gated", f"fs{dims} + sg{gate} -> fsg{dims}", 1, linear=once)]
    if options.engine and options.packed is not None and all(part.decoding for part in options.packed.parts):
        ops = [op._replace(fused=BESIDE) for op in ops]
    return [*ops, add("experts_sum", f"fr{dims} + {summed}{dims} -> f{dims}", linear=once)]


def _of_the_hit(op: Op, weights: Mapping[str, str]) -> Op:
    """A product that reads the weights only of experts to which some token goes."""
    if op.kind != "gemm" or op.inputs[1].tensor not in weights:
        return op
    hit = tuple(Use(use.tensor, ("experts.hit", *use.dims[1:])) for use in op.inputs[1:])
    return op._replace(inputs=(op.inputs[0], *hit), along=("experts.hit",))
