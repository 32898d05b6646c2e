"""The shape of a step, and the protocol of whatever knows how long steps take."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
from msgspec import Struct

from astrarium.arrays import I64

__all__ = ["Prompt", "Scaled", "Shape", "StepTimes"]

Prompt: TypeAlias = tuple[int, int, int]    # new tokens, tokens before them, and 1 if it samples a token (else 0)


class Shape(Struct, frozen=True):
    """A step: `count` decoding sequences with `context` tokens in their caches in all before the step, and `prompts` or
    parts of them. `padding` further tokens go through the model but attend to nothing (CUDA graphs of fixed sizes).
    `shared`: where ranks of dp that share experts have different numbers of tokens, those that all compute on average,
    and those of each that take as long to gather (None: equal numbers).

    With speculation each of the `count` sequences is guessed for and verified; otherwise it brings one token.
    """

    count: int = 0
    context: int = 0
    prompts: tuple[Prompt, ...] = ()
    padding: int = 0
    shared: tuple[int, int] | None = None


class StepTimes(Protocol):
    """Times of steps of one server, in ps, without host time between them."""

    @property
    def how(self) -> str:
        """Where times come from, in words."""
        ...

    def of(self, shape: Shape, /) -> int:
        """Time of one step."""
        ...

    def decoding(self, count: int, context: int, steps: int, padding: int = 0, /) -> I64:
        """Times [steps] of successive steps without prompts: `context` grows by `count` from one to the next."""
        ...


class Scaled(Struct, frozen=True):
    """Step times that are `factor` times as long."""

    times: StepTimes
    factor: float

    @property
    def how(self) -> str:
        """Where times come from, in words."""
        return self.times.how

    def of(self, shape: Shape, /) -> int:
        """Time of one step in ps."""
        return round(self.times.of(shape) * self.factor)

    def decoding(self, count: int, context: int, steps: int, padding: int = 0, /) -> I64:
        """Times of successive steps without prompts in ps [steps]."""
        found: I64 = np.rint(self.times.decoding(count, context, steps, padding) * self.factor).astype(np.int64)
        return found
