"""ASTRA-sim's double binary tree: each chunk runs an all_reduce up and down one of two trees, taking turns.

Whatever the operation, every participant sends and receives the whole chunk.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from astrarium.engine.plan import Phase
from astrarium.engine.reference.astra_ring import Host, Place
from astrarium.engine.reference.clock import Event
from astrarium.errors import UnsupportedError

__all__ = ["Tree", "TreeNode", "binary_tree"]


class TreeNode(Struct, frozen=True):
    """Indexes of the neighbours in a tree; -1 where there is none."""

    parent: int
    left: int
    right: int

    @property
    def children(self) -> list[int]:
        return [child for child in (self.left, self.right) if child >= 0]


@lru_cache(maxsize=256)
def binary_tree(n: int, root_last: bool) -> tuple[TreeNode, ...]:
    """The tree over n = 2^k participants, numbered from left to right: a root with one perfect tree beside it."""
    if n < 2 or n & (n - 1):
        raise UnsupportedError("collective", f"ASTRA-sim's double_binary_tree crashes on {n} participants",
                               expected="a power of two")
    links: dict[int, list[int]] = {i: [-1, -1, -1] for i in range(n)}

    def grow(low: int, high: int, parent: int) -> int:
        middle = (low + high) // 2
        links[middle][0] = parent
        if low < high:
            links[middle][1], links[middle][2] = grow(low, middle - 1, middle), grow(middle + 1, high, middle)
        return middle

    if root_last:
        links[n - 1][1] = grow(0, n - 2, n - 1)
    else:
        links[0][2] = grow(1, n - 1, 0)
    return tuple(TreeNode(*links[i]) for i in range(n))


class Tree:
    """One participant: gathers from its children, sends to its parent, waits for the result, hands it down."""

    __slots__ = ("_done", "_host", "_node", "_place", "_reduced", "_size", "_tag", "_wanted")

    def __init__(self, host: Host, phase: Phase, place: Place, tag: int, done: Event, root_last: bool) -> None:
        self._host, self._place, self._tag, self._done = host, place, tag, done
        self._size = phase.size
        self._node = binary_tree(phase.n, root_last)[place.index]
        self._wanted = len(self._node.children)
        self._reduced = 0

    def start(self) -> None:
        """A leaf offers its data, the others ask their children."""
        if not self._node.children:
            self._host.door.out(self._size, False, self._up)
        for child in self._node.children:
            self._receive(child, self._from_child)

    def _from_child(self) -> None:
        self._wanted -= 1
        self._host.door.into(self._size, False, True, self._wanted == 0, self._child_reduced)

    def _child_reduced(self) -> None:
        self._reduced += 1
        if self._reduced == len(self._node.children):
            if self._node.parent < 0:
                self._down()
            else:
                self._up()

    def _up(self) -> None:
        self._send(self._node.parent)
        self._receive(self._node.parent, self._from_parent)

    def _from_parent(self) -> None:
        if self._node.children:
            self._host.door.into(self._size, False, True, True, self._down)
        else:
            self._host.door.into(self._size, False, False, False, self._done)

    def _down(self) -> None:
        for child in self._node.children:
            self._send(child)
        self._done()

    def _send(self, index: int) -> None:
        self._host.mail.send(self._tag, self._place.rank, self._place.ranks[index], self._size, None)

    def _receive(self, index: int, then: Event) -> None:
        self._host.mail.receive(self._tag, self._place.ranks[index], self._place.rank, self._size, then)
