"""`network.packets`: how the back end `packets` cuts messages, and what its transport does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec.structs import replace

from astrarium.config import Config, Knob, Problem, default
from astrarium.config.named import Named
from astrarium.engine.plan import FIRST_LINK, NetworkPlan, PacketRules, RoceRules, TransportRules
from astrarium.errors import PluginError, asked
from astrarium.fabric.graph import graph_of
from astrarium.network.transport import Credits, Transport
from astrarium.registry import built_ins
from astrarium.units import Bytes, OptionalBytes

if TYPE_CHECKING:
    from astrarium.network.section import Section

__all__ = ["Packets", "with_packets"]

Rules = tuple[Callable[[Any], Iterable[Problem]], ...]


MOST_THREADS = 256


def _packet_rules(packets: Packets) -> Iterator[Problem]:
    if packets.buffer is not None and packets.transport.link_buffers and \
            packets.buffer < float(packets.size) + float(packets.header):
        yield Problem("buffer", f"{packets.buffer} holds no packet", "at least size + header, or null (without limit)")
    if packets.threads > MOST_THREADS:
        yield Problem("threads", f"is {packets.threads}", f"at most {MOST_THREADS}")
    if packets.threads > 1 and packets.spray:
        yield Problem("threads", "has no effect with spray: true", "threads: 1")


def _moved(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """The section `roce` of before beside `transport: roce`, as fields of the transport."""
    if "roce" not in plain or plain.get("transport") != "roce" or not isinstance(plain["roce"], Mapping):
        return plain
    return {**{key: value for key, value in plain.items() if key != "roce"},
            "transport": {**plain["roce"], "name": "roce"}}


class Packets(Config, frozen=True):
    """Packets, links' buffers and transport of `backend: packets`."""

    preset = _moved
    rules: ClassVar[Rules] = (_packet_rules,)
    size: Annotated[Bytes, Knob("Payload of a packet (4,096 B: the largest MTU of InfiniBand and RoCE).", ge=1,
                                lt=2**31)
                    ] = default("4096 B")
    header: Annotated[Bytes, Knob("Header of each packet; 0 B if `efficiency` accounts for it.",
                                  lt=2**31)
                      ] = default("0 B")
    transport: Annotated[Named[Transport], Knob("How packets wait, by name (`roce`), or as a mapping with its fields "
                                                "(`{name: roce, kmin: 10 kB}`).")] = default(Credits())
    buffer: Annotated[OptionalBytes, Knob("Buffer at the end of each link (credits); left out: without limit.")] = None
    deadlock: Annotated[Literal["refuse", "allow"], Knob("What becomes of a design whose links may wait for each other "
                                                         "in a circle (credits with buffers, PFC).")] = "refuse"
    spray: Annotated[bool, Knob("Packets take equally fast ways in turn.")] = False
    seed: Annotated[int, Knob("Seed of the hash that decides ECN marks.", ge=0,
                              lt=2**63)] = 0
    queues: Annotated[bool, Knob("Record the queue of each link, and its pauses, over time.")] = False
    threads: Annotated[int, Knob("Threads that run the packets of one design (without spray); results are the "
                                 "same.", ge=1)] = 1


def _told(transport: Transport) -> TransportRules | None:
    """What the engine is told of a transport. Raises PluginError where a plug-in's `plan` gives something else."""
    if transport.tag in built_ins("transport"):
        return transport.plan()
    who = f"transport plug-in {transport.tag}"
    found: object = asked(who, transport.plan)
    if found is not None and not isinstance(found, TransportRules):
        raise PluginError(who, f"plan() gave an object of {type(found).__name__}, which is no TransportRules")
    return found


def with_packets(packets: Packets, network: NetworkPlan, section: Section) -> NetworkPlan:
    """The engine's network with the rules of `packets`; sprayed over dims, on their graph. `section`: the design's."""
    buffer = round(float(packets.buffer or 0.0)) if packets.transport.link_buffers else 0
    rules = PacketRules(round(float(packets.size)), round(float(packets.header)), buffer, packets.spray,
                        packets.seed, _told(packets.transport), packets.queues, packets.threads)
    made = replace(network, packets=rules)
    if packets.spray and made.graph is None:
        made = replace(made, graph=graph_of(made.dims), ecmp=FIRST_LINK)
    if isinstance(rules.transport, RoceRules):
        made = _by_rates(packets.transport, made, section)
    return made


def _by_rates(transport: Transport, network: NetworkPlan, section: Section) -> NetworkPlan:
    """With RoCE's rules of each rate of the network's links, and the links that are inside hosts."""
    from astrarium.network.inside import inside_links
    from astrarium.network.roce import Roce, of_rates

    assert isinstance(transport, Roce)
    rates = {dim.bandwidth for dim in network.dims if dim.npus > 1} if network.graph is None else set(
        network.graph.bandwidth.tolist())
    return replace(network, packets=replace(network.packets, transport=of_rates(transport, sorted(rates)),
                                            inside=inside_links(section, network, transport.inside)))
