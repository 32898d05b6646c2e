"""Tensors of a stage: what lives when, for memory over time.

Weights, gradients and optimizer states are there all the time. Per block and micro-batch: what forward saves, from the
start of the block's forward to the end of its last unit of backward; working memory while it runs; weights that ZeRO
gathers; buffers of messages between stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64, I32, I64
from astrarium.trace.work import Tensors
from astrarium.workload.assemble.builder import Again, Held, Span, Template
from astrarium.workload.assemble.holdings import holdings
from astrarium.workload.assemble.recipe import Recipe
from astrarium.workload.assemble.tile import Tiled
from astrarium.workload.assemble.units import StageChunk
from astrarium.workload.pieces import BlockPieces
from astrarium.workload.schedule import BACKWARD, FORWARD, WEIGHT, Units

__all__ = ["Some", "frees", "grown", "held", "saves", "tensors_of", "working"]


class Some(Struct, frozen=True, eq=False):
    """Some tensors: size, writer, how many readers each, all readers."""

    size: F64
    writer: I64
    readers: I64
    reader: I64

    def at(self, writer: I64, reader: I64) -> Some:
        """Repeat these tensors for several units, whose writers and readers start at these nodes [units]."""
        times = len(writer)
        if times == 1:
            return Some(self.size, self.writer + writer, self.readers, self.reader + reader)
        return Some(np.tile(self.size, times), (self.writer + writer[:, None]).ravel(), np.tile(self.readers, times),
                    (self.reader + reader[:, None]).ravel())


def tensors_of(recipe: Recipe, parts: Sequence[StageChunk], units: Units, templates: Sequence[Template], which: I32,
               tiled: Tiled, tail: Template) -> Tensors:
    """All of a stage's tensors; those of no bytes are left out."""
    found = [_static(recipe, parts), held(tail.held), *_inside(recipe, parts, units, templates, which, tiled),
             *_saved(recipe, parts, units, templates, which, tiled),
             *_grown(recipe, parts, units, templates, which, tiled)]
    local = _joined(found)
    tiers = _stored(recipe, parts, units, templates, which, tiled)
    every = _joined([local, *tiers.values()]) if tiers else local
    size, count, reader, writer = every.size, every.readers, every.reader, every.writer
    keep, tier = size >= 0.5, None
    if tiers:
        many = [len(local.size), *[len(each.size) for each in tiers.values()]]
        tier = np.repeat(np.arange(-1, len(tiers), dtype=np.int32), many)[keep]
    if not keep.all():
        reader, size, count, writer = reader[np.repeat(keep, count)], size[keep], count[keep], writer[keep]
    pointer = np.zeros(len(size) + 1, np.int64)
    np.cumsum(count, out=pointer[1:])
    return Tensors(np.rint(size).astype(np.int64), writer.astype(np.int32), pointer, reader.astype(np.int32), tier,
                   tuple(tiers))


def _stored(recipe: Recipe, parts: Sequence[StageChunk], units: Units, templates: Sequence[Template], which: I32,
            tiled: Tiled) -> dict[str, Some]:
    """What tiers with a name hold: weights, gradients and states all the time, activations of a block from the start of
    their store to the end of their load."""
    found = {tier: [_lasting([size])] for tier, size in holdings(recipe, parts).away.items() if tier}
    if recipe.placed.activations:
        found.setdefault(recipe.placed.activations, []).extend(
            _between(recipe, parts, units, templates, which, tiled))
    return {tier: _joined(each) for tier, each in found.items()}


def _between(recipe: Recipe, parts: Sequence[StageChunk], units: Units, templates: Sequence[Template], which: I32,
             tiled: Tiled) -> Iterator[Some]:
    for chunk, part in enumerate(parts):
        for batch in range(recipe.batches):
            here = (units.chunk == chunk) & (units.batch == batch)
            ahead, behind = [int(np.flatnonzero(here & (units.kind == kind))[0]) for kind in (FORWARD, BACKWARD)]
            loads = dict(templates[int(which[behind])].loads)
            stores = [each for each in templates[int(which[ahead])].stores if each[0] in loads]
            size = [recipe.kinds[part.blocks[block]].saved for block, _ in stores]
            writer = tiled.offset[ahead] + np.array([node for _, node in stores], np.int64)
            reader = tiled.offset[behind] + np.array([loads[block] for block, _ in stores], np.int64)
            yield Some(np.array(size, np.float64), writer, np.ones(len(stores), np.int64), reader)


def _static(recipe: Recipe, parts: Sequence[StageChunk]) -> Some:
    owned = holdings(recipe, parts)
    return _lasting([owned.weights, owned.buckets + (0.0 if recipe.fresh else owned.gradients), owned.states,
                     recipe.overhead])


def _lasting(size: Sequence[float]) -> Some:
    """Tensors that are there from the start to the end."""
    many = len(size)
    return Some(np.array(size), np.full(many, -1, np.int64), np.zeros(many, np.int64), np.zeros(0, np.int64))


def held(tensors: Sequence[Held | Again], what: str = "") -> Some:
    """What lives inside a unit, as columns; all of it, or what is there for `what`."""
    single = [each for each in tensors if isinstance(each, Held) and what in ("", each.what)]
    if len(single) == len(tensors):
        return _columns(single)
    return _joined([_again(each, what) if isinstance(each, Again) else _columns([each])
                   for each in tensors if isinstance(each, Again) or what in ("", each.what)])


def _again(again: Again, what: str) -> Some:
    turns = again.stride * np.arange(1, again.times + 1, dtype=np.int64)
    return held(again.tensors, what).at(turns, turns)


def _columns(tensors: Sequence[Held]) -> Some:
    return Some(np.array([each.size for each in tensors], np.float64),
                np.array([each.writer for each in tensors], np.int64),
                np.array([len(each.readers) for each in tensors], np.int64),
                np.array([node for each in tensors for node in each.readers], np.int64))


def _joined(found: Sequence[Some]) -> Some:
    """All of them, in order."""
    return Some(*(np.concatenate([getattr(each, name) for each in (_columns(()), *found)])
                  for name in ("size", "writer", "readers", "reader")))


def working(recipe: Recipe, part: StageChunk, kind: int, spans: Sequence[Span]) -> Some:
    """Working memory of every block of a unit, from its first node to its last ones; WEIGHT units need none."""
    found = list[Some]()
    for span in spans if kind != WEIGHT else ():
        size, base, sinks = _working(recipe.kinds[part.blocks[span.block]], kind), _starts(span), span.strip.sinks
        found.append(Some(np.full(span.count, size), base, np.full(span.count, len(sinks), np.int64),
                          (base[:, None] + sinks).ravel()))
    return _joined(found)


def _working(block: BlockPieces, kind: int) -> float:
    return block.working if kind == FORWARD or block.working_back is None else block.working_back


def _inside(recipe: Recipe, parts: Sequence[StageChunk], units: Units, templates: Sequence[Template], which: I32,
            tiled: Tiled) -> Iterator[Some]:
    """Working memory and buffers of every unit."""
    for number, template in enumerate(templates):
        mine = np.flatnonzero(which == number)
        offset, kind, part = tiled.offset[mine], int(units.kind[mine[0]]), parts[int(units.chunk[mine[0]])]
        yield held(template.held).at(offset, offset)
        yield working(recipe, part, kind, template.spans).at(offset, offset)


def _starts(span: Span) -> I64:
    """[count] first node of every strip of a span."""
    return span.base + span.stride * np.arange(span.count, dtype=np.int64)


def _blocks(span: Span) -> I64:
    """[count] the block of each."""
    return span.block + (-1 if span.down else 1) * np.arange(span.count, dtype=np.int64)


def _saved(recipe: Recipe, parts: Sequence[StageChunk], units: Units, templates: Sequence[Template], which: I32,
           tiled: Tiled) -> Iterator[Some]:
    """From forward to the last unit of backward, chunk by chunk; units of one pair of templates together."""
    last = WEIGHT if recipe.schedule.split else BACKWARD
    away = recipe.placed.activations is not None
    for chunk, part in enumerate(parts):
        ahead = np.flatnonzero((units.kind == FORWARD) & (units.chunk == chunk))
        behind = np.flatnonzero((units.kind == last) & (units.chunk == chunk))
        ahead, behind = ahead[np.argsort(units.batch[ahead])], behind[np.argsort(units.batch[behind])]
        front = templates[int(which[ahead[0]])]
        size, writer = saves(recipe, part, front)
        for number in np.unique(which[behind]).tolist():
            mine = which[behind] == number
            readers, reader = frees(part, front if away else templates[number], away)
            yield Some(size, writer, readers, reader).at(tiled.offset[ahead[mine]],
                                                         tiled.offset[(ahead if away else behind)[mine]])


def _grown(recipe: Recipe, parts: Sequence[StageChunk], units: Units, templates: Sequence[Template], which: I32,
           tiled: Tiled) -> Iterator[Some]:
    """Fresh gradients, from the backward of their block to the end."""
    for chunk, part in enumerate(parts) if recipe.fresh else ():
        behind = int(np.flatnonzero((units.kind == BACKWARD) & (units.chunk == chunk))[0])
        size, writer = grown(recipe, part, templates[int(which[behind])])
        yield Some(size, tiled.offset[behind] + writer, np.zeros(len(size), np.int64), np.zeros(0, np.int64))


def grown(recipe: Recipe, part: StageChunk, back: Template) -> tuple[F64, I64]:
    """(bytes of the gradients of each block of a part, the first node of its backward; of those that are reduced behind
    all others, the last node)."""
    late = np.array([recipe.kept_whole(block) for block in part.blocks])
    return (np.array([recipe.gradients(block) for block in part.blocks], np.float64),
            np.where(late, len(back) - 1, _begins(part, back)))


def saves(recipe: Recipe, part: StageChunk, front: Template) -> tuple[F64, I64]:
    """(bytes that each block of a part saves, the first node of its forward)."""
    return np.array([recipe.kinds[block].saved for block in part.blocks], np.float64), _begins(part, front)


def _begins(part: StageChunk, template: Template) -> I64:
    """[blocks] the first node of each."""
    found = np.zeros(len(part.blocks), np.int64)
    for span in template.spans:
        found[_blocks(span)] = _starts(span)
    return found


def frees(part: StageChunk, back: Template, away: bool) -> tuple[I64, I64]:
    """(how many nodes read each block's, which): the last ones of its backward; of what is stored `away`, the
    one that waits for the store."""
    count = np.ones(len(part.blocks), np.int64)
    for span in () if away else back.spans:
        count[_blocks(span)] = len(span.strip.sinks)
    start = np.cumsum(count) - count
    reader = np.full(int(count.sum()), back.exit, np.int64)
    for block, node in back.released if away else ():
        reader[start[block]] = node
    for span in () if away else back.spans:
        sinks = span.strip.sinks.astype(np.int64)
        reader[start[_blocks(span)][:, None] + np.arange(len(sinks))] = _starts(span)[:, None] + sinks
    return count, reader
