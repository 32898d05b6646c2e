"""packets: messages are cut into packets, which queue at each link (design/0017).

`net` has the links, the routes and the messages under way; `credits` and `roce` say when a packet may start. The
compiled core does all of a window at once; here an event queue has the same integers.
"""

from __future__ import annotations

from functools import partial

from astrarium.engine.outcome import PacketCounts
from astrarium.engine.plan import Changes, NetworkPlan, RoceRules, TransportRules
from astrarium.errors import UnsupportedError
from astrarium.oracle.clock import DEPART, DONE, NEVER, Clock, Event, Key, Order
from astrarium.oracle.credits import Credits
from astrarium.oracle.fabric import fabric_of, link_rates, links_that_stand
from astrarium.oracle.net import Cargo, Net, Transport, Ways
from astrarium.oracle.record import Traffic
from astrarium.oracle.roce import Roce

__all__ = ["Packets"]

NOBODY = (0, 0, 0, 0)


def _transport(net: Net, rules: TransportRules | None) -> Transport:
    if rules is None:
        return Credits(net)
    made: Transport = Roce(net, rules) if isinstance(rules, RoceRules) else rules.open(net)
    return made


def _check_links(network: NetworkPlan, ways: Ways) -> None:
    """Refuse links without latency (a window would take no time), and buffers that no packet fits into."""
    rules = network.packets
    packet = rules.size + rules.header
    for link, (latency, buffer) in enumerate(zip(ways.latency, ways.buffer, strict=True)):
        what = f"link {link}" if network.graph is not None else f"links of dim {ways.ports[link][0]}"
        if latency < 1:
            raise UnsupportedError("workload", f"packets over {what} without latency: at least 1 ps")
        if rules.transport is None and 0 < buffer < packet:
            raise UnsupportedError("workload", f"packets of {packet} bytes over {what} with a buffer of {buffer}")


class Packets:
    """packets: what happens before the end of a window happens there, when all that asks in it is known."""

    def __init__(self, clock: Clock, network: NetworkPlan, traffic: Traffic | None,
                 changes: Changes | None = None) -> None:
        self._clock, self._network = clock, network
        self._fabric = fabric_of(network, changes)
        self._rates = link_rates(self._fabric, changes)
        self._net = Net(network, traffic, self._fabric, self._rates)
        _check_links(network, self._net.ways)
        self._transport = _transport(self._net, network.packets.transport)
        self._window = min(self._net.ways.latency, default=1000)
        self._asked, self._due = 0, NEVER

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
        if self._net.epochs is not None:
            self._net.epochs.go_to(now)
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
            self._due = NEVER
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
