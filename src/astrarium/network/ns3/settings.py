"""The `network.ns3` section: what ns-3 simulates, and how its program is run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Config, Knob, Problem, default
from astrarium.units import Bytes, Time

__all__ = ["Ns3"]

LARGEST_PACKET = 65_000     # with its headers it fits into an IP packet
LARGEST_WINDOW = 2**30      # TCP's window scaling ends there
PacketSize = Annotated[Bytes, Knob("Payload of a packet (TCP: of a segment).", gt=0)]
Window = Annotated[Bytes, Knob("Send and receive buffer of a TCP connection.", gt=0)]
Patience = Annotated[Time, Knob("Wall-clock time without a sign of life after which the program is given up.", gt=0)]


def _sizes(settings: Ns3) -> Iterator[Problem]:
    for name, most in (("packet", LARGEST_PACKET), ("window", LARGEST_WINDOW)):
        value = getattr(settings, name)
        if not 1 <= value <= most or value != int(value):
            yield Problem(name, f"{value} is impossible", f"whole bytes from 1 to {most}")
    if settings.queue is not None and settings.queue >= 2**32:
        yield Problem("queue", f"{settings.queue} packets are too many", "less than 4294967296, or nothing")


class Ns3(Config, frozen=True):
    """ns-3's packets and transport (backend: ns3)."""

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_sizes,)
    transport: Annotated[Literal["udp", "tcp"],
                         Knob("udp: packets without congestion control; tcp: a connection per pair of NPUs, ns-3's "
                              "default congestion control.")] = "udp"
    packet: PacketSize = default("4 KiB")
    queue: Annotated[int | None, Knob("Packets that wait at a port before the next one is lost; none: any number.",
                                      ge=1)] = None
    window: Window = default("4 MiB")
    most_packets: Annotated[int, Knob("Packets of udp in the network at once, of about 0.5 KB of memory each; beyond "
                                      "it the run is refused.", ge=1)] = 4_000_000
    patience: Patience = default("60 s")
    program: Annotated[str | None, Knob("The program that `make ns3` builds, where it is elsewhere.", file=True)] = None
