"""Links whose speed changes while a design runs: `network.changes`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from astrarium.config import Config, Knob, Problem, default
from astrarium.units import Time

__all__ = ["Change"]


def _one_thing(change: Change) -> Iterator[Problem]:
    if (change.link is None) == (change.npu is None):
        yield Problem("link", "is missing" if change.link is None else "stands beside npu", "link, or npu")
    if change.link is not None and len(change.link) != 2:
        yield Problem("link", f"has {len(change.link)} ends", "the two ends of links, such as [leaf.0, spine.1]")
    if change.speed > 1:
        yield Problem("speed", f"{change.speed:g} is more than full speed", "0 to 1")


class Change(Config, frozen=True, kw_only=True):
    """A change of the speed of links, from a time on."""

    rules = (_one_thing,)
    at: Annotated[Time, Knob("When, since the start.")] = default("0 ns")
    link: Annotated[Sequence[str | int] | None, Knob("Two ends: all links between them, both ways. Names of the fabric "
                                                     "(leaf.0), or numbers of NPUs.")] = None
    npu: Annotated[int | None, Knob("An NPU in place of a link: system.changes has replaced this.", ge=0)] = None
    speed: Annotated[float, Knob("Fraction of full speed, from 0 (stopped) to 1. A link of a fabric with speed 0 from "
                                 "0 ns on does not exist: ways are found without it.", ge=0)]
