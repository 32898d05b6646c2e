"""Tensors of a stage: what lives when, for memory over time.

Weights, gradients and optimizer states are there all the time. Per block and micro-batch: what forward saves, from the
start of the block's forward to the end of its last unit of backward; working memory while it runs; weights that ZeRO
gathers; buffers of messages between stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from astrarium.trace.work import Tensors
from astrarium.workload.assemble.builder import Held, Span, Template
from astrarium.workload.assemble.holdings import holdings
from astrarium.workload.assemble.recipe import Recipe
from astrarium.workload.assemble.tile import Tiled
from astrarium.workload.assemble.units import Part
from astrarium.workload.schedule import BACKWARD, FORWARD, WEIGHT, Units

__all__ = ["tensors_of"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Set:
    """Some tensors: size, writer, how many readers, readers."""

    size: F64
    writer: I64
    readers: I64
    reader: I64


def tensors_of(recipe: Recipe, parts: Sequence[Part], units: Units, templates: Sequence[Template], which: I32,
               tiled: Tiled, tail: Template) -> Tensors:
    """All of a stage's tensors; those of no bytes are left out."""
    found = [_static(recipe, parts), *_inside(recipe, parts, units, templates, which, tiled), _one(tail.held, np.zeros(1, np.int64)),
             *_saved(recipe, parts, units, templates, which, tiled)]
    size = np.concatenate([each.size for each in found])
    count = np.concatenate([each.readers for each in found])
    reader = np.concatenate([each.reader for each in found])
    writer = np.concatenate([each.writer for each in found])
    keep = size >= 0.5
    if not keep.all():
        reader, size, count, writer = reader[np.repeat(keep, count)], size[keep], count[keep], writer[keep]
    pointer = np.zeros(len(size) + 1, np.int64)
    np.cumsum(count, out=pointer[1:])
    return Tensors(np.rint(size).astype(np.int64), writer.astype(np.int32), pointer, reader.astype(np.int32))


def _static(recipe: Recipe, parts: Sequence[Part]) -> _Set:
    held = holdings(recipe, parts)
    size = np.array([held.weights, held.gradients, held.states])
    return _Set(size, np.full(3, -1, np.int64), np.zeros(3, np.int64), np.zeros(0, np.int64))


def _one(held: Sequence[Held], offset: I64) -> _Set:
    """What lives inside a unit, for each of the units at `offset`."""
    size = np.array([each.size for each in held], np.float64)
    writer = np.array([each.writer for each in held], np.int64)
    readers = np.array([len(each.readers) for each in held], np.int64)
    reader = np.array([node for each in held for node in each.readers], np.int64)
    return _tiled(_Set(size, writer, readers, reader), offset, offset)


def _tiled(one: _Set, writer_at: I64, reader_at: I64) -> _Set:
    times = len(writer_at)
    return _Set(np.tile(one.size, times), (one.writer[None, :] + writer_at[:, None]).ravel(), np.tile(one.readers, times),
                (one.reader[None, :] + reader_at[:, None]).ravel())


def _inside(recipe: Recipe, parts: Sequence[Part], units: Units, templates: Sequence[Template], which: I32,
            tiled: Tiled) -> Iterator[_Set]:
    """Working memory and buffers of every unit."""
    for number, template in enumerate(templates):
        mine = np.flatnonzero(which == number)
        offset = tiled.offset[mine]
        yield _one(template.held, offset)
        if int(units.kind[mine[0]]) == WEIGHT:
            continue
        part = parts[int(units.chunk[mine[0]])]
        for span in template.spans:
            working = recipe.kinds[part.blocks[span.block]].working
            base, sinks = _starts(span), span.strip.sinks.astype(np.int64)
            one = _Set(np.full(span.count, working), base, np.full(span.count, len(sinks), np.int64),
                       (base[:, None] + sinks[None, :]).ravel())
            yield _tiled(one, offset, offset)


def _starts(span: Span) -> I64:
    """[count] first node of every strip of a span."""
    return span.base + len(span.strip) * np.arange(span.count, dtype=np.int64)


def _saved(recipe: Recipe, parts: Sequence[Part], units: Units, templates: Sequence[Template], which: I32,
           tiled: Tiled) -> Iterator[_Set]:
    """From forward to the last unit of backward, chunk by chunk; units of one pair of templates together."""
    last = WEIGHT if recipe.schedule.split else BACKWARD
    for chunk, part in enumerate(parts):
        ahead = np.flatnonzero((units.kind == FORWARD) & (units.chunk == chunk))
        behind = np.flatnonzero((units.kind == last) & (units.chunk == chunk))
        ahead, behind = ahead[np.argsort(units.batch[ahead])], behind[np.argsort(units.batch[behind])]
        front = templates[int(which[ahead[0]])]
        for number in np.unique(which[behind]).tolist():
            mine = which[behind] == number
            one = _pairs(recipe, part, front, templates[number])
            yield _tiled(one, tiled.offset[ahead[mine]],
                         tiled.offset[ahead[mine]] if recipe.offload == "activations" else tiled.offset[behind[mine]])


def _pairs(recipe: Recipe, part: Part, front: Template, back: Template) -> _Set:
    """What every block of a part saves: written by its first node of forward, read by the sinks of backward."""
    size = np.array([recipe.kinds[block].saved for block in part.blocks])
    writer = np.zeros(len(part.blocks), np.int64)
    for span in front.spans:
        writer[span.block:span.block + span.count] = _starts(span)
    if recipe.offload == "activations":
        stored = np.flatnonzero(size > 0)
        return _Set(size[stored], writer[stored], np.ones(len(stored), np.int64), np.array(front.stores, np.int64))
    reader: list[I64] = [np.zeros(0, np.int64)] * len(part.blocks)
    for span in back.spans:
        for turn, base in enumerate(_starts(span).tolist()):
            reader[span.block - turn if span.down else span.block + turn] = base + span.strip.sinks
    for block, nodes in enumerate(reader):
        if not len(nodes):
            reader[block] = np.array([back.exit], np.int64)
    return _Set(size, writer, np.array([len(nodes) for nodes in reader], np.int64), np.concatenate(reader))
