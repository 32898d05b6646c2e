"""Which function turns a model of a family into blocks: one line per family."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

from astrarium.errors import UnsupportedError
from astrarium.workload.graph import Forms, ModelPieces, Options, Stack, lower_stack
from astrarium.workload.model.base import Model
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.diffusion import Diffusion
from astrarium.workload.model.encoder import Encoder
from astrarium.workload.model.encoder_decoder import EncoderDecoder
from astrarium.workload.model.mamba import Mamba

__all__ = ["model_pieces", "stack_of", "with_sequence"]

_STACKS: Mapping[str, str] = MappingProxyType({
    "decoder": "astrarium.workload.model.decoder_blocks:decoder_stack",
    "encoder": "astrarium.workload.model.encoder_blocks:encoder_stack",
    "encoder_decoder": "astrarium.workload.model.encoder_decoder_blocks:encoder_decoder_stack",
    "diffusion": "astrarium.workload.model.diffusion_blocks:diffusion_stack",
    "mamba": "astrarium.workload.model.mamba_blocks:mamba_stack",
    "dlrm": "astrarium.workload.model.dlrm_blocks:dlrm_stack",
})


def with_sequence(model: Model) -> Decoder | Encoder | EncoderDecoder | Diffusion | Mamba | None:
    """The model as one that has layers, heads and a sequence; None for those that have not."""
    return model if isinstance(model, (Decoder, Encoder, EncoderDecoder, Diffusion, Mamba)) else None


def stack_of(model: Model, options: Options) -> Stack:
    """The blocks of a model, still without numbers of any rank. Raises UnsupportedError for what nobody wrote down."""
    if model.tag not in _STACKS:
        raise UnsupportedError("workload.model.family", f"nobody wrote down the operators of {model.tag}",
                               expected="one of " + ", ".join(_STACKS))
    if options.packed is not None and model.tag not in ("decoder", "mamba"):
        raise UnsupportedError("workload.model.family", f"{model.tag} has no steps of inference",
                               expected="decoder or mamba")
    module, _, name = _STACKS[model.tag].partition(":")
    build: Callable[[Model, Options], Stack] = getattr(importlib.import_module(module), name)
    return build(model, options)


def model_pieces(model: Model, options: Options, forms: Forms | None = None) -> ModelPieces:
    """One micro-batch of a model on one rank; `forms` as in `lower_stack`. Raises InputError where a size does not
    divide (`uneven: refuse`)."""
    return lower_stack(stack_of(model, options), options, forms)
