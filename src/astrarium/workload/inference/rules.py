"""What is legal between the fields of an Inference: each rule with the nearest values that would be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from astrarium.config import Problem
from astrarium.errors import InputError
from astrarium.workload.divisors import divides
from astrarium.workload.inference.formats import Compression
from astrarium.workload.mesh import parse_order
from astrarium.workload.model.base import Model, Split, cache_of, with_layers

if TYPE_CHECKING:
    from astrarium.workload.inference.config import Inference

__all__ = ["RULES"]

MOST = 2_000_000        # blocks that one program runs


def _model(work: Inference) -> Iterator[Problem]:
    yield from _layouts(work.model, Split(
        tp=work.tp, sp=work.sp, pp=work.pp, ep=work.ep, dp=work.dp, even=work.uneven == "refuse",
        compressed=work.compression != Compression()))


def _layouts(model: Model, split: Split, *, draft: bool = False) -> Iterator[Problem]:
    """What a model asks of a layout; a draft has a cache."""
    if model.generation is None or (draft and cache_of(model) is None):
        yield Problem("model", f"{type(model).__name__} generates no tokens with a cache", "a decoder")
        return
    yield from model.generation.rules(model, split)


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
    model, cache, share = with_layers(work.model), cache_of(work.model), work.compression.share
    layers = model.layers if model is not None else None
    if work.stage_layers is not None and (len(work.stage_layers) != work.pp or sum(work.stage_layers) != layers):
        yield Problem("stage_layers", f"{len(work.stage_layers)} numbers, {sum(work.stage_layers)} in all",
                      f"pp ({work.pp}) numbers, {layers} in all")
    if layers is None or cache is None or share == 1:
        return
    if layers % share:
        yield from divides("compression.share", share, layers, "layers")
        return
    if any(cache.sight(index) != cache.sight(index - index % share) for index in range(layers)):
        yield Problem("compression.share", "layers with and without a window cannot share a cache", "1")
    even = [layers // work.pp] * work.pp
    for count in work.stage_layers or even:
        if count % share or (layers % work.pp and work.stage_layers is None):
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
    for problem in _layouts(work.speculation.draft, Split(work.tp, even=work.uneven == "refuse"), draft=True):
        yield problem.under("speculation.draft") if problem.path == "model" else problem


def _size(work: Inference) -> Iterator[Problem]:
    model, generated = with_layers(work.model), work.lengths[1]
    layers = model.layers if model is not None else 1
    rounds = {"prefill": 0, "decode": work.steps, "request": generated}[work.phase]
    chunks = 0 if work.phase == "decode" else -(-work.lengths[0] // (work.chunk or work.lengths[0]))
    if (rounds + chunks) * work.micro_batches * layers > MOST:
        yield Problem("phase", f"{rounds + chunks} passes of {work.micro_batches} micro-batches by {layers} layers "
                      "are too many to simulate one by one", "phase: prefill and decode, added up")


RULES: tuple[Callable[[Any], Iterable[Problem]], ...] = (
    _model, _order, _lengths, _phases, _batch, _mix, _tokens, _layers, _speculation, _size)
