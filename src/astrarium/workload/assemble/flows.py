"""Transfers during the blocks of a unit: weights fetched and gathered, activations away and back, gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from astrarium.arrays import I32
from astrarium.vocab import NodeKind
from astrarium.workload.assemble.builder import GATHERED, REDUCED, STORED, Builder, Held
from astrarium.workload.assemble.pool import Pool
from astrarium.workload.assemble.recipe import Recipe
from astrarium.workload.assemble.rounds import State
from astrarium.workload.assemble.sharding import Pending, copied, gathers, loads
from astrarium.workload.schedule import BACKWARD

__all__ = ["NONE", "Fetched", "Gathered", "Loaded", "Reduced", "Stored"]

Waits = tuple[int, ...]
NONE = -5       # no node yet


def _state(nodes: Mapping[int, Sequence[int]], position: int, last: int) -> State:
    """Nodes of the blocks from `position` on, and the last one of all."""
    later = [place for place in nodes if place >= position]
    return State(tuple([place - position for place in later]), (last, *[tuple(nodes[place]) for place in later]))


def _resumed(state: State, position: int) -> tuple[dict[int, list[int]], int]:
    last, *nodes = state.nodes
    return {position + place: list(each) for place, each in zip(state.fixed, nodes, strict=True)}, last


def _weightless(recipe: Recipe, block: int, kind: int) -> bool:
    """Whether a unit of a block needs no weights: gradients of weights alone do not (an embedding's)."""
    return kind == BACKWARD and all(step.weight for step in recipe.kinds[block].backward.steps)


def _due(position: int, ahead: int, order: Sequence[int], outside: Waits, entry: Waits) -> Iterator[tuple[int, Waits]]:
    """(block, what its fetch waits for) of the fetches that begin before block number `position`: the first `ahead`
    blocks with the unit, then one each time."""
    for early in range(min(ahead, len(order)) if position == 0 else 0):
        yield early, outside
    if position + ahead < len(order):
        yield position + ahead, entry


class Fetched:
    """Weights that another memory holds: a block's are loaded `Recipe.ahead` blocks ahead of use."""

    def __init__(self, recipe: Recipe, pool: Pool, build: Builder, order: Sequence[int], kind: int,
                 outside: Waits) -> None:
        self.recipe, self.pool, self.build, self.order, self.kind = recipe, pool, build, order, kind
        self.outside, self.tier = outside, recipe.placed.parameters
        self.nodes: dict[int, list[int]] = {}

    def before(self, position: int, entry: Waits) -> Waits:
        """What block number `position` waits for, given what it would wait for if its weights were here."""
        if self.tier is None:
            return entry
        for block, after in _due(position, self.recipe.ahead, self.order, self.outside, entry):
            self._load(block, after)
        return (*entry, *self.nodes.get(position, ()))

    def _load(self, position: int, after: Waits) -> None:
        size = self._size(position)
        if size > 0 and self.tier is not None:
            rows = (loads(self.recipe, self.pool, self.order[position]) if self.recipe.gathers else
                    [self.pool.memory("weights.load", NodeKind.MEM_LOAD, size, self.tier)])
            self.nodes[position] = [self.build.node(row, after) for row in rows]

    def _size(self, position: int) -> float:
        recipe, kind = self.recipe, self.order[position]
        elements = sum(recipe.totals(kind).summed.values()) if recipe.gathers else recipe.kept(kind)
        return 0.0 if _weightless(recipe, kind, self.kind) else elements * recipe.sizes.weights

    def state(self, position: int) -> State:
        """See `rounds`."""
        return _state(self.nodes, position, NONE)

    def resume(self, position: int, state: State) -> None:
        """See `rounds`."""
        self.nodes, _ = _resumed(state, position)

    def hold(self, position: int, readers: Sequence[int]) -> None:
        """What was loaded lives to the end of the block."""
        if position in self.nodes:
            self.build.held.append(Held("weights", self._size(position), self.nodes[position][0], tuple(readers)))


class Gathered:
    """ZeRO 3: the weights of a block are gathered `prefetch` blocks ahead, one gather after the other, each once its
    shard has been `fetched`. Those that are kept whole come with the first block of the forward pass."""

    def __init__(self, recipe: Recipe, pool: Pool, build: Builder, order: Sequence[int], kind: int,
                 outside: Waits, fetched: Fetched) -> None:
        self.recipe, self.pool, self.build, self.order, self.kind = recipe, pool, build, order, kind
        self.outside, self.fetched = outside, fetched
        self.nodes: dict[int, list[int]] = {}
        self.last = GATHERED
        self.copy = NONE        # of this block's weights out of the buffer

    def before(self, position: int, entry: Waits) -> Waits:
        """What block number `position` of the unit waits for, given what it would wait for without sharding."""
        if self.recipe.zero < 3 or self.recipe.gathers:
            return entry
        for block, after in _due(position, self.recipe.prefetch, self.order, self.outside, entry):
            self._gather(block, after)
        if position not in self.nodes:
            self._gather(position, entry)
        waits = (*entry, *self.nodes[position])
        if not (self.recipe.flat.gather and self.nodes[position]):
            return waits
        size = self._size(position)
        self.copy = self.build.node(copied(self.pool, "weights.copy", size, size), waits)
        return (self.copy,)

    def _gather(self, position: int, after: Waits) -> None:
        recipe, pool = self.recipe, self.pool
        found = self.nodes.setdefault(position, [])
        for kind in self._kinds(position):
            for row in gathers(recipe, pool, kind):
                self.last = self.build.node(row, (*after, *self.fetched.nodes.get(position, ()), self.last))
                found.append(self.last)

    def _kinds(self, position: int) -> list[int]:
        """The kinds of blocks whose weights are gathered for one."""
        recipe, kind = self.recipe, self.order[position]
        alone = not (recipe.kept_whole(kind) or _weightless(recipe, kind, self.kind))
        whole = [each for each in self.order if recipe.kept_whole(each)] if not position and recipe.flat.ends else []
        return (whole if self.kind != BACKWARD else []) + [kind] * alone

    def _size(self, position: int) -> float:
        recipe = self.recipe
        return sum(recipe.totals(kind).sharded for kind in self._kinds(position)) * recipe.sizes.weights

    def state(self, position: int) -> State:
        """See `rounds`."""
        return _state(self.nodes, position, self.last)

    def resume(self, position: int, state: State) -> None:
        """See `rounds`."""
        self.nodes, self.last = _resumed(state, position)

    def hold(self, position: int, readers: Sequence[int]) -> None:
        """The gathered weights live from their first gather, or from their copy, to the end of the block; the buffer of
        a forward pass is there until the next one is copied out of, at about that time."""
        if not self.nodes.get(position):
            return
        kind, first = self.order[position], self.nodes[position][0]
        own = 0.0 if self.recipe.kept_whole(kind) else self.recipe.totals(kind).sharded * self.recipe.sizes.weights
        if self.recipe.flat.gather:
            self.build.held.append(Held("weights", own, self.copy, tuple(readers)))
            if not self.recipe.flat.pools:
                until = (self.copy,) if self.kind == BACKWARD else tuple(readers)
                self.build.held.append(Held("weights", self._size(position), first, until))
        else:
            self.build.held.append(Held("weights", own, first, tuple(readers)))


class Loaded:
    """Activations that another memory holds come back `Placed.prefetch` blocks ahead."""

    def __init__(self, recipe: Recipe, pool: Pool, build: Builder, order: Sequence[int], outside: Waits) -> None:
        self.recipe, self.pool, self.build, self.order, self.outside = recipe, pool, build, order, outside
        self.tier, self.active = recipe.placed.activations, recipe.placed.activations is not None
        self.nodes: dict[int, list[int]] = {}
        self.last = NONE

    def before(self, position: int, entry: Waits) -> Waits:
        """What block number `position` waits for."""
        if not self.active:
            return entry
        for block, after in _due(position, self.recipe.placed.prefetch, self.order, self.outside, entry):
            self._load(block, after)
        return (*entry, *self.nodes.get(position, ()))

    def state(self, position: int) -> State:
        """See `rounds`."""
        return _state(self.nodes, position, self.last)

    def resume(self, position: int, state: State) -> None:
        """See `rounds`."""
        self.nodes, self.last = _resumed(state, position)

    def _load(self, position: int, after: Waits) -> None:
        size = self.recipe.kinds[self.order[position]].saved
        if size > 0 and self.tier is not None:
            row = self.pool.memory("saved.load", NodeKind.MEM_LOAD, size, self.tier)
            first = (STORED,) if self.tier else ()      # a tier may load and store at once
            self.last = self.build.node(row, (*after, *(first if self.last == NONE else (self.last,))))
            self.nodes[position] = [self.last]
            self.build.loads.append((len(self.order) - 1 - position, self.last))

    def hold(self, position: int, readers: Sequence[int]) -> None:
        """What was loaded lives to the end of the block."""
        if position in self.nodes:
            size = self.recipe.kinds[self.order[position]].saved
            self.build.held.append(Held("activations", size, self.nodes[position][0], tuple(readers)))


class Stored:
    """Activations that another memory holds are stored behind their block. In a tier with a name no more than
    `Placed.prefetch` blocks are behind with it: the next block waits, so that they do not pile up here."""

    def __init__(self, recipe: Recipe, pool: Pool, build: Builder) -> None:
        self.recipe, self.pool, self.build, self.tier = recipe, pool, build, recipe.placed.activations
        self.last = NONE
        self.late: dict[int, list[int]] = {}

    def before(self, position: int, entry: Waits) -> Waits:
        """What block number `position` waits for, given what it would wait for if nothing were stored."""
        return (*entry, *self.late.get(position - 1 - self.recipe.placed.prefetch, ())) if self.late else entry

    def block(self, position: int, kind: int, base: int, entry: Waits) -> None:
        """After block number `position`, whose first node is `base`."""
        if self.late:
            self._release(position - 1 - self.recipe.placed.prefetch, base)
        size = self.recipe.kinds[kind].saved
        if self.tier is None or size <= 0:
            return
        row = self.pool.memory("saved.store", NodeKind.MEM_STORE, size, self.tier)
        self.last = self.build.node(row, entry if self.last == NONE else (*entry, self.last))
        self.build.stores.append((position, self.last))
        if self.tier:
            self.late[position] = [self.last]
        else:
            self.build.released.append((position, self.last))

    def _release(self, position: int, node: int) -> None:
        if self.late.pop(position, None) is not None:
            self.build.released.append((position, node))

    def end(self) -> None:
        """After the unit's last block: what is late is here until all is stored."""
        for position in list(self.late):
            self._release(position, self.last)

    def state(self, position: int) -> State:
        """See `rounds`."""
        return State(tuple([place - position for place in self.late]), (self.last, *map(tuple, self.late.values())))

    def resume(self, position: int, state: State) -> None:
        """See `rounds`."""
        self.late, self.last = _resumed(state, position)


class Reduced:
    """Gradients of weights as they come: reduced at once, or noted for the end of the iteration.

    `last`: they are complete after this unit; `each`: every unit's are reduced (ZeRO 2 and 3).
    """

    def __init__(self, recipe: Recipe, pool: Pool, build: Builder, last: bool, each: bool) -> None:
        self.recipe, self.build, self.last, self.each = recipe, build, last, each
        self.active = each or (last and recipe.overlap)
        self.pending = Pending(recipe, pool, build, REDUCED)
        self.whole: list[tuple[float, int]] = []
        self.copy = NONE        # the last one of gradients into a buffer
        self.ends: list[tuple[int, int, list[int]]] = []    # (kind, base, nodes) of blocks that are reduced last
        self.late: list[tuple[list[tuple[float, int]], list[int]]] = []     # (buffers, what stores them elsewhere)

    def block(self, kind: int, base: int, count: int, nodes: Sequence[int] | I32, entry: Sequence[int]) -> None:
        """`count` blocks whose gradients are there after `nodes` (positions in the strip), or after `entry`."""
        size = self.build.size - base
        ready = [base + turn * (size // count) + int(node) for turn in range(count) for node in nodes] or list(entry)
        if not self.active:
            self.build.grads += ready if self.last else []
            return
        if self.recipe.kept_whole(kind):
            self.ends.append((kind, base, ready))
            return
        self._add([(kind, base, ready)])
        if self.recipe.overlap:
            self._flush(False)

    def _add(self, blocks: Sequence[tuple[int, int, list[int]]]) -> None:
        """(kind, first node, nodes that make gradients) of blocks whose gradients are one group."""
        recipe, elements = self.recipe, [self._elements(kind) for kind, _, _ in blocks]
        every = sum(elements)
        copies = recipe.flat.reduce != "in_place" and every > 0
        if copies:
            self._copy(every, [node for _, _, nodes in blocks for node in nodes])
        for (kind, base, ready), many in zip(blocks, elements, strict=True):
            self.pending.add(kind, [self.copy] if copies else ready)
            if copies and self.each:
                self._hold([(many * recipe.sizes.weights, base)], [self.copy])
            if (recipe.flat.reduce == "group" and recipe.zero >= 2) or (self.each and not copies):
                self.whole.append((many * recipe.sizes.sent, self.copy) if copies else
                                  (many * recipe.sizes.gradients, base))

    def _elements(self, kind: int) -> float:
        """Gradients of a kind of block that are whole until they are reduced, or that are copied for that."""
        totals = self.recipe.totals(kind)
        return sum(totals.summed.values()) if self.recipe.placed.gradients is not None else totals.sharded

    def _copy(self, elements: float, ready: Sequence[int]) -> None:
        """Gradients into a buffer. That of the group before must have been reduced (FSDP2's state of reduce_scatter).
        """
        recipe, last = self.recipe, self.pending.last
        waits = [] if last is None or recipe.flat.reduce != "group" else [last]
        made = recipe.sizes.weights if self.each else recipe.sizes.sent if recipe.zero >= 2 else recipe.sizes.gradients
        row = copied(self.pending.pool, "gradients.copy", elements * made, elements * recipe.sizes.sent)
        self.copy = self.build.node(row, (*ready, *waits))

    def state(self, position: int) -> State:
        """See `rounds`."""
        del position
        waiting, whole = self.pending.waiting, self.whole
        fixed = tuple([(axes, elements) for axes, (elements, _) in waiting.items()])
        late = [(tuple([size for size, _ in buffers]), tuple([base for _, base in buffers]), tuple(stores))
                for buffers, stores in self.late]
        return State((fixed, tuple([size for size, _ in whole]), tuple([sizes for sizes, _, _ in late])),
                     (self.pending.last, self.copy, tuple([tuple(nodes) for _, nodes in waiting.values()]),
                      tuple([base for _, base in whole]), tuple([each[1:] for each in late])))

    def resume(self, position: int, state: State) -> None:
        """See `rounds`."""
        del position
        (fixed, sizes, buffers), (last, self.copy, waiting, bases, late) = state.fixed, state.nodes
        self.late = [(list(zip(each, first, strict=True)), list(stores))
                     for each, (first, stores) in zip(buffers, late, strict=True)]
        self.pending.last = last
        self.pending.waiting = {axes: (elements, list(nodes))
                                for (axes, elements), nodes in zip(fixed, waiting, strict=True)}
        self.whole = list(zip(sizes, bases, strict=True))

    def _flush(self, everything: bool) -> None:
        now = self.pending.flush(everything=everything)
        self.build.grads += now
        if not now:
            return
        if self.recipe.placed.gradients:
            self.late.append((self.whole, now))
        else:
            self._hold(self.whole, now)
        self.whole = []

    def _hold(self, buffers: Sequence[tuple[float, int]], readers: Sequence[int]) -> None:
        self.build.held += [Held("gradients", size, base, tuple(readers)) for size, base in buffers if size > 0]

    def before(self, entry: Waits) -> Waits:
        """What the next block waits for: the copy of the last gradients, in front of it on its stream, and, so that
        gradients on their way to a tier do not pile up here, what stores them."""
        waits = entry if self.copy == NONE else (*entry, self.copy)
        return (*waits, *self.late[0][1]) if len(self.late) > self.recipe.placed.prefetch else waits

    def release(self, base: int) -> None:
        """The block that waited begins with node `base`."""
        if len(self.late) > self.recipe.placed.prefetch:
            buffers, stores = self.late.pop(0)
            self._hold(buffers, (*stores, base))

    def end(self, result: int) -> None:
        """After the unit's last block. Where nothing overlaps, what is left is reduced behind the unit's `result`."""
        if self.active:
            self._add(self.ends)
            if not self.recipe.overlap and result >= 0:
                self.pending.behind(result)
            self._flush(True)
        for buffers, _ in self.late:
            self._hold(buffers, self.late[-1][1])
        self.late = []

    @property
    def last_one(self) -> int | None:
        """The unit's last reduction, where it has one."""
        return None if self.pending.last in (None, REDUCED) else self.pending.last

    def exit(self, node: int) -> int:
        """What the next unit waits for: `node`, or the last reduction where nothing overlaps."""
        return node if self.recipe.overlap or not self.active or self.last_one is None else self.last_one
