"""The `memory` section: an NPU's local memory, slower tiers behind it, and remote memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from astrarium import catalog
from astrarium.config import Config, Knob, Problem, default
from astrarium.config.named import Shorthand
from astrarium.registry import Kind
from astrarium.units import Bandwidth, Bytes, OptionalBandwidth, OptionalBytes, Time

__all__ = ["Memory", "PoolLevel", "Remote", "Tier"]


class Tier(Config, frozen=True):
    """One level of memory behind the local one (host DRAM, CXL, SSD): access = latency + size / bandwidth."""

    name: Annotated[str, Knob("Name of the tier, as reports print it.")]
    capacity: Annotated[Bytes, Knob("Bytes it holds per NPU.", gt=0)]
    bandwidth: Annotated[Bandwidth, Knob("Transfer rate to or from one NPU.", gt=0)]
    latency: Annotated[Time, Knob("Time before the first byte.")] = default("0 ns")


class PoolLevel(Config, frozen=True):
    """Links of one level of a pool, from a switch (or the memory groups) above to `ends` equal parts of the NPUs."""

    name: Annotated[str, Knob("Name of the level, as reports print it.")]
    ends: Annotated[int, Knob("Equal parts of the NPUs that the links of this level lead to: 1 for all NPUs together, "
                              "the number of nodes, or the number of NPUs.", ge=1)]
    bandwidth: Annotated[Bandwidth, Knob("Bandwidth of one link.", gt=0)]
    links: Annotated[int, Knob("Links to each end, for example one from each switch above.", ge=1)] = 1
    gathers: Annotated[bool, Knob("The switches above these links copy what several ends load together, and add what "
                                  "they store together; off: each end's bytes cross the levels above.")] = True


def _remote_rules(remote: Remote) -> Iterator[Problem]:
    if remote.kind in ("per_npu", "per_node", "pool") and remote.bandwidth is None:
        yield Problem("bandwidth", "is missing", Bandwidth.expected())
    if remote.kind == "per_node" and remote.npus_per_node is None:
        yield Problem("npus_per_node", "is missing", "how many NPUs share one remote memory")
    if remote.kind != "per_node" and remote.npus_per_node is not None:
        yield Problem("npus_per_node", f"means nothing where kind is {remote.kind}", "kind: per_node")
    if remote.kind == "none" and remote.over == "network":
        yield Problem("over", "means nothing where kind is none", "kind: per_npu, per_node or pool")


def _pool_rules(remote: Remote) -> Iterator[Problem]:
    given = {"groups": remote.groups is not None, "chunk": remote.chunk is not None, "levels": bool(remote.levels)}
    for name, there in given.items():
        if there and remote.kind != "pool":
            yield Problem(name, f"means nothing where kind is {remote.kind}", "kind: pool")
        elif not there and any(given.values()):
            yield Problem(name, "is missing", "groups, chunk and levels: together they describe a pool behind switches")
    ends = [1, *[level.ends for level in remote.levels]]
    for index, (above, below) in enumerate(pairwise(ends)):
        if below % above:
            yield Problem(f"levels[{index}].ends", f"{below} is not divided by the {above} ends of the level above",
                          f"a multiple of {above}")


class Remote(Config, frozen=True):
    """Remote memory: access = latency + size / bandwidth; `per_node` and `pool` serve one access at a time.

    A pool with `levels` lies behind switches and serves all NPUs at once (`astrarium.memory.pool`).
    """

    rules = (_remote_rules, _pool_rules)
    kind: Annotated[str, Knob("Who shares a remote memory.", choices=Kind("remote"))] = "none"
    bandwidth: Annotated[OptionalBandwidth, Knob("Transfer rate of one remote memory (of a pool with levels: of one "
                                                 "memory group).", gt=0)] = default(None)
    latency: Annotated[Time, Knob("Time before the first byte.")] = default("0 ns")
    npus_per_node: Annotated[int | None, Knob("NPUs that share one remote memory (kind: per_node).", ge=1)] = None
    over: Annotated[Literal["own", "network"],
                    Knob("What carries accesses: links of their own, or the NPU's network, where they take turns with "
                         "its collectives.")] = "own"
    groups: Annotated[int | None, Knob("Memory groups of a pool, over which every tensor is spread evenly (kind: "
                                       "pool); left out: one memory that serves one access at a time.", ge=1)] = None
    chunk: Annotated[OptionalBytes, Knob("Most bytes that a memory group sends at a time; chunks follow each other "
                                         "through the levels as through a pipeline.", gt=0)] = default(None)
    levels: Annotated[Sequence[PoolLevel], Knob("Links between the memory groups and the NPUs, from the memory on; the "
                                                "ends of the last are the NPUs.")] = ()


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


