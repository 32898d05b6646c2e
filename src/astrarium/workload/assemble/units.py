"""The templates of a part's units: forward, backward, and gradients of weights."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.assemble.builder import BEFORE, BESIDE, Builder, Held, Template
from astrarium.workload.assemble.flows import NONE, Fetched, Gathered, Loaded, Reduced, Stored
from astrarium.workload.assemble.pool import Arguments, Pool, Strip, strip_of
from astrarium.workload.assemble.recipe import Recipe
from astrarium.workload.assemble.rounds import State, walk
from astrarium.workload.pieces import Piece
from astrarium.workload.schedule import BACKWARD, FORWARD, WEIGHT

__all__ = ["StageChunk", "Templates"]


class StageChunk(Struct, frozen=True):
    """One chunk of one stage: its blocks, its number on the stage, and whether other stages are before and after it."""

    blocks: tuple[int, ...]
    chunk: int
    before: bool
    after: bool
    received: int        # bytes of its input, from the stage before


class Templates(Struct):
    """Makes each template once; stages with equal parts share them."""

    recipe: Recipe
    pool: Pool
    made: dict[tuple[StageChunk, int, bool], Template] = field(default_factory=dict)
    _strips: dict[tuple[int, int], Strip] = field(default_factory=dict)

    def of(self, part: StageChunk, kind: int, last: bool) -> Template:
        """The template of a unit; `last`: after it the gradients of its weights are complete."""
        key = (part, kind, last and kind != FORWARD)
        if key not in self.made:
            self.made[key] = _MAKE[kind](self, part, key[2])
        return self.made[key]

    def strip(self, block: int, kind: int) -> Strip:
        """A block's piece for a kind of unit."""
        if (block, kind) not in self._strips:
            self._strips[block, kind] = self._strip(block, kind)
        return self._strips[block, kind]

    def _strip(self, block: int, kind: int) -> Strip:
        pieces = self.recipe.kinds[block]
        if kind == FORWARD:
            return strip_of(self.pool, pieces.forward, FORWARD)
        if not self.recipe.schedule.split:
            return strip_of(self.pool, pieces.backward, BACKWARD)
        needed = _needed(pieces.backward)
        later = set(range(len(pieces.backward.steps))) - needed
        return strip_of(self.pool, pieces.backward, kind, needed if kind == BACKWARD else later)


def _needed(piece: Piece) -> set[int]:
    """Steps that the gradient of the input waits for; those that make gradients of weights are none of them."""
    found: set[int] = set()
    todo = [piece.exit] if piece.exit >= 0 else []
    while todo:
        number = todo.pop()
        if number not in found and not piece.steps[number].weight:
            found.add(number)
            todo += piece.steps[number].after
    return found | {number for number, step in enumerate(piece.steps)    # no step here waits for them, but another rank
                    if step.kind == NodeKind.COMM_SEND and found.issuperset(step.after)}


def _outside(recipe: Recipe) -> tuple[int, ...]:
    return (BEFORE, BESIDE) if recipe.schedule.copies > 1 else (BEFORE,)


WAY = ("activations", "d_activations")


def _message(made: Templates, kind: NodeKind, way: int, chunk: int, size: int) -> int:
    name = WAY[way] + (".send" if kind == NodeKind.COMM_SEND else ".receive")
    return made.pool.comm(name, Arguments(kind, None, made.recipe.message(size), 2, way=way, chunk=chunk))


def _enter(made: Templates, build: Builder, arrives: bool, way: int, part: StageChunk, size: int) -> tuple[int, ...]:
    """What the first block waits for: the unit before, and the message from another stage where there is one, which is
    gathered from all ranks that received a part of it."""
    recipe, outside = made.recipe, _outside(made.recipe)
    if not arrives:
        return outside
    last = build.node(_message(made, NodeKind.COMM_RECV, way, part.chunk, size), outside)
    if recipe.scattered:
        own = recipe.message(size)
        row = made.pool.collective(f"{WAY[way]}.all_gather", CommOp.ALL_GATHER, own, recipe.scattered, priority=2)
        build.held.append(Held("messages", own, last, (last + 1,)))
        last = build.node(row, (last,))
    return (last,)


def _leave(made: Templates, build: Builder, way: int, part: StageChunk, size: int, entry: tuple[int, ...]) -> None:
    """What the unit made is sent on."""
    send = build.node(_message(made, NodeKind.COMM_SEND, way, part.chunk, size), entry)
    build.held.append(Held("messages", size, entry[0], (send,)))


def _run(recipe: Recipe, order: Sequence[int], position: int) -> int:
    """Equal blocks from here on that need nothing in between."""
    if recipe.zero >= 3 or recipe.placed.activations is not None or recipe.placed.parameters is not None:
        return 1
    end = position
    while end < len(order) and order[end] == order[position]:
        end += 1
    return end - position


class _Forward:
    def __init__(self, made: Templates, part: StageChunk) -> None:
        recipe = made.recipe
        self.made, self.recipe, self.part, self.build = made, recipe, part, Builder()
        self.entry = _enter(made, self.build, part.before, 0, part, part.received)
        self.received, self.first = self.build.size - 1, NONE
        if recipe.sample > 0 and not part.before:    # read as early as the copy lane allows
            load = made.pool.memory("samples.load", NodeKind.MEM_LOAD, recipe.sample)
            self.entry = (*self.entry, self.build.node(load, ()))
        outside = _outside(recipe)
        self.fetched = Fetched(recipe, made.pool, self.build, part.blocks, FORWARD, outside)
        self.gathered = Gathered(recipe, made.pool, self.build, part.blocks, FORWARD, outside, self.fetched)
        self.stored = Stored(recipe, made.pool, self.build)

    def block(self, position: int) -> int:
        """See `rounds`."""
        recipe, build, kind = self.recipe, self.build, self.part.blocks[position]
        strip, count = self.made.strip(kind, FORWARD), _run(recipe, self.part.blocks, position)
        fetched = self.fetched.before(position, self.entry)
        waits = self.stored.before(position, (*fetched, *self.gathered.before(position, self.entry)))
        base = build.strips(strip, waits, block=position, count=count)
        sinks = [base + int(sink) for sink in strip.sinks]
        self.fetched.hold(position, sinks)
        self.gathered.hold(position, sinks)
        self.first = base if position == 0 else self.first
        self.entry = (base + (count - 1) * len(strip) + strip.exit,) if strip.exit >= 0 else self.entry
        self.stored.block(position, kind, base, self.entry)
        return count

    def state(self, position: int) -> State:
        """See `rounds`."""
        flows = [each.state(position) for each in (self.fetched, self.gathered, self.stored)]
        return State(tuple([each.fixed for each in flows]), (self.entry, *[each.nodes for each in flows]))

    def resume(self, position: int, state: State) -> None:
        """See `rounds`."""
        self.entry, *nodes = state.nodes
        flows: tuple[Fetched | Gathered | Stored, ...] = (self.fetched, self.gathered, self.stored)
        for flow, fixed, each in zip(flows, state.fixed, nodes, strict=True):
            flow.resume(position, State(fixed, each))

    def template(self) -> Template:
        """After the last block: its result is sent on."""
        part, build, entry = self.part, self.build, self.entry
        self.stored.end()
        if part.before:        # after its first node, what the block needs is in what forward saves
            build.held.append(Held("messages", part.received, self.received, (self.first,)))
        if part.after:
            _leave(self.made, build, 0, part, round(self.recipe.kinds[part.blocks[-1]].output), entry)
        return build.template(entry[0], gathered=self.gathered.last)


def _forward(made: Templates, part: StageChunk, last: bool) -> Template:
    del last
    unit = _Forward(made, part)
    walk(unit, unit.build, part.blocks, _ahead(made.recipe))
    return unit.template()


def _ahead(recipe: Recipe) -> int:
    """How many blocks beyond one are looked at while it is made."""
    return max(1, recipe.prefetch, recipe.placed.prefetch)


class _Backward:
    """Gradients of activations, and, unless the schedule splits them off, of weights with their reduction."""

    def __init__(self, made: Templates, part: StageChunk, last: bool) -> None:
        recipe = made.recipe
        self.made, self.recipe, self.part, self.build = made, recipe, part, Builder()
        self.order, self.arriving = part.blocks[::-1], round(recipe.kinds[part.blocks[-1]].output)
        self.entry = _enter(made, self.build, part.after, 1, part, self.arriving)
        self.received = self.build.size - 1 if part.after else NONE
        outside, whole = _outside(recipe), not recipe.schedule.split
        self.fetched = Fetched(recipe, made.pool, self.build, self.order, BACKWARD, outside)
        self.gathered = Gathered(recipe, made.pool, self.build, self.order, BACKWARD, outside, self.fetched)
        self.loaded = Loaded(recipe, made.pool, self.build, self.order, outside)
        each = (recipe.reduces_each or recipe.placed.gradients is not None) and whole
        self.reduced = Reduced(recipe, made.pool, self.build, last and whole, each)
        self.flows: tuple[Fetched | Gathered | Loaded | Reduced, ...] = (
            self.fetched, self.gathered, self.loaded, self.reduced)

    def block(self, position: int) -> int:
        """See `rounds`."""
        build, loaded, gathered, kind = self.build, self.loaded, self.gathered, self.order[position]
        strip = self.made.strip(kind, BACKWARD)
        count = 1 if self.reduced.active or loaded.active else _run(self.recipe, self.order, position)
        if not len(strip):
            return count
        fetched = self.fetched.before(position, self.entry)
        waits = self.reduced.before((*fetched, *loaded.before(position, gathered.before(position, self.entry))))
        base = build.strips(strip, waits, block=len(self.order) - 1 - position, count=count, down=True)
        self.reduced.release(base)
        sinks = [base + int(sink) for sink in strip.sinks]
        loaded.hold(position, sinks)
        self.fetched.hold(position, sinks)
        gathered.hold(position, sinks)
        if self.received >= 0:
            build.held.append(Held("messages", self.arriving, self.received, (base,)))
            self.received = NONE
        self.entry = (base + (count - 1) * len(strip) + strip.exit,) if strip.exit >= 0 else self.entry
        self.reduced.block(kind, base, count, strip.weight, self.entry)
        return count

    def state(self, position: int) -> State:
        """See `rounds`."""
        flows = [each.state(position) for each in self.flows]
        return State(tuple([each.fixed for each in flows]),
                     (self.entry, self.received, *[each.nodes for each in flows]))

    def resume(self, position: int, state: State) -> None:
        """See `rounds`."""
        self.entry, self.received, *nodes = state.nodes
        for flow, fixed, each in zip(self.flows, state.fixed, nodes, strict=True):
            flow.resume(position, State(fixed, each))

    def template(self) -> Template:
        """After the last block: what is left to reduce, and the gradient of the input for the stage before."""
        part, build, entry = self.part, self.build, self.entry
        self.reduced.end(entry[0])
        if part.before:
            _leave(self.made, build, 1, part, part.received, entry)
        return build.template(self.reduced.exit(entry[0]), reduced=self.reduced.last_one, gathered=self.gathered.last)


def _backward(made: Templates, part: StageChunk, last: bool) -> Template:
    unit = _Backward(made, part, last)
    walk(unit, unit.build, unit.order, _ahead(made.recipe))
    return unit.template()


class _Weight:
    """Gradients of weights, which a split schedule makes later, last block first."""

    def __init__(self, made: Templates, part: StageChunk, last: bool) -> None:
        recipe = made.recipe
        self.made, self.build, self.order = made, Builder(), part.blocks[::-1]
        self.entry: tuple[int, ...] = _outside(recipe)
        self.reduced, self.final = Reduced(recipe, made.pool, self.build, last, recipe.reduces_each), NONE

    def block(self, position: int) -> int:
        """See `rounds`."""
        kind = self.order[position]
        strip = self.made.strip(kind, WEIGHT)
        if len(strip):
            base = self.build.strips(strip, self.entry, block=len(self.order) - 1 - position, down=True)
            self.final = self.build.size - 1
            self.reduced.block(kind, base, 1, strip.sinks, self.entry)
        return 1

    def state(self, position: int) -> State:
        """See `rounds`."""
        reduced = self.reduced.state(position)
        return State(reduced.fixed, (self.final, reduced.nodes))

    def resume(self, position: int, state: State) -> None:
        """See `rounds`."""
        self.final, reduced = state.nodes
        self.reduced.resume(position, State(state.fixed, reduced))

    def template(self) -> Template:
        """After the last block: what is left to reduce."""
        self.reduced.end(self.final)
        return self.build.template(self.reduced.exit(self.final), reduced=self.reduced.last_one)


def _weight(made: Templates, part: StageChunk, last: bool) -> Template:
    unit = _Weight(made, part, last)
    walk(unit, unit.build, unit.order, _ahead(made.recipe))
    return unit.template()


_MAKE = {FORWARD: _forward, BACKWARD: _backward, WEIGHT: _weight}
