"""Instances, each of which starts and fails as a whole, and the fleet that they are."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from astrarium.serving.links import Links
from astrarium.serving.server import Server

__all__ = ["Fleet", "Instance", "Outages"]


class Instance(Struct, frozen=True):
    """The servers of one design.

    `front` take requests. Where prefill and decode are apart, `back` decode, and caches go over `links` to the server
    with the fewest requests, with the first token, which prefill gives.
    `offset`: ps between a token's step and the client. `startup`: ps from its start until it takes requests. `npus` of
    all servers. `member`: its entry of the fleet.
    """

    front: Sequence[Server]
    back: Sequence[Server] = ()
    links: Links | None = None
    offset: int = 0
    npus: int = 1
    startup: int = 0
    member: int = 0

    @property
    def servers(self) -> tuple[Server, ...]:
        """All of them."""
        return (*self.front, *self.back)


class Outages(Struct, frozen=True):
    """When instances go down and start: `changes` (ps, instance, whether it starts) that are stated; and failures at
    random, `mtbf` ps from one to the next of an NPU (0: none), after which an instance starts again in `repair` ps."""

    changes: Sequence[tuple[int, int, bool]] = ()
    mtbf: float = 0.0
    repair: int = 0
    seed: int = 0


class Fleet(Struct, frozen=True):
    """Instances behind one router. `migrate`: whether a request of an instance that goes down keeps the tokens that it
    was given. `notes`: settings that do nothing."""

    instances: Sequence[Instance]
    outages: Outages = Outages()
    migrate: bool = False
    notes: Sequence[str] = ()

    @property
    def servers(self) -> tuple[Server, ...]:
        """All of them, instance by instance."""
        return tuple(server for instance in self.instances for server in instance.servers)

    @property
    def npus(self) -> int:
        """NPUs of all instances."""
        return sum(instance.npus for instance in self.instances)
