"""The `memory` section: an NPU's local memory, slower tiers behind it, and remote memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

from astrarium import catalog
from astrarium.config import Config, Knob, Problem, default
from astrarium.config.named import Named, Shorthand
from astrarium.errors import nearest
from astrarium.registry import Kind
from astrarium.units import Bandwidth, Bytes, OptionalBandwidth, OptionalBytes, Time

__all__ = ["AUTO", "LOCAL", "PLACED", "Memory", "Placement", "Remote", "Tier"]


def _shared_rules(tier: Tier) -> Iterator[Problem]:
    if tier.total is not None and tier.npus == 1:
        yield Problem("total", "is the rate of a tier that NPUs share, and npus is 1", "bandwidth, or npus: 2 or more")
    if tier.step_bandwidth is not None and tier.over == "network":
        yield Problem("step_bandwidth", "means nothing over the network", "over: own, or no step_bandwidth")


class Tier(Config, frozen=True):
    """One level of memory behind the local one (host DRAM, CXL, a pool): access = latency + size / bandwidth.

    NPUs with consecutive numbers share one, `npus` of them: each has an equal part of its capacity and of its `total`
    rate, whether or not the others use theirs. An NPU has one transfer at a time under way to a tier, in program order.
    """

    rules = (_shared_rules,)
    name: Annotated[str, Knob("Name of the tier, as reports print it.")]
    capacity: Annotated[Bytes, Knob("Bytes that one of it holds, for all NPUs that share it.", gt=0)]
    bandwidth: Annotated[Bandwidth, Knob("Transfer rate to or from one NPU.", gt=0)]
    latency: Annotated[Time, Knob("Time before the first byte.")] = default("0 ns")
    npus: Annotated[int, Knob("NPUs that share one, of consecutive numbers.", ge=1)] = 1
    total: Annotated[OptionalBandwidth, Knob("Transfer rate of one to or from all NPUs that share it, which have equal "
                                             "parts; left out: `bandwidth` for each.", gt=0)] = default(None)
    duplex: Annotated[bool, Knob("Loads and stores of an NPU at once, each at `bandwidth`; off: one transfer at a time."
                                 )] = False
    over: Annotated[Literal["own", "network"],
                    Knob("What carries transfers: links of their own, or the NPU's network, where they take turns with "
                         "its collectives.")] = "own"
    step_bandwidth: Annotated[OptionalBandwidth,
                              Knob("Rate at which a processor beside it reads and writes it in the optimizer's step "
                                   "(states placed here are then stepped here, not on the NPU); left out: there is "
                                   "none.", gt=0)] = default(None)
    label: Annotated[str | None, Knob("What traces call it (`chakra.mem.tier`, or the text before a colon of it); left "
                                      "out: its name, and G2 for the first tier, G3 for the second, and so on.")] = None

    @property
    def rate(self) -> float:
        """Bytes per ns of one NPU that are its own whatever the others do."""
        own = float(self.bandwidth)
        return own if self.total is None else min(own, float(self.total) / self.npus)

    @property
    def share(self) -> float:
        """Bytes of one NPU."""
        return float(self.capacity) / self.npus

    @property
    def step_rate(self) -> float | None:
        """Bytes per ns of the optimizer's step of one NPU's states; None: no processor is beside the tier."""
        return None if self.step_bandwidth is None else float(self.step_bandwidth) / self.npus


LOCAL, AUTO = "local", "auto"
PLACED = ("parameters", "gradients", "states", "activations")


class Placement(Config, frozen=True):
    """Which memory holds the tensors of training: `local`, the name of a tier, or `auto`.

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
    """Local memory of one NPU, and what lies behind it."""

    shorthand: ClassVar[Shorthand | None] = Shorthand(lambda name: catalog.device(name).memory,
                                                      "a device of the catalog (`astrarium list device`)")
    rules = (_tier_rules, _placement_rules)
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


