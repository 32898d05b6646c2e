"""Routes of a graph whose links fail and return. Between two such times, an epoch, they are the cheapest over the links
that are there; given ones count as far as all their links are there."""

from __future__ import annotations

from bisect import bisect_right
from itertools import groupby

from astrarium.engine.plan import Changes, Changing, Graph, NetworkPlan
from astrarium.engine.routes import Routes
from astrarium.oracle.clock import NEVER, rates_of

__all__ = ["Epochs"]


class Epochs:
    """The routes of a network's graph from some time on: `go_to` says which."""

    def __init__(self, network: NetworkPlan, graph: Graph, changes: Changes | None) -> None:
        self._network, self._graph = network, graph
        rates = rates_of(changes, Changing.LINK)
        dead: frozenset[int] = frozenset()
        self._since, self._dead = [0], [dead]
        for time, rows in groupby(rates.changes(), key=lambda change: change[0]):
            links = {link for _, link in rows}
            found = dead - links | {link for link in links if rates.speed(link, time) == 0}
            if found == dead:
                continue
            if time:
                self._since.append(time)
                self._dead.append(found)
            self._dead[-1] = dead = frozenset(found)
        self._routes: dict[frozenset[int], Routes] = {}
        self.whole = self._of(frozenset())
        self._now = 0

    @property
    def change(self) -> bool:
        """Whether links fail at all."""
        return len(self._since) > 1 or bool(self._dead[0])

    @property
    def begins(self) -> list[int]:
        """When epochs begin, after 0."""
        return self._since[1:]

    def go_to(self, now: int) -> None:
        """From now on routes are those of this time."""
        self._now = bisect_right(self._since, now) - 1

    def _of(self, dead: frozenset[int]) -> Routes:
        if dead not in self._routes:
            self._routes[dead] = Routes(self._graph, self._network.ecmp, self._network.routes, dead)
        return self._routes[dead]

    def next(self, at: int, source: int, destination: int) -> int:
        """The link by which a message leaves a node. Without a route that is left, that of the whole graph: it waits
        for a link that failed."""
        return self.routes(at, destination).next(at, source, destination)

    def routes(self, at: int, destination: int) -> Routes:
        """The routes that a message at a node takes."""
        routes = self._of(self._dead[self._now])
        return routes if routes.reaches(at, destination) else self.whole

    def reaches(self, at: int, destination: int) -> bool:
        """Whether a route is left now."""
        return self._of(self._dead[self._now]).reaches(at, destination)

    def dead(self, link: int) -> bool:
        """Whether a link has failed."""
        return link in self._dead[self._now]

    def gives_up(self, link: int, at: int, destination: int, after: int, until: int) -> int:
        """When what is at the begin of a link goes another way to its destination: the first time, later than `after`
        and before `until`, at which the link has failed and another route is left; else NEVER."""
        for epoch in range(bisect_right(self._since, after), len(self._since)):
            if self._since[epoch] >= until:
                break
            if link in self._dead[epoch] and self._of(self._dead[epoch]).reaches(at, destination):
                return self._since[epoch]
        return NEVER
