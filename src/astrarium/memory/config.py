"""The `memory` section: an NPU's local memory, slower tiers behind it, and remote memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

from astrarium import catalog
from astrarium.config import Config, Knob, Problem, default
from astrarium.config.named import Shorthand
from astrarium.registry import Kind
from astrarium.units import Bandwidth, Bytes, OptionalBandwidth, OptionalBytes, Time

__all__ = ["Memory", "Remote", "Tier"]


class Tier(Config, frozen=True):
    """One level of memory behind the local one (host DRAM, CXL, SSD): access = latency + size / bandwidth."""

    name: Annotated[str, Knob("Name of the tier, as reports print it.")]
    capacity: Annotated[Bytes, Knob("Bytes it holds per NPU.", gt=0)]
    bandwidth: Annotated[Bandwidth, Knob("Transfer rate to or from one NPU.", gt=0)]
    latency: Annotated[Time, Knob("Time before the first byte.")] = default("0 ns")


def _remote_rules(remote: Remote) -> Iterator[Problem]:
    if remote.kind in ("per_npu", "per_node", "pool") and remote.bandwidth is None:
        yield Problem("bandwidth", "is missing", Bandwidth.expected())
    if remote.kind == "per_node" and remote.npus_per_node is None:
        yield Problem("npus_per_node", "is missing", "how many NPUs share one remote memory")
    if remote.kind != "per_node" and remote.npus_per_node is not None:
        yield Problem("npus_per_node", f"means nothing where kind is {remote.kind}", "kind: per_node")


class Remote(Config, frozen=True):
    """Remote memory: access = latency + size / bandwidth; `per_node` and `pool` serve one access at a time."""

    rules = (_remote_rules,)
    kind: Annotated[str, Knob("Who shares a remote memory.", choices=Kind("remote"))] = "none"
    bandwidth: Annotated[OptionalBandwidth, Knob("Transfer rate of one remote memory.", gt=0)] = default(None)
    latency: Annotated[Time, Knob("Time before the first byte.")] = default("0 ns")
    npus_per_node: Annotated[int | None, Knob("NPUs that share one remote memory (kind: per_node).", ge=1)] = None


def _tier_rules(memory: Memory) -> Iterator[Problem]:
    names = [tier.name for tier in memory.tiers]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Problem(f"tiers[{index}].name", f"{name!r} is there twice", "a name of its own")


class Memory(Config, frozen=True):
    """Local memory of one NPU, and what lies behind it."""

    shorthand: ClassVar[Shorthand | None] = Shorthand(lambda name: catalog.device(name).memory,
                                                      "a device of the catalog (`astrarium list device`)")
    rules = (_tier_rules,)
    capacity: Annotated[OptionalBytes, Knob("Bytes one NPU holds; left out: usage is reported, not judged.", gt=0)
                        ] = default(None)
    bandwidth: Annotated[OptionalBandwidth, Knob("Local bandwidth of one NPU, for roofline and the reductions of "
                                                 "collectives; left out: these take no time.", gt=0)] = default(None)
    latency: Annotated[Time, Knob("Time before the first byte of a local access (compute.model: roofline).")
                       ] = default("0 ns")
    tiers: Annotated[Sequence[Tier], Knob("Slower memories behind the local one, nearest first.")] = ()
    remote: Annotated[Remote, Knob("Remote memory.")] = Remote()


