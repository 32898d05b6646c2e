"""Cache blocks: held by requests, or idle and evicted when others need them.

Blocks that requests share belong to segments: runs of blocks under one key, such that an equal key means equal tokens
up to there (a shared system prompt, a block hash of a trace, a conversation). A segment that no request holds is idle;
idle segments are evicted in the order in which they were left, each from its end (vLLM's free queue; SGLang's radix
tree evicts the same order leaf by leaf).
"""

from __future__ import annotations

import bisect
from collections import OrderedDict
from collections.abc import Sequence

from msgspec import Struct, field

from astrarium.serving.cache.tiers import Store
from astrarium.workload.inference.footprint import CacheBlocks

__all__ = ["Blocks", "Held", "Segments"]

Segments = Sequence[tuple[object, int]]     # (key, tokens up to its end) of each


class Node(Struct, eq=False):
    """A segment in the cache: its first `length` blocks, `start` others before them, and how many requests hold it."""

    key: object
    start: int = 0
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
    holds, where that is not in proportion to its tokens: then segments take the blocks of layers that see all tokens,
    and the rest of every sequence is its own."""

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

    def clear(self, shared: Sequence[bool] = ()) -> None:
        """Lose all blocks, and what stores hold, but for those that are `shared` with other servers."""
        self.free, self.idle = self.total, 0
        self.nodes.clear()
        self.left.clear()
        for store, kept in zip(self.stores, shared, strict=False):
            if not kept:
                store.clear()

    def of(self, tokens: int) -> int:
        """Blocks of a sequence of `tokens` tokens."""
        return -(-tokens // self.block) if self.held is None else self.held.of(tokens)

    def shared(self, blocks: int) -> int:
        """Blocks that segments take which hold the first `blocks` blocks of tokens."""
        return blocks if self.held is None else self.held.shared(blocks)

    def _size(self, node: Node) -> int:
        return self.shared(node.start + node.length) - self.shared(node.start)

    def match(self, segments: Segments, tokens: int) -> tuple[list[Node], int, int]:
        """Segments in the cache that begin a prompt of `tokens` tokens, blocks of it in them, and idle blocks.

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
            idle += 0 if node.users else self._size(node)
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
        held.shared += self.shared(blocks)
        self.take(held, own)

    def rest(self, nodes: Sequence[Node], blocks: int) -> int:
        """Blocks of an idle segment beyond a match of `blocks` blocks, which has only its beginning."""
        if not nodes or nodes[-1].users:
            return 0
        return self.shared(nodes[-1].start + nodes[-1].length) - self.shared(blocks)

    def trim(self, node: Node, blocks: int) -> None:
        """Evict what an idle segment has beyond the first `blocks` blocks of a prompt."""
        before = self._size(node)
        node.length = blocks - node.start
        self.idle -= before - self._size(node)

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
            before = self._size(node)
            node.length = self._left_of(node, before - excess) if excess < before else 0
            gone = before - self._size(node)
            self.idle -= gone
            excess -= gone
            if not node.length:
                del self.left[key]
                self.nodes.pop(key, None)

    def _left_of(self, node: Node, most: int) -> int:
        """The most blocks of tokens of a segment that take at most `most` blocks."""
        if self.held is None:
            return most
        most += self.shared(node.start)
        return bisect.bisect_right(range(node.length + 1), most, key=lambda each: self.shared(node.start + each)) - 1

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
            node = self.nodes[key] = Node(key, held.reached)
        if node.length >= length:
            return
        if not held.nodes or held.nodes[-1] is not node:
            copies = self._size(node)   # which the request computed again: it uses those that were there
            self._join(held, node)
            held.own -= copies
            held.shared += copies
            self.free += copies
        before = self._size(node)
        node.length = length
        more = self._size(node) - before
        held.own -= more
        held.shared += more

    def _join(self, held: Held, node: Node) -> None:
        if not node.users and node.length:
            del self.left[node.key]
            self.free -= self._size(node)
            self.idle -= self._size(node)
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
                self.free += self._size(node)
                self.idle += self._size(node)
        held.own, held.shared, held.known, held.reached = 0, 0, 0, 0
        held.nodes.clear()
