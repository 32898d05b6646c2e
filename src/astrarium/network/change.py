"""Links whose speed changes while a design runs: `network.changes`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from astrarium.config import Config, Knob, Problem, default
from astrarium.fabric.built import Which
from astrarium.fabric.config import Tier
from astrarium.units import Time

__all__ = ["Change", "fails", "gone", "which"]


def _one_thing(change: Change) -> Iterator[Problem]:
    given = [name for name in ("link", "nic", "tier", "npu") if getattr(change, name) is not None]
    if len(given) > 1:
        yield Problem(given[0], f"stands beside {given[1]}", "one of link, nic, tier")
    if not given and change.dim is None:
        yield Problem("link", "is missing", "link, nic, tier, or dim")
    if change.dim is not None and given and given[0] not in ("link", "nic"):
        yield Problem("dim", f"has no effect beside {given[0]}", "no dim")
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
    nic: Annotated[str | int | None, Knob("A NIC or another device of the fabric (host.3.nic.0, leaf.2): all its links "
                                          "to other devices. Of dims, the number of an NPU.")] = None
    tier: Annotated[Tier | None, Knob("All links of a tier of the fabric.")] = None
    dim: Annotated[int | None, Knob("All links of a dim; beside link or nic: of these, those of the dim.", ge=0)] = None
    npu: Annotated[int | None, Knob("An NPU in place of a link: system.changes has replaced this.", ge=0)] = None
    speed: Annotated[float, Knob("Fraction of full speed, from 0 (failed) to 1. While a link has speed 0, messages go "
                                 "another way, if there is one; else they wait for it.", ge=0)]


def gone(change: Change) -> bool:
    """Whether links are not there at all: a fabric is built without them."""
    return change.npu is None and change.at == 0 and change.speed == 0


def fails(change: Change) -> bool:
    """Whether links fail."""
    return change.npu is None and change.speed == 0


def which(change: Change) -> Which:
    """The links of a fabric that a change names."""
    if change.link is not None:
        return Which(ends=(change.link[0], change.link[1]))
    return Which(tier=change.tier) if change.tier is not None else Which(device=str(change.nic))
