"""How long prompts and answers are: distributions of tokens."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ClassVar

import numpy as np

from astrarium.arrays import I64
from astrarium.config import Config, Knob, Problem
from astrarium.config.spec import Variants
from astrarium.errors import InputError
from astrarium.registry import Kind
from astrarium.serving.requests.files import read_text, whole
from astrarium.serving.requests.stream import LONGEST

__all__ = ["Empirical", "Lengths", "Lognormal", "Uniform", "drawn"]

Generator = np.random.Generator
Rules = tuple[Callable[[Any], Iterable[Problem]], ...]


class Lengths(Config, frozen=True):
    """A distribution of tokens, at least 1 each."""

    variants: ClassVar[Variants | None] = Kind("lengths")
    tag_key: ClassVar[str] = "kind"

    @abstractmethod
    def draw(self, count: int, generator: Generator) -> I64:
        """Draw `count` lengths."""


def _ordered(lengths: Uniform) -> Iterator[Problem]:
    if lengths.low > lengths.high:
        yield Problem("high", f"{lengths.high} is below low", f"at least {lengths.low}")


class Uniform(Lengths, frozen=True, kw_only=True):
    """Every whole number from `low` to `high`, equally often."""

    tag: ClassVar[str] = "uniform"
    rules: ClassVar[Rules] = (_ordered,)
    low: Annotated[int, Knob("Fewest tokens.", ge=1, lt=LONGEST)]
    high: Annotated[int, Knob("Most tokens.", ge=1, lt=LONGEST)]

    def draw(self, count: int, generator: Generator) -> I64:
        """Draw `count` lengths."""
        return generator.integers(self.low, self.high, count, np.int64, endpoint=True)


def _cut(lengths: Lognormal) -> Iterator[Problem]:
    if lengths.high < lengths.mean:
        yield Problem("high", f"{lengths.high} is below the mean, {lengths.mean:g}: most lengths would be cut to it",
                      f"at least {math.ceil(lengths.mean)}")


class Lognormal(Lengths, frozen=True, kw_only=True):
    """Lognormal with a mean and a coefficient of variation, rounded, cut at 1 and at `high`."""

    tag: ClassVar[str] = "lognormal"
    rules: ClassVar[Rules] = (_cut,)
    mean: Annotated[float, Knob("Mean tokens, before the cut.", ge=1, lt=LONGEST)]
    cv: Annotated[float, Knob("Standard deviation over mean.", gt=0, lt=100)]
    high: Annotated[int, Knob("Most tokens.", ge=1, lt=LONGEST)] = LONGEST - 1

    def draw(self, count: int, generator: Generator) -> I64:
        """Draw `count` lengths."""
        variance = math.log1p(self.cv**2)
        found = generator.lognormal(math.log(self.mean) - variance / 2, math.sqrt(variance), count)
        return np.clip(np.rint(found), 1, self.high).astype(np.int64)


class Empirical(Lengths, frozen=True, kw_only=True):
    """Lengths of a file, one a line, drawn with replacement."""

    tag: ClassVar[str] = "empirical"
    path: Annotated[str, Knob("The file.", file=True)]

    def draw(self, count: int, generator: Generator) -> I64:
        """Draw `count` lengths."""
        lines = enumerate(read_text(self.path, "a text file").splitlines(), start=1)
        found = [whole(line.strip(), f"{self.path}, line {number}", 1, LONGEST) for number, line in lines
                 if line.strip()]
        if not found:
            raise InputError(self.path, "has no lengths", expected="a whole number on each line")
        return generator.choice(np.array(found, np.int64), count)


def drawn(lengths: int | Lengths, count: int, generator: Generator | None) -> I64:
    """Draw `count` lengths; a number is the length of all."""
    if isinstance(lengths, int):
        return np.full(count, lengths, np.int64)
    assert generator is not None
    return lengths.draw(count, generator)
