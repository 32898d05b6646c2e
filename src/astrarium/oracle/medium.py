"""Media: what moves bytes, one in a run. A medium knows nothing of ranks, nodes and collectives (design/0008).

One file a medium: `ports` (closed_form), `links` (contention), `flows` (fluid), `packets`. Here is what all of them
offer, and the one that hands messages to a network plug-in: a co-simulation in which the engine owns the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Protocol, cast

from astrarium.engine.media import medium_kind
from astrarium.engine.outcome import PacketCounts
from astrarium.engine.plan import Changes, NetworkPlan
from astrarium.engine.plugins.given import ask, ask_whole
from astrarium.engine.plugins.network import Network
from astrarium.errors import PluginError
from astrarium.oracle.clock import DEPART, DONE, ISSUE, NEVER, Clock, Event, Key, Order
from astrarium.oracle.record import Traffic

__all__ = ["ForeignMedium", "Keys", "Medium", "collective_tag", "open_medium"]

Keys = tuple[Key, Key]      # as it departs and ends, as it arrives


class Medium(Protocol):
    """What moves the bytes of one run."""

    def send(self, key: Key, order: Order, source: int, destination: int, size: int, delivered: Event,
             tag: int = 0) -> None:
        """Send `size` bytes from NPU `source`, now; `delivered` runs when the last one is at NPU `destination`.

        `key` orders it among what departs or ends in one instant, `order` among what arrives. `tag` is for plug-ins.
        """

    def waits(self) -> list[str]:
        """Sentences for a stall: what keeps messages for ever."""

    def counts(self) -> PacketCounts | None:
        """What a medium of packets measured; None of others."""


Opens = Callable[[Clock, NetworkPlan, Traffic | None, Changes | None], Medium]


def open_medium(clock: Clock, network: NetworkPlan, traffic: Traffic | None = None,
                changes: Changes | None = None) -> Medium:
    """The medium of a plan's network. `traffic`: what it fills in; `changes`: of its links.

    Raises UnsupportedError for a network that the medium cannot carry.
    """
    module, _, name = medium_kind(network.backend).readable.partition(":")
    return cast(Opens, getattr(import_module(module), name))(clock, network, traffic, changes)


def collective_tag(meeting: int, step: int, number: int) -> int:
    """The tag of a collective's message: above the 32 bits of the traces' own."""
    return (1 + meeting) << 40 | step << 20 | number


class ForeignMedium:
    """Hands sends (class DEPART) and receives (ISSUE) to a plug-in, in key order; its callbacks are DONE events."""

    def __init__(self, clock: Clock, plugin: Network, who: str, patience: int) -> None:
        self._clock, self._plugin, self._who, self._patience = clock, plugin, who, patience
        self._open: dict[int, str] = {}     # calls that were not called back: number -> in words
        self._number = self._time = self._idle = 0
        self._fault: PluginError | None = None
        self._over = False

    def send(self, key: Key, order: Order, source: int, destination: int, size: int, delivered: Event,
             tag: int = 0) -> None:
        """`delivered` runs when the plug-in calls the send back."""
        del order
        self._post(DEPART, self._plugin.sim_send, "send", key, source, destination, size, delivered, tag)

    def receive(self, key: Key, source: int, destination: int, size: int, there: Event, tag: int) -> None:
        """`there` runs when the plug-in calls the receive back."""
        self._post(ISSUE, self._plugin.sim_recv, "recv", key, source, destination, size, there, tag)

    def run(self, unfinished: Callable[[], bool]) -> None:
        """Run both clocks until nothing is left, or nothing comes."""
        if start := self._time_of("sim_get_time"):
            raise self._bad(f"its clock stands at {start} ps before the run; every run needs a new one")
        while (self._open or unfinished()) and self._idle <= self._patience and self._step():
            pass
        self._over = True

    def waits(self) -> list[str]:
        """Sentences for a stall: what the plug-in never called back."""
        moved = f"its clock moved {self._idle} times, to {self._clock.now} ps, and it called nothing back"
        return ([f"{self._who}: {moved}"] if self._idle > self._patience else []) + list(self._open.values())

    def counts(self) -> PacketCounts | None:
        """Nothing: a plug-in counts for itself."""
        return None

    def _step(self) -> bool:
        clock = self._clock
        theirs = self._time_of("next_event_time")
        if theirs < clock.now:
            raise self._bad(f"next_event_time() says {theirs} ps, before now ({clock.now} ps): time cannot go back")
        time = min(theirs, clock.next_time())
        if time == NEVER:
            return False
        if theirs == time:
            self._idle += 1
            clock.now = time
            self._bring_to(time)
            if (then := self._time_of("next_event_time")) <= time:
                raise self._bad(f"next_event_time() says {then} ps after advance({time}), which should have run "
                                "everything up to then")
        if clock.next_time() == time:
            self._idle = 0
            clock.instant()
        return True

    def _post(self, kind: int, function: Callable[..., None], verb: str, key: Key, source: int, destination: int,
              size: int, event: Event, tag: int) -> None:
        def hand_over() -> None:
            if self._time != self._clock.now:
                self._bring_to(self._clock.now)
            self._number += 1
            what = "of a collective" if tag >= 1 << 40 else f"tag {tag}"
            self._open[self._number] = (f"{self._who}: the callback of sim_{verb} never came ({size} bytes from NPU "
                                        f"{source} to {destination}, {what})")
            self._ask(function, size, source, destination, partial(self._called, self._number, key, event), tag)

        self._clock.at(self._clock.now, kind, key, hand_over)

    def _called(self, number: int, key: Key, event: Event) -> None:
        if self._over or self._open.pop(number, None) is None:
            self._fault = self._bad("called a callback that it does not have, or called it twice")
            raise self._fault
        self._idle = 0
        self._clock.at(self._clock.now, DONE, key, event)

    def _bring_to(self, time: int) -> None:
        self._time = time
        self._ask(self._plugin.advance, time)
        if (theirs := self._time_of("sim_get_time")) != time:
            raise self._bad(f"sim_get_time() says {theirs} ps after advance({time})")

    def _time_of(self, what: str) -> int:
        function = self._plugin.next_event_time if what == "next_event_time" else self._plugin.sim_get_time
        time = ask_whole(self._who, what, function)
        if self._fault is not None:
            raise self._fault
        return time

    def _ask(self, function: Callable[..., None], *arguments: object) -> None:
        ask(self._who, function, *arguments)
        if self._fault is not None:
            raise self._fault

    def _bad(self, message: str) -> PluginError:
        return PluginError(self._who, message)
