"""State-space models of the Mamba-2 kind (arXiv 2405.21060): a state of fixed size in place of attention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ClassVar

from astrarium.config import Knob, Problem
from astrarium.workload.model.base import Model

__all__ = ["Mamba"]


def _heads(model: Mamba) -> Iterator[Problem]:
    if model.inner % model.head_size:
        yield Problem("head_size", f"{model.head_size} does not divide {model.inner} (expand x d_model)",
                      f"a divisor of {model.inner}")
    elif model.heads % model.groups:
        yield Problem("groups", f"{model.groups} does not divide {model.heads} heads", f"a divisor of {model.heads}")


class Mamba(Model, frozen=True, kw_only=True):
    """A decoder of Mamba-2 blocks (no attention, no FFN)."""

    tag: ClassVar[str] = "mamba"
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_heads,)
    layers: Annotated[int, Knob("Layers.", ge=1, lt=100_001)]
    d_model: Annotated[int, Knob("Length of a token's vector.", ge=1)]
    vocab: Annotated[int, Knob("Tokens of the vocabulary, with padding.", ge=1)]
    seq: Annotated[int | None, Knob("Context length of training; null (an imported model): workload.seq says it.",
                                    ge=1)] = 2048
    state: Annotated[int, Knob("Length of the state (N) of each channel.", ge=1)] = 128
    head_size: Annotated[int, Knob("Channels of a head (P).", ge=1)] = 64
    expand: Annotated[int, Knob("Inner channels over d_model.", ge=1)] = 2
    groups: Annotated[int, Knob("Groups of heads that share B and C.", ge=1)] = 1
    convolution: Annotated[int, Knob("Width of the causal convolution.", ge=1)] = 4
    chunk: Annotated[int, Knob("Tokens of a chunk (Q): inside, all pairs; between, the state.", ge=1)] = 256
    tied_embeddings: Annotated[bool, Knob("The head is the embedding, transposed.")] = True

    @property
    def inner(self) -> int:
        """Inner channels."""
        return self.expand * self.d_model

    @property
    def heads(self) -> int:
        """Heads of a layer."""
        return self.inner // self.head_size
