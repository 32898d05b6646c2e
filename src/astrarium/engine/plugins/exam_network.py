"""The exam of networks: what every plug-in must do, shown by small random traffic and by the rules' own cases."""

from __future__ import annotations

import random
from collections.abc import Callable

from msgspec import Struct

from astrarium.engine.plan import Backend, Dim, NetworkPlan, Shape
from astrarium.engine.plugins.exam import demand, demand_int, refuses
from astrarium.engine.plugins.network import NEVER, Network

__all__ = ["EXAM_FABRIC", "exam_network"]

EXAM_FABRIC = NetworkPlan(Backend.FOREIGN, (Dim(Shape.RING, 4, 50.0, 500.0), Dim(Shape.SWITCH, 2, 25.0, 1000.0)))
"""The dims that the exam's networks are made for unless told otherwise: 8 NPUs."""
STEPS = 200_000

Make = Callable[[], Network]


class Call(Struct, frozen=True):
    """One sim_send or sim_recv of the exam's traffic."""

    at: int
    sends: bool
    size: int
    src: int
    dst: int
    tag: int


def exam_network(make: Make, *, npus: int = 8, latency: int = 0, seed: int = 0, rounds: int = 6) -> None:
    """Examine networks made by `make()` (a new one at every call, for `npus` >= 2 NPUs; see EXAM_FABRIC).

    `latency` (ps): no message is delivered sooner than this after it was sent. `rounds` of random traffic from `seed`.
    Raises ExamError that says what is broken: clock, conservation, matching, latency, or determinism.
    """
    _clock(make)
    _once(make)
    _matching(make)
    _late_receive(make)
    rng = random.Random(seed)
    for number in range(rounds):
        calls = _traffic(rng, npus, number)
        first = _Run(make(), calls, latency)
        first.play()
        first.judge()
        second = _Run(make(), calls, latency)
        second.play()
        demand(first.done == second.done, "two networks given the same calls answer at different times")


def _clock(make: Make) -> None:
    """The plug-in's clock: starts at 0, runs what was scheduled, in order, and stops at the given time."""
    network = make()
    demand(demand_int(network.sim_get_time(), "sim_get_time()") == 0, "a new network's clock does not stand at 0")
    ran: list[tuple[str, int]] = []
    network.sim_schedule(700, lambda: ran.append(("late", network.sim_get_time())))
    network.sim_schedule(300, lambda: ran.append(("first", network.sim_get_time())))
    network.sim_schedule(300, lambda: ran.append(("second", network.sim_get_time())))
    refuses(lambda: network.sim_schedule(-1, lambda: None), "sim_schedule(-1) is not refused: time would go back")
    demand(network.next_event_time() <= 300, "next_event_time() is later than what was scheduled first (300 ps)")
    _advance(network, 299)
    demand(not ran, "advance(299) ran what was scheduled for 300 ps")
    _advance(network, 300)
    demand(ran == [("first", 300), ("second", 300)],
           f"of two callbacks scheduled for 300 ps, advance(300) ran {ran}; expected first, second, at 300 ps")
    _advance(network, 1000)
    demand(ran[2:] == [("late", 700)], f"advance(1000) past a callback for 700 ps ran {ran[2:]}")


def _once(make: Make) -> None:
    """One message: its send and its receive are called back once each."""
    network = make()
    sent: list[int] = []
    there: list[int] = []
    network.sim_recv(1000, 0, 1, lambda: there.append(1), 3)
    network.sim_send(1000, 0, 1, lambda: sent.append(1), 3)
    _drain(network)
    demand(len(sent) == 1, f"the callback of one sim_send was called {len(sent)} times")
    demand(len(there) == 1, f"the callback of the sim_recv that matches it was called {len(there)} times")


def _matching(make: Make) -> None:
    """A receive takes the message of its own source, destination and tag, and no other."""
    network = make()
    there: list[int] = []
    network.sim_recv(1000, 0, 1, lambda: there.append(1), 8)
    for src, dst, tag, what in ((0, 1, 7, "of another tag"), (1, 0, 8, "of the other direction"),
                                (1, 0, 7, "of the other direction")):
        network.sim_send(1000, src, dst, lambda: None, tag)
        _drain(network)
        demand(not there, f"a receive of (0 to 1, tag 8) took a message {what} ({src} to {dst}, tag {tag})")
    network.sim_send(1000, 0, 1, lambda: None, 8)
    _drain(network)
    demand(len(there) == 1, f"a receive was called back {len(there)} times for one message that matches")


def _late_receive(make: Make) -> None:
    """A receive posted after its message came is called back then, and an early one when the message comes."""
    network = make()
    there: list[int] = []
    network.sim_send(64, 0, 1, lambda: None, 1)
    _drain(network)
    later = network.sim_get_time() + 12_345
    _advance(network, later)
    network.sim_recv(64, 0, 1, lambda: there.append(network.sim_get_time()), 1)
    _drain(network)
    demand(len(there) == 1, f"a sim_recv posted after its message came was called back {len(there)} times")
    demand(there[0] >= later, "a receive was called back before it was posted")


def _advance(network: Network, to: int) -> None:
    network.advance(to)
    now = network.sim_get_time()
    demand(now == to, f"sim_get_time() is {now} after advance({to})")
    following = demand_int(network.next_event_time(), "next_event_time()")
    demand(following > to, f"next_event_time() is {following} after advance({to}), which should have run it")


def _drain(network: Network) -> None:
    """Run the network until nothing is to come."""
    for _ in range(STEPS):
        following = demand_int(network.next_event_time(), "next_event_time()")
        if following == NEVER:
            return
        now = network.sim_get_time()
        demand(following >= now, f"next_event_time() is {following}, before now ({now}): time goes back")
        _advance(network, following)
    demand(False, f"the network's clock does not come to rest within {STEPS} steps")


def _traffic(rng: random.Random, npus: int, number: int) -> list[Call]:
    """Sends with their receives, some at the same instant, some receives early and some late."""
    calls = []
    for _ in range(rng.choice([1, 5, 40])):
        src = rng.randrange(npus)
        dst = (src + rng.randrange(1, npus)) % npus
        size = rng.choice([0, 1, 64, 4096, 1_000_000])
        tag = rng.choice([0, 1, (1 << 40) + number]) + 10 * size     # a tag never comes with two sizes
        at = [rng.choice([0, 1000, rng.randrange(3_000_000)]) for _ in range(2)]
        calls += [Call(at[0], True, size, src, dst, tag), Call(at[1], False, size, src, dst, tag)]
    return sorted(calls, key=lambda call: call.at)


class _Run:
    """Plays calls on one network and keeps when each was called back."""

    def __init__(self, network: Network, calls: list[Call], latency: int) -> None:
        self._network, self._calls, self._latency = network, calls, latency
        self.done: list[int | None] = [None] * len(calls)
        self._playing = -1

    def play(self) -> None:
        """Issue every call at its time, and run the network in between and to its end."""
        network = self._network
        for number, call in enumerate(self._calls):
            for _ in range(STEPS):
                following = demand_int(network.next_event_time(), "next_event_time()")
                if following >= call.at:
                    break
                _advance(network, following)
            if network.sim_get_time() != call.at:
                _advance(network, call.at)
            face = network.sim_send if call.sends else network.sim_recv
            face(call.size, call.src, call.dst, self._callback(number), call.tag)
        _drain(network)

    def _callback(self, number: int) -> Callable[[], None]:
        def called() -> None:
            demand(self.done[number] is None, f"{self._words(number)} was called back twice")
            self.done[number] = demand_int(self._network.sim_get_time(), "sim_get_time()")

        return called

    def judge(self) -> None:
        """Every call answered once; no message too early; equal messages meet their receives in order."""
        queues: dict[tuple[int, int, int, int], tuple[list[int], list[int], list[int]]] = {}
        for number, (call, done) in enumerate(zip(self._calls, self.done, strict=True)):
            demand(done is not None, f"{self._words(number)} was never called back")
            assert done is not None
            least = call.at + (self._latency if call.sends else 0)
            demand(done >= least, f"{self._words(number)} was called back at {done} ps, before {least} ps")
            sent, there, posted = queues.setdefault((call.src, call.dst, call.tag, call.size), ([], [], []))
            if call.sends:
                sent.append(done)
            else:
                there.append(done)
                posted.append(call.at)
        for key, (sent, there, posted) in queues.items():
            for k, (came, received, since) in enumerate(zip(sorted(sent), sorted(there), sorted(posted), strict=True)):
                demand(received >= came, f"of messages (src, dst, tag, size) = {key}, number {k + 1} was received at "
                       f"{received} ps, before it was delivered at {came} ps")
                demand(received >= since, f"of receives (src, dst, tag, size) = {key}, number {k + 1} was called back "
                       f"at {received} ps, before it was posted at {since} ps")

    def _words(self, number: int) -> str:
        call = self._calls[number]
        return (f"sim_{'send' if call.sends else 'recv'}({call.size}, {call.src}, {call.dst}, tag {call.tag}) "
                f"issued at {call.at} ps")
