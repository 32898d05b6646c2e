"""Steps that are lowered to find out what their nodes depend on: sorts of steps, and drawn ones of each."""

from __future__ import annotations

import random
from typing import NamedTuple

from msgspec import Struct

from astrarium.serving.steps.features import edge_of, limit_of, windows_of
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.replica import Replica

__all__ = ["Point", "Sort", "points_of"]

SEED = 1
FAR = 9000      # tokens in a cache


class Class(Struct, frozen=True):
    """Equal prompts, or parts of prompts: `count` of `size` tokens with `past` tokens in their caches, which sample
    `sampled` tokens each, so that what depends on these is told from what depends on their number."""

    count: int
    size: int
    past: int
    sampled: int = 1


NONE = Class(0, 1, 0)


class Point(Struct, frozen=True):
    """A step of one pass: `count` sequences with `new` tokens each and `context` in their caches in all, `padding`, and
    up to two classes of prompts."""

    count: int
    context: int
    padding: int = 0
    prompts: Class = NONE
    others: Class = NONE
    new: int = 1

    @property
    def tokens(self) -> int:
        """Tokens that go through the layers."""
        prompts = sum(each.count * each.size for each in (self.prompts, self.others))
        return self.count * self.new + self.padding + prompts

    @property
    def heads(self) -> int:
        """Tokens that are sampled."""
        return self.count * self.new + sum(each.count * each.sampled for each in (self.prompts, self.others))

    @property
    def packed(self) -> Packed:
        """As a step of the graph."""
        return Packed((*decoding(self.count, self.context, self.padding, self.new), *(
            Sequences(each.count, each.size, each.past, each.sampled)
            for each in (self.prompts, self.others) if each.count)))


def decoding(count: int, context: int, padding: int, new: int) -> list[Sequences]:
    """Decoding sequences, as equal as can be, and padding."""
    mean, rest = divmod(context, count) if count else (0, 0)
    parts = (Sequences(count - rest, new, mean, new) if count else None,
             Sequences(rest, new, mean + 1, new) if rest else None,
             Sequences(padding, 1, 0, 0) if padding else None)
    return [part for part in parts if part is not None]


class Sort(NamedTuple):
    """Which steps run the same kernels: those with decoding sequences (`new` tokens each, 0: none that has a cache),
    with padding, with prompts that have a past (`cached`) or none (`fresh`), with prompts of `several` classes, with
    `long` fresh ones, which run other kernels than short ones."""

    new: int
    padded: bool = False
    fresh: bool = False
    cached: bool = False
    several: bool = False
    long: bool = False

    @property
    def prompts(self) -> bool:
        """Whether there are prompts."""
        return self.fresh or self.cached

    def wide(self, new: int) -> Sort:
        """One whose steps may have all nodes of this one."""
        return self._replace(new=new, padded=True, several=False)


def points_of(sort: Sort, replica: Replica, count: int) -> list[Point]:
    """`count` steps that differ in everything, with prompts shorter and longer than the windows; all fresh ones shorter
    or all longer than an indexer's choice."""
    draw, found, edge, limit = random.Random(SEED), [], edge_of(replica), limit_of(replica)
    past = FAR if limit is None else min(FAR, limit // 2)
    most = max(1000, *(4 * (window or 0) for window in windows_of(replica)))
    most = most if limit is None else min(most, limit // 2)
    sizes = (most, 3) if edge is None or not sort.fresh else (8 * edge, edge + 1) if sort.long else (edge, 3)

    def up_to(most: int, least: int = 1) -> int:
        return int(least * (most / least) ** draw.random())

    def prompts(there: bool) -> Class:
        return Class(draw.randint(1, 3), up_to(*sizes), up_to(past) if sort.cached else 0,
                     draw.randint(1, 2)) if there else NONE

    for _ in range(count):
        many = up_to(256) if sort.new else 0
        padding = up_to(8 if many else 256) if sort.padded else 0
        found.append(Point(many, many * up_to(past) + draw.randrange(many or 1), padding, prompts(sort.prompts),
                           prompts(sort.several), sort.new))
    return found
