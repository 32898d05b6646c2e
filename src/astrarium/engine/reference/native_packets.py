"""Messages as packets over links with queues (design/0017): an event queue with the integers of the core's windows."""

from __future__ import annotations

from functools import partial

from astrarium.engine.outcome import PacketCounts
from astrarium.engine.plan import Changes, NetworkPlan, RoceRules, TransportRules
from astrarium.engine.reference.clock import Event
from astrarium.engine.reference.fabric import fabric_of, link_rates, links_that_stand
from astrarium.engine.reference.native_clock import DEPART, DONE, NOTHING, BatchClock, Key, Order
from astrarium.engine.reference.native_media import MediumKind
from astrarium.engine.reference.packet_credits import Credits
from astrarium.engine.reference.packet_net import Cargo, Net, Transport
from astrarium.engine.reference.packet_roce import Roce
from astrarium.engine.reference.packet_rules import check_packets
from astrarium.engine.reference.traffic import Traffic

__all__ = ["PACKETS"]

NOBODY = (0, 0, 0, 0)


def _transport(net: Net, rules: TransportRules | None) -> Transport:
    if rules is None:
        return Credits(net)
    made: Transport = Roce(net, rules) if isinstance(rules, RoceRules) else rules.open(net)
    return made


class Packets:
    """packets: what happens before the end of a window happens there, when all that asks in it is known."""

    def __init__(self, clock: BatchClock, network: NetworkPlan, traffic: Traffic | None,
                 changes: Changes | None = None) -> None:
        self._clock, self._network = clock, network
        self._fabric = fabric_of(network)
        self._rates = link_rates(self._fabric, changes)
        self._net = Net(network, traffic, self._rates)
        self._transport = _transport(self._net, network.packets.transport)
        self._window = min(self._net.ways.latency, default=1000)
        self._asked, self._due = 0, NOTHING

    def send(self, key: Key, order: Order, source: int, destination: int, size: int, delivered: Event,
             tag: int = 0) -> None:
        """As `Medium` says."""
        del order, tag
        done = partial(self._deliver, key, delivered)
        self._clock.at(self._clock.now, DEPART, key, partial(self._ask, source, destination, size, done))

    def _deliver(self, key: Key, delivered: Event, when: int) -> None:
        self._clock.at(when, DONE, key, delivered)

    def _ask(self, source: int, destination: int, size: int, done: partial[None]) -> None:
        now = self._clock.now
        if source == destination:
            done(now)
            return
        packets = max(1, -(-size // self._network.packets.size))
        cargo = Cargo(source, destination, size, size, packets, now, self._asked, done)
        self._asked += 1
        self._transport.ask(cargo, self._net.ways.first(source, destination), now)
        self._wake_after(now)

    def _wake_after(self, time: int) -> None:
        """Wake at the end of this time's window."""
        end = (time // self._window + 1) * self._window
        if end < self._due:
            self._due = end
            self._clock.at(end, DONE, NOBODY, self._wake)

    def _wake(self) -> None:
        now = self._clock.now
        if self._due <= now:
            self._due = NOTHING
        self._transport.run(now)
        following = self._transport.events.first()
        if following is not None:
            self._wake_after(following)

    def waits(self) -> list[str]:
        """Links that stand still, and links whose packets wait for room."""
        wanted = {port for link, port in enumerate(self._net.ways.ports) if self._transport.keeps(link)}
        return links_that_stand(self._fabric, self._rates, wanted) + self._transport.explain()

    def counts(self) -> PacketCounts | None:
        """What was measured."""
        return self._transport.counts()


PACKETS = MediumKind(Packets, takes_graph=True, takes_switches=True, check=check_packets, counts=Packets.counts)
