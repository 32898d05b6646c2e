"""What a stage holds while it serves: weights, the cache as it grows, working memory of each pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from astrarium.trace.work import Tensors
from astrarium.workload.assemble.tile import Tiled
from astrarium.workload.graph.packed import Packed, Sequences

if TYPE_CHECKING:
    from astrarium.workload.inference.program import Program

__all__ = ["found_by", "tensors_of"]

I32 = npt.NDArray[np.int32]


class _Tensors:
    """A growing list: bytes, the node that makes it (-1: there before), the node that is the last to need it."""

    def __init__(self) -> None:
        self.size, self.writer, self.reader = list[int](), list[int](), list[int]()

    def add(self, size: float, writer: int = -1, reader: int = -1) -> None:
        if size >= 0.5:
            self.size.append(round(size))
            self.writer.append(writer)
            self.reader.append(reader)

    def packed(self) -> Tensors:
        reader = np.array(self.reader, np.int32)
        pointer = np.zeros(len(reader) + 1, np.int64)
        np.cumsum(reader >= 0, out=pointer[1:])
        return Tensors(np.array(self.size, np.int64), np.array(self.writer, np.int32), pointer, reader[reader >= 0])


def tensors_of(program: Program, stage: int, order: I32, tiled: Tiled) -> Tensors:
    """All tensors of a stage. Weights, and the cache of what came before, are there from the start; a pass adds its
    new tokens when it begins, and they stay (those of a draft that were refused are written over)."""
    many, found = program.micro_batches, _Tensors()
    for replica in program.models:
        found.add(replica.weight_bytes(stage))
    held: dict[tuple[int, int], float] = {}
    for unit in range(len(order)):
        each, batch = program.rounds[unit // many], unit % many
        replica, first = program.models[each.model], int(tiled.offset[unit])
        key = (each.model, batch)
        if key not in held:
            step = found_by(each.packed)
            held[key] = 0.0 if step is None else replica.cache_bytes(stage, step)
            found.add(held[key])
        after = replica.cache_bytes(stage, each.packed)
        if after > held[key]:
            found.add(after - held[key], first)
            held[key] = after
        found.add(replica.working(stage, each.packed), first, int(tiled.exit[unit]))
    return found.packed()


def found_by(step: Packed) -> Packed | None:
    """A step after which the cache holds what `step` finds there; None: nothing."""
    parts: Sequence[Sequences] = [Sequences(part.count, 1, part.past - 1, 0) for part in step.parts if part.past]
    return Packed(tuple(parts)) if parts else None
