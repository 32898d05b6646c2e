"""What is legal between the fields of a Transformer: each rule with the nearest values that would be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from astrarium.config import Problem
from astrarium.errors import InputError
from astrarium.workload.divisors import divides, divisors
from astrarium.workload.mesh import parse_order
from astrarium.workload.model.base import with_layers
from astrarium.workload.schedule import SCHEDULES

if TYPE_CHECKING:
    from astrarium.workload.transformer import Transformer

__all__ = ["RULES"]

ENDS = 2            # blocks beside the layers, which can be parts of the model by themselves: embedding and head
MOST_RANKS, MOST_BATCHES = 2**24, 2**20     # beyond which arrays of ranks or units would fill a machine


def _bounds(work: Transformer) -> Iterator[Problem]:
    if work.ranks > MOST_RANKS:
        yield Problem("dp", f"dp * tp * sp * cp * pp is {work.ranks}", f"at most {MOST_RANKS} ranks")
    if work.micro_batches * work.virtual_stages > MOST_BATCHES:
        yield Problem("micro_batch", f"makes {work.micro_batches} micro-batches", f"at most {MOST_BATCHES}")


def _order(work: Transformer) -> Iterator[Problem]:
    try:
        parse_order(work.order)
    except InputError as error:
        yield Problem("order", error.message, error.expected)


def _experts(work: Transformer) -> Iterator[Problem]:
    if work.dp % work.ep:
        yield from divides("ep", work.ep, work.dp, "data-parallel ranks (ep is a part of dp)")
    units = work.model.ep_units()
    if work.ep > 1 and units is None:
        yield Problem("ep", f"{work.ep}, but the model has no experts", "1")
    elif units and work.uneven == "refuse":
        yield from divides("ep", work.ep, units, "experts")


def _heads(work: Transformer) -> Iterator[Problem]:
    model = with_layers(work.model)
    if model is None or work.uneven != "refuse":
        return
    if model.heads % work.tp:
        yield from divides("tp", work.tp, model.heads, "heads")
    elif work.sp_attention == "all_to_all" and model.heads % (work.tp * work.sp):
        yield from divides("sp", work.sp, model.heads // work.tp, "heads of a tp rank (sp_attention: all_to_all)")


def _sequence(work: Transformer) -> Iterator[Problem]:
    model = with_layers(work.model)
    seq = work.seq or (model.seq if model is not None else None)
    if model is not None and seq is None:
        yield Problem("seq", "is missing", "tokens of a sample: the model's file says how far positions reach, not how "
                      "long samples are")
    if seq is None or work.uneven != "refuse":
        return
    parts = work.sp * work.cp * (work.tp if work.tp_sequence else 1)
    if seq % parts:
        names = "sp * cp" + (" * tp" if work.tp_sequence else "")
        yield Problem("seq", f"{seq} tokens are not divided by {names} ({parts})",
                      f"{seq // parts * parts or parts} or {-(-seq // parts) * parts}")


def _ring(work: Transformer) -> Iterator[Problem]:
    if work.cp > 1 and work.cp_attention == "ring" and work.attention != "flash":
        yield Problem("cp_attention", "ring, but only flash attention works on pieces of the keys",
                      "gather, or attention: flash")


def _batch(work: Transformer) -> Iterator[Problem]:
    if work.uneven != "refuse":
        return
    if work.global_batch % work.dp:
        low = work.global_batch // work.dp * work.dp
        yield Problem("global_batch", f"{work.global_batch} samples are not divided by dp ({work.dp})",
                      " or ".join(str(n) for n in (low, low + work.dp) if n))
    elif work.micro_batch is not None:
        yield from divides("micro_batch", work.micro_batch, work.global_batch // work.dp, "samples of a replica")


def _layers(work: Transformer) -> Iterator[Problem]:
    parts = work.pp * work.virtual_stages
    model = with_layers(work.model)
    layers = model.layers if model is not None else None
    if layers is not None and parts > layers + ENDS:
        what = "stages" if work.virtual_stages == 1 else f"parts ({work.pp} stages of {work.virtual_stages})"
        yield Problem("pp", f"{parts} {what} of {layers} layers, an embedding and a head",
                      f"at most {(layers + ENDS) // work.virtual_stages} stages")
    if work.stage_layers is None:
        return
    if work.stage_balance != "layers":
        yield Problem("stage_balance", f"{work.stage_balance}, beside stage_layers", "one of the two")
    if not all(work.stage_layers[1:-1]):
        yield Problem("stage_layers", "0 layers in the middle", "0 for the first and the last part at most")
    if len(work.stage_layers) != parts:
        yield Problem("stage_layers", f"{len(work.stage_layers)} numbers", f"{parts}: pp * virtual_stages")
    elif layers is not None and sum(work.stage_layers) != layers:
        yield Problem("stage_layers", f"{sum(work.stage_layers)} layers in all", f"{layers}, as the model has")


def _schedule(work: Transformer) -> Iterator[Problem]:
    if work.schedule == "interleaved" and work.pp == 1:
        yield Problem("pp", "1 stage has nothing to interleave", "2 or more, or schedule: 1f1b")
    yield from SCHEDULES[work.schedule].check(work.pp, work.micro_batches, work.virtual_stages)


def _zero(work: Transformer) -> Iterator[Problem]:
    if work.zero_axes is not None and work.zero == 0:
        yield Problem("zero_axes", "means nothing under zero: 0", "zero: 1, 2 or 3")
    if work.zero_axes is not None and (not work.zero_axes or len(set(work.zero_axes)) != len(work.zero_axes)):
        yield Problem("zero_axes", f"{list(work.zero_axes)} is not a set of axes", "some of dp, cp, sp, each once")
    if work.zero_ranks is not None and (work.zero == 0 or "dp" not in (work.zero_axes or ("dp",))):
        yield Problem("zero_ranks", "means nothing where dp is not sharded over", "zero: 1, 2 or 3 over dp")
    elif work.zero_ranks is not None and (work.dp % work.zero_ranks or work.zero_ranks % work.ep):
        legal = [n for n in divisors(work.dp) if n % work.ep == 0]
        what = f"{work.zero_ranks} is not a multiple of ep ({work.ep}) that divides dp ({work.dp})"
        yield Problem("zero_ranks", what, "one of " + ", ".join(map(str, legal[:20])))
    if work.prefetch is not None and work.zero != 3:
        yield Problem("prefetch", "means nothing but under zero: 3", "zero: 3")


def _split(work: Transformer) -> Iterator[Problem]:
    """What the pieces cannot do together."""
    line = SCHEDULES[work.schedule]
    if line.split and work.recompute == "full":
        yield Problem("recompute", f"full, under schedule: {work.schedule}, would compute everything twice over",
                      "none or selective")
    if work.offload == "activations" and line.split:
        yield Problem("offload", f"activations, under schedule: {work.schedule}, which needs them twice",
                      "none or optimizer, or another schedule")


RULES: tuple[Callable[[Any], Iterable[Problem]], ...] = (
    _bounds, _order, _experts, _heads, _sequence, _ring, _batch, _layers, _schedule, _zero, _split)
