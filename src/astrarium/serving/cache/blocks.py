"""Cache blocks: held by requests, or idle and evicted when others need them.

Blocks that requests share belong to segments: runs of blocks under one key, such that an equal key means equal tokens
up to there (a shared system prompt, a block hash of a trace, a conversation). A segment that no request holds is idle;
idle segments are evicted in the order in which they were left, each from its end (vLLM's free queue; SGLang's radix
tree evicts the same order leaf by leaf).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from msgspec import Struct, field

from astrarium.serving.cache.tiers import Store
from astrarium.workload.inference.footprint import CacheBlocks

__all__ = ["Blocks", "Held", "Segments"]

Segments = Sequence[tuple[object, int]]     # (key, tokens up to its end) of each


class Node(Struct, eq=False):
    """A segment in the cache: its first `length` blocks, and how many requests hold it."""

    key: object
    length: int = 0
    users: int = 0


class Held(Struct, eq=False):
    """What a request holds: `own` blocks, and shared segments in order; `known` of its segments were told to others;
    `reached` blocks are before the end of these."""

    own: int = 0
    nodes: list[Node] = field(default_factory=list)
    shared: int = 0     # blocks in `nodes` that are the request's
    known: int = 0
    reached: int = 0

    @property
    def blocks(self) -> int:
        """Blocks that the request can use."""
        return self.own + self.shared


class Blocks(Struct):
    """The cache of one server. `free` blocks are empty or idle (`idle` of them hold segments). `held`: what a sequence
    holds, where that is not in proportion to its tokens."""

    total: int
    block: int
    stores: Sequence[Store] = ()
    reuse: bool = True
    held: CacheBlocks | None = None
    free: int = 0
    idle: int = 0
    nodes: dict[object, Node] = field(default_factory=dict)
    left: OrderedDict[object, Node] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self.free = self.total

    def of(self, tokens: int) -> int:
        """Blocks of a sequence of `tokens` tokens."""
        return -(-tokens // self.block) if self.held is None else self.held.of(tokens)

    def match(self, segments: Segments, tokens: int) -> tuple[list[Node], int, int]:
        """Segments in the cache that begin a prompt of `tokens` tokens, their blocks, and how many of these are idle.

        The last token is always computed (it gives the first logits), so its block is none of them.
        """
        found: list[Node] = []
        blocks = idle = start = 0
        most = (tokens - 1) // self.block
        for key, end in segments:
            length = min(end // self.block, most) - start
            if length <= 0:
                if start >= most:
                    break
                continue
            node = self.nodes.get(key)
            have = min(node.length, length) if node is not None else 0
            if node is None or not have:
                break
            found.append(node)
            blocks += have
            idle += 0 if node.users else node.length
            if have < length:
                break
            start += length
        return found, blocks, idle

    def stored(self, segments: Segments, tokens: int, blocks: int) -> tuple[int, Store | None]:
        """Up to which block a tier continues a match of `blocks` blocks, and which: the one that goes furthest."""
        best, found = blocks, None
        most = (tokens - 1) // self.block
        for store in self.stores:
            place = start = 0
            for key, end in segments:
                length = min(end // self.block, most) - start
                if length <= 0:
                    continue
                place = start + min(store.lengths.get(key, 0), length)
                start += length
                if place < start and start > blocks:
                    break
            if place > best:
                best, found = place, store
        return best, found

    def hold(self, held: Held, nodes: Sequence[Node], blocks: int, own: int) -> None:
        """A request takes `nodes` with `blocks` blocks of a match, and `own` new ones."""
        for node in nodes:
            self._join(held, node)
        held.shared += blocks
        self.take(held, own)

    def rest(self, nodes: Sequence[Node], blocks: int) -> int:
        """Blocks of an idle segment beyond a match of `blocks` blocks, which has only its beginning."""
        return 0 if not nodes or nodes[-1].users else sum(node.length for node in nodes) - blocks

    def trim(self, node: Node, rest: int) -> None:
        """Evict the last `rest` blocks of an idle segment."""
        node.length -= rest
        self.idle -= rest

    def take(self, held: Held, own: int) -> None:
        """A request takes `own` more blocks, which are free."""
        self.claim(own)
        held.own += own

    def claim(self, number: int) -> None:
        """`number` blocks go to requests; idle segments give way where too few blocks are empty."""
        excess = number - (self.free - self.idle)
        self.free -= number
        while excess > 0:
            key, node = next(iter(self.left.items()))
            gone = min(node.length, excess)
            node.length -= gone
            self.idle -= gone
            excess -= gone
            if not node.length:
                del self.left[key]
                self.nodes.pop(key, None)

    def tell(self, held: Held, segments: Segments, tokens: int) -> None:
        """Blocks of the first `tokens` tokens of a request are there for others, up to the end of `segments`."""
        if not self.reuse:
            return
        while held.known < len(segments):
            key, end = segments[held.known]
            length = min(end, tokens) // self.block - held.reached
            if length > 0:
                self._give(held, key, length)
            if end > tokens:
                return
            held.known += 1
            held.reached = max(held.reached, end // self.block)

    def _give(self, held: Held, key: object, length: int) -> None:
        """Own blocks become those of a segment that has fewer than `length`."""
        node = self.nodes.get(key)
        if node is None:
            node = self.nodes[key] = Node(key)
        if node.length >= length:
            return
        if not held.nodes or held.nodes[-1] is not node:
            copies = node.length        # which the request computed again: it uses those that were there
            self._join(held, node)
            held.own -= copies
            held.shared += copies
            self.free += copies
        more = length - node.length
        node.length = length
        held.own -= more
        held.shared += more

    def _join(self, held: Held, node: Node) -> None:
        if not node.users and node.length:
            del self.left[node.key]
            self.free -= node.length
            self.idle -= node.length
        node.users += 1
        held.nodes.append(node)

    def release(self, held: Held, segments: Segments, tokens: int) -> None:
        """A request gives up everything; its first `tokens` tokens stay for others until they are evicted."""
        self.tell(held, segments, tokens)
        self.free += held.own
        for node in reversed(held.nodes):
            for store in self.stores:
                store.write(node.key, node.length)
            node.users -= 1
            if not node.users:
                self.left[node.key] = node
                self.free += node.length
                self.idle += node.length
        held.own, held.shared, held.known, held.reached = 0, 0, 0, 0
        held.nodes.clear()
