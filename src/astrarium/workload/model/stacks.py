"""A model as blocks of operators, and these on one rank."""

from __future__ import annotations

from astrarium.errors import UnsupportedError
from astrarium.registry import load, names
from astrarium.workload.graph import Forms, ModelPieces, Options, Stack, lower_stack
from astrarium.workload.model.base import Model

__all__ = ["model_pieces", "stack_of"]


def stack_of(model: Model, options: Options) -> Stack:
    """The blocks of a model, before any rank's sizes. Raises UnsupportedError for a step of inference that its family
    does not have."""
    if options.packed is not None and model.generation is None:
        able = [name for name in names("family") if load("family", name).generation is not None]
        raise UnsupportedError("workload.model.family", f"{model.tag} has no steps of inference",
                               expected=" or ".join(able))
    return model.stack(options)


def model_pieces(model: Model, options: Options, forms: Forms | None = None) -> ModelPieces:
    """One micro-batch of a model on one rank; `forms` as in `lower_stack`. Raises InputError where a size does not
    divide (`uneven: refuse`)."""
    return lower_stack(stack_of(model, options), options, forms)
