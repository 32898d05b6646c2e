"""The templates of a part's units: forward, backward, and gradients of weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from astrarium.vocab import NodeKind
from astrarium.workload.assemble.builder import BEFORE, BESIDE, Builder, Held, Template
from astrarium.workload.assemble.flows import Gathered, Loaded, Reduced
from astrarium.workload.assemble.pool import Arguments, Pool, Strip, strip_of
from astrarium.workload.assemble.recipe import Recipe
from astrarium.workload.pieces import Piece
from astrarium.workload.schedule import BACKWARD, FORWARD, WEIGHT

__all__ = ["Part", "Templates"]

I32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Part:
    """One chunk of one stage: its blocks, its number on the stage, and whether other stages are before and after it."""

    blocks: tuple[int, ...]
    chunk: int
    before: bool
    after: bool
    received: int        # bytes of its input, from the stage before


@dataclass
class Templates:
    """Makes each template once; stages with equal parts share them."""

    recipe: Recipe
    pool: Pool
    made: dict[tuple[Part, int, bool], Template] = field(default_factory=dict)
    _strips: dict[tuple[int, int], Strip] = field(default_factory=dict)

    def of(self, part: Part, kind: int, last: bool) -> Template:
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
    return found | {number for number, step in enumerate(piece.steps)    # nobody here waits for them, but another rank
                    if step.kind == NodeKind.COMM_SEND and found.issuperset(step.after)}


def _outside(recipe: Recipe) -> tuple[int, ...]:
    return (BEFORE, BESIDE) if recipe.schedule.copies > 1 else (BEFORE,)


def _message(made: Templates, kind: NodeKind, way: int, chunk: int, size: int) -> int:
    name = ("activations", "d_activations")[way] + (".send" if kind == NodeKind.COMM_SEND else ".receive")
    return made.pool.comm(name, Arguments(kind, None, size, 2, way=way, chunk=chunk))


def _enter(made: Templates, build: Builder, arrives: bool, way: int, part: Part, size: int) -> tuple[int, ...]:
    """What the first block waits for: the unit before, and the message from another stage where there is one."""
    outside = _outside(made.recipe)
    if not arrives:
        return outside
    return (build.node(_message(made, NodeKind.COMM_RECV, way, part.chunk, size), outside),)


def _forward(made: Templates, part: Part, last: bool) -> Template:
    del last
    recipe, build = made.recipe, Builder()
    entry = _enter(made, build, part.before, 0, part, part.received)
    received = build.size - 1 if part.before else -1
    if recipe.sample > 0 and not part.before:    # read as early as the copy lane allows
        entry = (*entry, build.node(made.pool.memory("samples.load", NodeKind.MEM_LOAD, recipe.sample), ()))
    gathered = Gathered(recipe, made.pool, build, part.blocks, FORWARD, _outside(recipe))
    stores: list[tuple[int, int]] = []
    position = first = 0
    while position < len(part.blocks):
        kind = part.blocks[position]
        strip, count = made.strip(kind, FORWARD), _run(recipe, part.blocks, position)
        base = build.strips(strip, gathered.before(position, entry), block=position, count=count)
        first = base if position == 0 else first
        gathered.hold(position, [base + int(sink) for sink in strip.sinks])
        entry = (base + (count - 1) * len(strip) + strip.exit,) if strip.exit >= 0 else entry
        if recipe.offload == "activations" and recipe.kinds[kind].saved > 0:
            row = made.pool.memory("saved.store", NodeKind.MEM_STORE, recipe.kinds[kind].saved)
            stores.append((position, build.node(row, [*entry, *(node for _, node in stores[-1:])])))
        position += count
    if received >= 0:        # afterwards what the block needs is in what forward saves
        build.held.append(Held("messages", part.received, received, (first,)))
    if part.after:
        size = round(recipe.kinds[part.blocks[-1]].output)
        send = build.node(_message(made, NodeKind.COMM_SEND, 0, part.chunk, size), entry)
        build.held.append(Held("messages", size, entry[0], (send,)))
    return build.template(entry[0], stores=stores, gathered=gathered.last)


def _run(recipe: Recipe, order: Sequence[int], position: int) -> int:
    """Equal blocks from here on that need nothing in between."""
    if recipe.zero >= 3 or recipe.offload == "activations":
        return 1
    end = position
    while end < len(order) and order[end] == order[position]:
        end += 1
    return end - position


def _backward(made: Templates, part: Part, last: bool) -> Template:
    """Gradients of activations, and, unless the schedule splits them off, of weights with their reduction."""
    recipe, build = made.recipe, Builder()
    order, arriving = part.blocks[::-1], round(recipe.kinds[part.blocks[-1]].output)
    entry = _enter(made, build, part.after, 1, part, arriving)
    received = build.size - 1 if part.after else -1
    gathered = Gathered(recipe, made.pool, build, order, BACKWARD, _outside(recipe))
    loaded = Loaded(recipe, made.pool, build, order, _outside(recipe))
    whole = not recipe.schedule.split
    reduced = Reduced(recipe, made.pool, build, last and whole, recipe.zero >= 2 and whole)
    position = 0
    while position < len(order):
        kind = order[position]
        strip = made.strip(kind, BACKWARD)
        count = 1 if reduced.active or loaded.active else _run(recipe, order, position)
        if len(strip):
            waits = loaded.before(position, gathered.before(position, entry))
            base = build.strips(strip, waits, block=len(order) - 1 - position, count=count, down=True)
            sinks = [base + int(sink) for sink in strip.sinks]
            loaded.hold(position, sinks)
            gathered.hold(position, sinks)
            if received >= 0:
                build.held.append(Held("messages", arriving, received, (base,)))
                received = -1
            entry = (base + (count - 1) * len(strip) + strip.exit,) if strip.exit >= 0 else entry
            reduced.block(kind, base, count, strip.weight, entry)
        position += count
    reduced.end()
    if part.before:
        send = build.node(_message(made, NodeKind.COMM_SEND, 1, part.chunk, part.received), entry)
        build.held.append(Held("messages", part.received, entry[0], (send,)))
    return build.template(reduced.exit(entry[0]), reduced.done, reduced=reduced.last_one, gathered=gathered.last)


def _weight(made: Templates, part: Part, last: bool) -> Template:
    """Gradients of weights, which a split schedule makes later, last block first."""
    recipe, build, order = made.recipe, Builder(), part.blocks[::-1]
    entry: tuple[int, ...] = _outside(recipe)
    reduced, final = Reduced(recipe, made.pool, build, last, recipe.zero >= 2), -1
    for position, kind in enumerate(order):
        strip = made.strip(kind, WEIGHT)
        if len(strip):
            base = build.strips(strip, entry, block=len(order) - 1 - position, down=True)
            final = build.size - 1
            reduced.block(kind, base, 1, strip.sinks, entry)
    reduced.end()
    return build.template(reduced.exit(final), reduced.done, reduced=reduced.last_one)


_MAKE = {FORWARD: _forward, BACKWARD: _backward, WEIGHT: _weight}
