"""One step of inference on one replica: its sequences, laid end to end as one packed sequence.

A batch of sequences of any lengths is one sequence under a block-diagonal mask (FlashAttention's `varlen` interface):
the tokens of all go through the layers together, and attention computes only the scores inside each block. Sums over
the sequences are exact; nothing is padded.
"""

from __future__ import annotations

import math
from fractions import Fraction

from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.errors import InputError

__all__ = ["Packed", "Sequences"]


class Sequences(Struct, frozen=True):
    """`count` sequences that each bring `new` tokens and have `past` tokens behind them; each samples `sampled` tokens
    (0: a chunk that is not the prompt's last; new: a draft that is verified)."""

    count: int
    new: int
    past: int = 0
    sampled: int = 1

    @property
    def decoding(self) -> bool:
        """Whether they are past their prompts: one new token each, or a draft that is verified."""
        return self.new == 1 or (self.past > 0 and self.sampled == self.new)


class Packed(Struct, frozen=True):
    """A step. `keep`: share of the past that compression leaves in the cache. `share`: neighbouring layers that have
    one cache (cross-layer attention, arXiv 2405.12981); the first of them makes it. `density` of sparse weights: share
    of the FLOPs of products with weights.
    """

    parts: tuple[Sequences, ...]
    keep: Fraction = field(default=Fraction(1))
    share: int = 1
    density: float = 1.0

    def __post_init__(self) -> None:
        for part in self.parts:
            if part.count < 1 or part.new < 1 or part.past < 0 or not 0 <= part.sampled <= part.new:
                raise InputError("step", f"{part} is no part of a step",
                                 expected="count and new of at least 1, past of at least 0, sampled of 0 to new")
        if not self.parts or not 0 < self.keep <= 1 or self.share < 1:
            raise InputError("step", "a step without sequences, or with a cache of nothing",
                             expected="sequences, keep above 0 and at most 1, share of at least 1")

    @property
    def tokens(self) -> int:
        """Tokens that go through the layers."""
        return sum(part.count * part.new for part in self.parts)

    @property
    def sampled(self) -> int:
        """Tokens whose logits are computed."""
        return sum(part.count * part.sampled for part in self.parts)

    @property
    def fresh(self) -> bool:
        """Whether no sequence has anything in the cache yet: keys and values are used as they are made."""
        return not any(part.past for part in self.parts)

    @property
    def kernels(self) -> tuple[Packed, ...]:
        """The step by the kernels that run its attention: decoding sequences of equally many new tokens together, every
        class of prompts apart."""
        decoding: dict[int, list[Sequences]] = {}
        for part in self.parts:
            if part.decoding:
                decoding.setdefault(part.new, []).append(part)
        groups = [*decoding.values(), *([part] for part in self.parts if not part.decoding)]
        return (self,) if len(groups) == 1 else tuple(replace(self, parts=tuple(group)) for group in groups)

    def kept(self, part: Sequences) -> int:
        """Tokens of the past that are still in the cache, per sequence."""
        return math.ceil(part.past * self.keep)

    def context(self, window: int | None) -> int:
        """Tokens of the cache that attention reads, the new ones included; a window leaves out what is too old."""
        oldest = [self.kept(part) if window is None else min(self.kept(part), window - 1) for part in self.parts]
        return sum(part.count * (past + part.new) for part, past in zip(self.parts, oldest, strict=True))

    def pairs(self, window: int | None, skip: bool) -> int:
        """Scores of one head: of every new token with what it sees (`skip`), or with all that its sequence has."""
        return sum(part.count * _pairs(part.new, self.kept(part), window, skip) for part in self.parts)


def _pairs(new: int, past: int, window: int | None, skip: bool) -> int:
    if not skip:
        return new * (past + new if window is None else min(past + new, window))
    if window is None or past + new <= window:
        return new * past + new * (new + 1) // 2
    rising = max(0, window - past)      # queries that still see everything before them: past + 1, past + 2, ...
    return rising * past + rising * (rising + 1) // 2 + (new - rising) * window
