"""What is legal between the fields of an Inference: each rule with the nearest values that would be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from astrarium.config import Problem
from astrarium.errors import InputError
from astrarium.workload.inference.formats import Compression
from astrarium.workload.mesh import parse_order
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.mamba import Mamba
from astrarium.workload.transformer_rules import closest_divisors

if TYPE_CHECKING:
    from astrarium.workload.inference.config import Inference

__all__ = ["RULES", "divides", "model_rules"]

MOST = 2_000_000        # blocks that one program runs


def divides(field: str, value: int, number: int, what: str) -> Iterator[Problem]:
    """A problem where `value` does not divide `number`, with the divisors next to it."""
    if number % value:
        yield Problem(field, f"{value} does not divide {number} {what}", closest_divisors(number, value))


def model_rules(model: object, tp: int, pp: int, ep: int, dp: int, *, even: bool) -> Iterator[Problem]:
    """What a model asks of a parallelisation; `even`: what must divide, divides."""
    if not isinstance(model, Decoder):
        yield Problem("model", f"{type(model).__name__} generates no tokens with a cache", "a decoder")
        return
    if pp > model.layers:
        yield Problem("pp", f"{pp} stages of {model.layers} layers", f"at most {model.layers}")
    if dp % ep:
        yield from divides("ep", ep, dp, "replicas (ep is a part of dp)")
    if ep > 1 and model.moe is None:
        yield Problem("ep", f"{ep}, but the model has no experts", "1")
    if even:
        yield from _even(model, tp, ep)


def _even(model: Decoder, tp: int, ep: int) -> Iterator[Problem]:
    yield from divides("tp", tp, model.heads, "heads")
    if model.mla is None and model.groups % tp and tp % model.groups:
        yield Problem("tp", f"{tp} neither divides {model.groups} key and value heads nor is a multiple of them",
                      f"a divisor or a multiple of {model.groups}")
    yield from divides("tp", tp, model.ffn, "(ffn)")
    if model.moe is not None:
        yield from divides("ep", ep, model.moe.experts, "experts")


def _state_space(work: Inference, model: Mamba) -> Iterator[Problem]:
    """What a model with a state in place of a cache asks for."""
    if work.uneven == "refuse":
        yield from divides("tp", work.tp, model.heads, "heads")
    if work.pp > model.layers:
        yield Problem("pp", f"{work.pp} stages of {model.layers} layers", f"at most {model.layers}")
    if work.ep > 1:
        yield Problem("ep", f"{work.ep}, but the model has no experts", "1")
    if work.sp > 1:
        yield Problem("sp", f"{work.sp}, but a state is not spread over ranks like a cache", "1")
    if work.compression != Compression():
        yield Problem("compression", "means nothing for a model without a cache", "no compression")


def _model(work: Inference) -> Iterator[Problem]:
    if isinstance(work.model, Mamba):
        yield from _state_space(work, work.model)
        return
    yield from model_rules(work.model, work.tp, work.pp, work.ep, work.dp, even=work.uneven == "refuse")


def _order(work: Inference) -> Iterator[Problem]:
    try:
        parse_order(work.order)
    except InputError as error:
        yield Problem("order", error.message, error.expected)


def _lengths(work: Inference) -> Iterator[Problem]:
    if work.use_case is not None:
        for field in ("prompt", "generated"):
            if getattr(work, field) is not None:
                yield Problem(field, "means nothing beside use_case", f"no {field}, or no use_case")
        return
    known = work.phase == "decode" and (work.context is not None or work.mix is not None)
    if work.prompt is None and not known:
        yield Problem("prompt", "is missing", "tokens of a prompt, or a use_case")
    if work.generated is None and work.phase != "prefill" and not known:
        yield Problem("generated", "is missing", "decode steps, or a use_case")


def _phases(work: Inference) -> Iterator[Problem]:
    for field, given, phases in (("context", work.context is not None, ("decode",)),
                                 ("mix", work.mix is not None, ("decode",)),
                                 ("steps", work.steps != 1, ("decode",)),
                                 ("contexts", work.contexts != "mean", ("request",)),
                                 ("chunk", work.chunk is not None, ("prefill", "request"))):
        if given and work.phase not in phases:
            yield Problem(field, f"means nothing where phase is {work.phase}", "phase: " + " or ".join(phases))


def _batch(work: Inference) -> Iterator[Problem]:
    if work.batch % (work.dp * work.micro_batches):
        unit = work.dp * work.micro_batches
        low, high = work.batch // unit * unit, -(-work.batch // unit) * unit
        yield Problem("batch", f"{work.batch} is not a multiple of dp x micro_batches = {unit}",
                      f"{low} or {high}" if low else f"{high}")


def _mix(work: Inference) -> Iterator[Problem]:
    """As many contexts as sequences, and nothing else that says what they are."""
    if work.mix is None:
        return
    if work.context is not None:
        yield Problem("context", "means nothing beside mix", "no context, or no mix")
    if work.speculation is not None:
        yield Problem("mix", "is not for speculation", "one context")
    if len(work.mix) != work.sequences:
        yield Problem("mix", f"names {len(work.mix)} sequences", f"{work.sequences}: batch / (dp * micro_batches)")


def _tokens(work: Inference) -> Iterator[Problem]:
    """sp divides the tokens of every pass."""
    if work.uneven != "refuse" or work.sp == 1 or work.batch % (work.dp * work.micro_batches):
        return
    passes, (prompt, _) = [], work.lengths
    if work.phase != "decode":
        size = min(work.chunk or prompt, prompt)
        passes += [(work.sequences * size, "prefill"), (work.sequences * (prompt % size), "the last chunk")]
    if work.phase != "prefill":
        passes.append((work.sequences, "a decode step"))
    for tokens, name in passes:
        if tokens % work.sp:
            yield from divides("sp", work.sp, tokens, f"tokens of {name}")
            return


def _layers(work: Inference) -> Iterator[Problem]:
    layers = getattr(work.model, "layers", None)
    if work.stage_layers is not None and (len(work.stage_layers) != work.pp or sum(work.stage_layers) != layers):
        yield Problem("stage_layers", f"{len(work.stage_layers)} numbers, {sum(work.stage_layers)} in all",
                      f"pp ({work.pp}) numbers, {layers} in all")
    if not isinstance(work.model, Decoder) or work.compression.share == 1:
        return
    share = work.compression.share
    if work.model.layers % share:
        yield from divides("compression.share", share, work.model.layers, "layers")
        return
    kinds = [work.model.layer(index).window for index in range(work.model.layers)]
    if any(kinds[index] != kinds[index - index % share] for index in range(len(kinds))):
        yield Problem("compression.share", "layers with and without a window cannot share a cache", "1")
    even = [work.model.layers // work.pp] * work.pp
    for count in work.stage_layers or even:
        if count % share or (work.model.layers % work.pp and work.stage_layers is None):
            yield Problem("compression.share", "layers that share a cache would be on two stages",
                          f"stages of a multiple of {share} layers")
            return


def _speculation(work: Inference) -> Iterator[Problem]:
    if work.speculation is None:
        return
    if work.pp > 1:
        yield Problem("pp", "the draft would wait for the last stage at every token", "1, with speculation")
    if work.phase == "prefill":
        yield Problem("speculation", "means nothing where phase is prefill", "phase: decode or request")
    for problem in model_rules(work.speculation.draft, work.tp, 1, 1, 1, even=work.uneven == "refuse"):
        yield problem.under("speculation.draft") if problem.path == "model" else problem


def _size(work: Inference) -> Iterator[Problem]:
    layers, generated = getattr(work.model, "layers", 1), work.lengths[1]
    rounds = {"prefill": 0, "decode": work.steps, "request": generated}[work.phase]
    chunks = 0 if work.phase == "decode" else -(-work.lengths[0] // (work.chunk or work.lengths[0]))
    if (rounds + chunks) * work.micro_batches * layers > MOST:
        yield Problem("phase", f"{rounds + chunks} passes of {work.micro_batches} micro-batches by {layers} layers "
                      "are too many to simulate one by one", "phase: prefill and decode, added up")


RULES: tuple[Callable[[Any], Iterable[Problem]], ...] = (
    _model, _order, _lengths, _phases, _batch, _mix, _tokens, _layers, _speculation, _size)
