"""Trees of switches that compute, in a graph: for an aggregation, each message goes up to the next such switch."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from astrarium.engine.plan import Graph
from astrarium.engine.routes import FAR, Routes
from astrarium.errors import UnsupportedError

__all__ = ["Tree", "Trees"]


class Tree(Struct, frozen=True):
    """`up` [members and switches]: the place above each, -1 of the root. `nodes` [switches]: in the graph."""

    up: tuple[int, ...]
    nodes: tuple[int, ...]


class Trees:
    """The trees of a graph whose nodes `able` compute."""

    def __init__(self, graph: Graph, able: Sequence[int]) -> None:
        self._able, self._routes = frozenset(able), Routes(graph)

    def of(self, npus: Sequence[int], path: str) -> Tree:
        """The tree of a group of `npus`, in their order. Its root is the switch whose farthest member is nearest, then
        whose members are nearest all together, then the first. Members' ways to it are those of messages without a
        seed. Raises UnsupportedError where no switch that computes is reached."""
        root = self._root(npus, path)
        above: dict[int, int] = {}
        for npu in npus:
            at = npu
            while at != root:
                above[at] = following = self._next_able(at, root)
                at = following
        nodes = [*sorted(set(above.values()) - {root}), root]
        place = {node: number for number, node in enumerate([*npus, *nodes])}
        return Tree(tuple([place[above[node]] if node in above else -1 for node in [*npus, *nodes]]), tuple(nodes))

    def _root(self, npus: Sequence[int], path: str) -> int:
        near = self._routes.distances_from(npus[0])
        best: tuple[int, int, int] | None = None
        for node in sorted(self._able, key=lambda node: (near[node], node)):
            if near[node] == FAR or (best is not None and near[node] > best[0]):
                break
            left = self._routes.distances_to(node)
            ways = [left[npu] for npu in npus]
            found = (max(ways), sum(ways), node)
            best = found if best is None or found < best else best
        if best is None or best[0] == FAR:
            raise UnsupportedError(path, "no switch that computes is on ways between the members of a group",
                                   expected="network.fabric.in_switch, with switches that all of them reach")
        return best[2]

    def _next_able(self, at: int, root: int) -> int:
        while True:
            at = self._routes.target[self._routes.onward(at, root)[0]]
            if at in self._able:
                return at
