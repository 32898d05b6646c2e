"""The `memory` section: an NPU's local memory, slower tiers behind it, and remote memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from astrarium import catalog
from astrarium.catalog.technology import MemoryTechnology, Technologies, memory_technology
from astrarium.config import Config, Knob, Problem, default
from astrarium.config.derive import Derivation
from astrarium.config.named import Named, Shorthand
from astrarium.errors import nearest
from astrarium.registry import Kind
from astrarium.units import Bandwidth, Bytes, OptionalBandwidth, OptionalBytes, Quantity, Time

__all__ = ["AUTO", "LOCAL", "PLACED", "Memory", "Placement", "PoolLevel", "Remote", "Tier"]


_TECHNOLOGY = Knob("Technology (`astrarium list memory`): its row says capacity, bandwidth, energy and price.",
                   choices=Technologies("memories"))
_PIECES = Knob("Stacks, chips or modules of the technology.", ge=1)


def _of_one(name: str) -> Mapping[str, Quantity]:
    """Capacity and bandwidth of a stack, chip or module."""
    found = memory_technology(name)
    return {"capacity": Bytes.of(found.capacity), "bandwidth": Bandwidth.of(found.bandwidth)}


_BY_TECHNOLOGY = Derivation("technology", "pieces", Technologies("memories"), _of_one, ("capacity", "bandwidth"),
                            counted=("capacity", "bandwidth"))


def _technology_rules(memory: Memory | Tier) -> Iterator[Problem]:
    if memory.technology is None and memory.pieces > 1:
        yield Problem("pieces", "has no effect without technology", "technology (`astrarium list memory`)")


_DIM = Knob("Dim of the network, from 0, whose switches hold the memory: transfers are messages on the dim's "
            "links (over: network); left out: they share no link.", ge=0)


def _shared_rules(tier: Tier) -> Iterator[Problem]:
    if tier.total is not None and tier.npus == 1:
        yield Problem("total", "is the rate of a tier that NPUs share, and npus is 1", "bandwidth, or npus: 2 or more")
    if tier.step_bandwidth is not None and tier.over == "network":
        yield Problem("step_bandwidth", "has no effect over the network", "over: own, or no step_bandwidth")
    yield from _dim_rules(tier)


def _dim_rules(memory: Tier | Remote) -> Iterator[Problem]:
    if memory.dim is not None and memory.over != "network":
        yield Problem("dim", f"has no effect with over: {memory.over}", "over: network")


class Tier(Config, frozen=True):
    """One level of memory behind the local one (host DRAM, CXL, a pool): access = latency + size / bandwidth.

    NPUs with consecutive numbers share one, `npus` of them: each has an equal part of its capacity and of its `total`
    rate, whether or not the others use theirs. An NPU has one transfer at a time under way to a tier, in program order.
    """

    rules = (_technology_rules, _shared_rules)
    either = (("capacity", "technology"), ("bandwidth", "technology"))
    derive = _BY_TECHNOLOGY
    name: Annotated[str, Knob("Name of the tier, as reports print it.")]
    capacity: Annotated[Bytes, Knob("Bytes that one of it holds, for all NPUs that share it (or technology).", gt=0)
                        ] = default(None)
    bandwidth: Annotated[Bandwidth, Knob("Transfer rate to or from one NPU (or technology).", gt=0)] = default(None)
    latency: Annotated[Time, Knob("Time before the first byte.")] = default("0 ns")
    npus: Annotated[int, Knob("NPUs that share one, of consecutive numbers.", ge=1)] = 1
    total: Annotated[OptionalBandwidth, Knob("Transfer rate of one to or from all NPUs that share it, which have equal "
                                             "parts; left out: `bandwidth` for each.", gt=0)] = default(None)
    duplex: Annotated[bool, Knob("Loads and stores of an NPU at once, each at `bandwidth`; off: one transfer at a time."
                                 )] = False
    over: Annotated[Literal["own", "network"],
                    Knob("What carries transfers: separate links, or the NPU's network, where they take turns with "
                         "its collectives or, with a `dim`, share links with all messages.")] = "own"
    dim: Annotated[int | None, _DIM] = None
    step_bandwidth: Annotated[OptionalBandwidth,
                              Knob("Rate at which a processor next to it reads and writes it in the optimizer's step "
                                   "(states placed here are then stepped here, not on the NPU); left out: there is "
                                   "none.", gt=0)] = default(None)
    label: Annotated[str | None, Knob("What traces call it (`chakra.mem.tier`, or the text before a colon of it); left "
                                      "out: its name, and G2 for the first tier, G3 for the second, and so on.")] = None
    technology: Annotated[str | None, _TECHNOLOGY] = None
    pieces: Annotated[int, _PIECES] = 1

    @property
    def rate(self) -> float:
        """Bytes per ns of one NPU, whatever the others do."""
        own = float(self.bandwidth)
        return own if self.total is None else min(own, float(self.total) / self.npus)

    @property
    def share(self) -> float:
        """Capacity of one NPU, bytes."""
        return float(self.capacity) / self.npus

    @property
    def step_rate(self) -> float | None:
        """Bytes per ns of the optimizer's step of one NPU's states; None: no processor is beside the tier."""
        return None if self.step_bandwidth is None else float(self.step_bandwidth) / self.npus


LOCAL, AUTO = "local", "auto"
PLACED = ("parameters", "gradients", "states", "activations")


class Placement(Config, frozen=True):
    """The memories of the tensors of training: `local`, the name of a tier, or `auto`.

    `auto` moves kinds of tensors out of the local memory until the rest fits, those first that a byte of is moved
    least in a step (optimizer states, gradients, activations, parameters), each to the nearest tier that has room.
    """

    shorthand: ClassVar[Shorthand | None] = Shorthand(
        lambda name: dict.fromkeys(PLACED, name), "auto, or the name of a tier")
    parameters: Annotated[str, Knob("Where weights are: fetched layer by layer ahead of use.")] = LOCAL
    gradients: Annotated[str, Knob("Where gradients of weights go, layer by layer in backward.")] = LOCAL
    states: Annotated[str, Knob("Where the optimizer's states are.")] = LOCAL
    activations: Annotated[str, Knob("Where what forward saves for backward is in between.")] = LOCAL
    prefetch: Annotated[int, Knob("Layers whose weights and activations are fetched ahead.", ge=0, lt=2**16)] = 1

    @property
    def automatic(self) -> tuple[str, ...]:
        """The kinds of tensors that `auto` places."""
        return tuple([what for what in PLACED if getattr(self, what) == AUTO])

    @property
    def away(self) -> bool:
        """Whether anything may be outside the local memory."""
        return any(getattr(self, what) != LOCAL for what in PLACED)


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
        yield Problem("npus_per_node", f"has no effect with kind: {remote.kind}", "kind: per_node")
    if remote.kind == "none" and remote.over == "network":
        yield Problem("over", "has no effect with kind: none", "kind: per_npu, per_node or pool")
    yield from _dim_rules(remote)
    if remote.dim is not None and (remote.kind not in ("per_node", "pool") or remote.levels):
        what = "a pool with levels, links of its own," if remote.levels else f"kind {remote.kind}"
        yield Problem("dim", f"has no effect for {what}", "kind: per_node, or pool without levels")


def _pool_rules(remote: Remote) -> Iterator[Problem]:
    given = {"groups": remote.groups is not None, "chunk": remote.chunk is not None, "levels": bool(remote.levels)}
    for name, there in given.items():
        if there and remote.kind != "pool":
            yield Problem(name, f"has no effect with kind: {remote.kind}", "kind: pool")
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
                    Knob("What carries accesses: separate links, or the NPU's network, where they take turns with "
                         "its collectives or, with a `dim`, share links with all messages.")] = "own"
    dim: Annotated[int | None, _DIM] = None
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
        if name in (LOCAL, AUTO, ""):
            yield Problem(f"tiers[{index}].name", f"{name!r} means something else", "another name")


def _placement_rules(memory: Memory) -> Iterator[Problem]:
    names = [tier.name for tier in memory.tiers]
    for what in PLACED:
        where = getattr(memory.placement, what)
        if where not in (LOCAL, AUTO, *names):
            known = ", ".join((LOCAL, AUTO, *names))
            yield Problem(f"placement.{what}", f"there is no tier {where!r}", f"one of {known}", nearest(where, names))
    if memory.placement.automatic and (memory.capacity is None or not memory.tiers):
        yield Problem("capacity" if memory.capacity is None else "tiers", "is missing",
                      "what placement: auto has to fill, local memory first")


class Memory(Config, frozen=True):
    """Local memory of one NPU, and the memories behind it."""

    shorthand: ClassVar[Shorthand | None] = Shorthand(lambda name: catalog.device(name).memory,
                                                      "a device of the catalog (`astrarium list device`)")
    rules = (_technology_rules, _tier_rules, _placement_rules)
    either = (("capacity", "technology"), ("bandwidth", "technology"))
    derive = _BY_TECHNOLOGY
    capacity: Annotated[OptionalBytes, Knob("Bytes one NPU holds; left out: usage is reported, not judged.", gt=0)
                        ] = default(None)
    bandwidth: Annotated[OptionalBandwidth, Knob("Local bandwidth of one NPU, for roofline and the reductions of "
                                                 "collectives; left out: these take no time.", gt=0)] = default(None)
    latency: Annotated[Time, Knob("Time before the first byte of a local access (compute.model: roofline).")
                       ] = default("0 ns")
    tiers: Annotated[Sequence[Tier], Knob("Slower memories behind the local one, nearest first.")] = ()
    remote: Annotated[Remote, Knob("Remote memory.")] = Remote()
    placement: Annotated[Named[Placement], Knob("Which memory holds the tensors of training.")
                         ] = default(Placement())
    technology: Annotated[str | None, _TECHNOLOGY] = None
    pieces: Annotated[int, _PIECES] = 1

    @property
    def made_of(self) -> MemoryTechnology | None:
        """The technology of the local memory."""
        return None if self.technology is None else memory_technology(self.technology)


