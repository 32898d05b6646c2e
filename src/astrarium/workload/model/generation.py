"""What a family of models says of its steps of inference: which layouts are legal, and what is cached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from astrarium.config import Problem

__all__ = ["Cache", "Generation", "Split"]


class Split(NamedTuple):
    """A layout of inference: degrees of the axes, `even` where sizes must divide (`uneven: refuse`), `compressed`
    where the workload asks for a smaller cache."""

    tp: int
    sp: int = 1
    pp: int = 1
    ep: int = 1
    dp: int = 1
    even: bool = True
    compressed: bool = False


@dataclass(frozen=True)
class Cache:
    """The key-value cache of a model.

    `heads` are cached apart, so that tp can divide them. `sight(layer)` is how many tokens a layer looks back (None:
    all); only layers of equal sight can share a cache. `states`: some layers keep a state of fixed size instead.
    """

    heads: int
    sight: Callable[[int], int | None]
    states: bool = False


@dataclass(frozen=True)
class Generation:
    """Steps of inference of a family. `rules(model, split)` yields what forbids a layout; `cache(model)` describes its
    key-value cache, None for a family that keeps states of fixed size in place of one."""

    rules: Callable[[Any, Split], Iterator[Problem]]
    cache: Callable[[Any], Cache] | None = None
