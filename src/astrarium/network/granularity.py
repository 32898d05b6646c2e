"""Granularity of the back ends: how much longer a message that meets no other takes than by its links alone.

Alone, a message of B bytes takes the latencies of its links and the time B / W of its slowest one. A back end may add
what further links store before they forward it, and more. Where no two messages want a link at one time, a collective
is a chain of such messages, and back ends agree within the sum over the messages of the chain.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

__all__ = ["GRANULARITY", "Granularity"]


class Granularity(Struct, frozen=True):
    """What a message that is alone may take beyond its latencies and its slowest link.

    `stores`: what each link after the first stores before it forwards; `lines`: only those of rings and meshes do.
    `headers`: bytes of each packet, besides. `answers`: bytes of what each link carries for a message in the other
    direction. `share`: of B / W, for what the page of the back end says. `rates`: byte/ns to which rates are rounded.
    """

    stores: Literal["nothing", "packets", "messages"]
    lines: bool = False
    headers: int = 0
    answers: int = 0
    share: float = 0.0
    rates: float = 0.0

    @property
    def inexact(self) -> bool:
        """Whether it is a bound, beside what links store."""
        return bool(self.headers or self.answers or self.share or self.rates)

    def beyond(self, size: int, slowest: float, packet: int, links: int, on_lines: int) -> float:
        """The most that a message takes beyond latencies and slowest link, ps.

        Args:
            size: bytes of the message.
            slowest: bandwidth of its slowest link, byte/ns.
            packet: bytes of a packet.
            links: of its way.
            on_lines: those among them that belong to rings and meshes.
        """
        packets = -(-size // packet)
        stored = {"nothing": 0, "packets": min(size, packet), "messages": size}[self.stores]
        extra = (stored * max(0, (on_lines if self.lines else links) - 1) + self.headers * (packets + links)
                 + self.answers * links + self.share * size + self.rates / slowest * size)
        rounding = packets / 2 if self.stores == "packets" else 1
        return extra / slowest * 1000 + rounding

    @property
    def sentence(self) -> str:
        """It in words."""
        each = {"nothing": "", "packets": "a packet", "messages": "the message"}[self.stores]
        found = [f"{each} per further link{' of rings and meshes' if self.lines else ''}"] if each else []
        found += [f"{self.headers} B of headers per packet"] if self.headers else []
        found += [f"{self.answers} B of answers per link"] if self.answers else []
        found += [f"{self.share:.0%} of the message"] if self.share else []
        found += [f"rates to {self.rates:.1g} B/ns"] if self.rates else []
        return ", ".join(found) or "nothing"


GRANULARITY: Mapping[str, Granularity] = MappingProxyType({
    "closed_form": Granularity("messages", lines=True),
    "contention": Granularity("nothing"),
    "contention, store_and_forward": Granularity("messages"),
    "fluid": Granularity("nothing", rates=500 / (2520 << 30)),      # half a part (engine.activities.UNIT) per ps
    "packets": Granularity("packets"),
    "packets, roce": Granularity("packets", answers=64, share=0.02),
    "ns3": Granularity("packets", headers=30),      # of udp: PPP 2, IP 20, UDP 8
})
