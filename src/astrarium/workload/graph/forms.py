"""Blocks that many layouts have in common: which steps a block has depends on the axes that shard its dims, not on how
many ranks they have. That is its form, made once; every layout gives it numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from astrarium.cache import Cache
from astrarium.workload.graph.amount import Amount, Program, Tape
from astrarium.workload.graph.ir import Block
from astrarium.workload.graph.layout import Layout
from astrarium.workload.graph.lower import lower_block
from astrarium.workload.pieces import BlockPieces, Fusion, Numbers, Piece, Step

__all__ = ["Forms"]

RECIPES = 4     # some MB each
MOST = 256      # forms: some 50 KB each


class Sized(Struct, frozen=True):
    """What a program asks: a layout's sizes, and a block's numbers."""

    layout: Layout
    block: Block

    def degree(self, axes: Sequence[str]) -> float:
        """See Layout."""
        return self.layout.degree(axes)

    def local(self, dim: str) -> float:
        """See Layout."""
        return self.layout.local(dim)

    def elements(self, dims: tuple[str, ...]) -> float:
        """See Layout."""
        return self.layout.elements(dims)

    def work(self, number: int) -> float:
        """Share of the full product of operator `number`."""
        return self.block.ops[number].work

    def sequences(self, number: int) -> float:
        """Sequences of operator `number`."""
        return self.block.ops[number].sequences


def _unnumbered(block: Block, tape: Tape | None = None) -> Block:
    """The block with amounts in the place of numbers that differ from step to step: which part of packed attention is
    masked, and how many sequences it has. Without a tape: with marks there."""
    ops = list(block.ops)
    for number, op in enumerate(ops):
        if op.packs and tape is None:
            ops[number] = op._replace(work=-1.0, sequences=0)
        elif op.packs and tape is not None:
            ops[number] = op._replace(work=_number(tape.leaf("work", number)),
                                      sequences=cast(int, tape.leaf("sequences", number)))
    return block.with_ops(ops)


class Unsized:
    """A layout of known axes and ring, whose sizes are amounts."""

    def __init__(self, layout: Layout, tape: Tape) -> None:
        self._tape, self.axes_of, self.ranks = tape, layout.axes_of, layout.ranks

    def degree(self, axes: Sequence[str]) -> float:
        """See Layout."""
        return _number(self._tape.leaf("degree", tuple(axes)))

    def local(self, dim: str) -> float:
        """See Layout."""
        return _number(self._tape.leaf("local", dim))

    def elements(self, dims: tuple[str, ...]) -> float:
        """See Layout."""
        return _number(self._tape.leaf("elements", dims))


def _number(amount: Amount) -> float:
    """The amount, for code that computes with it as with a float."""
    return cast(float, amount)


class Form(Struct, frozen=True, eq=False):
    """A block's pieces; `program` has their numbers: three for every step and those of its kernel's shape and work, two
    for every weight, then the rest."""

    pieces: BlockPieces
    program: Program

    @staticmethod
    def of(pieces: BlockPieces, tape: Tape) -> Form:
        """Make the form of pieces whose numbers are amounts."""
        steps = (*pieces.forward.steps, *pieces.backward.steps)
        wanted = [number for step in steps for number in
                  (step.flops, step.gemm, step.bytes, *((*step.kernel.shape, step.kernel.work) if step.kernel else ()))]
        wanted += [number for weight in pieces.weights for number in (weight.elements, weight.matrix)]
        return Form(pieces, tape.program([*wanted, pieces.saved, pieces.working, pieces.output,
                                         pieces.working if pieces.working_back is None else pieces.working_back]))

    def sized(self, layout: Layout, block: Block) -> BlockPieces:
        """The pieces of a block under a layout. Raises InputError where it refuses an uneven size."""
        pieces, numbers = self.pieces, iter(self.program.run(Sized(layout, block)))
        forward, backward = (Piece(tuple([_step(step, numbers) for step in piece.steps]), piece.exit)
                             for piece in (pieces.forward, pieces.backward))
        weights = tuple([each._replace(elements=next(numbers), matrix=next(numbers)) for each in pieces.weights])
        return BlockPieces(pieces.name, forward, backward, weights, *(next(numbers) for _ in range(4)))


def _step(step: Step, numbers: Iterator[float]) -> Step:
    flops, gemm, size, kernel = next(numbers), next(numbers), next(numbers), step.kernel
    if kernel is not None:
        kernel = kernel._replace(shape=tuple([next(numbers) for _ in kernel.shape]), work=next(numbers))
    return Step(step.name, step.kind, step.after, flops, gemm, size, step.op, step.axes, step.shift, step.weight,
                kernel)


class Forms:
    """Forms of blocks by all that they depend on, in `cache` where there is one. Bounded; for several threads at
    once. `recipes`: the last ones that were made with these forms (workload.training)."""

    def __init__(self, cache: Cache[Form] | None = None) -> None:
        self.recipes: Cache[Any] = Cache(RECIPES)
        self._known: Cache[Form] = Cache(MOST) if cache is None else cache

    def __len__(self) -> int:
        return len(self._known)

    def pieces(self, block: Block, layout: Layout, *, recompute: str, modules: tuple[str, ...], fuse: Fusion,
               widths: Mapping[str, float], backward: bool, numbers: Numbers, gradients: str) -> BlockPieces:
        """What `lower_block` gives."""
        rings = {op.ring for op in block.ops if op.ring}
        key = (_unnumbered(block), tuple(layout.axes.items()),
               tuple(sorted((axis, layout.ranks(axis)) for axis in rings)), recompute, modules, fuse,
               tuple(widths.items()), backward, numbers, gradients)

        def made() -> Form:
            tape = Tape()
            return Form.of(lower_block(_unnumbered(block, tape), Unsized(layout, tape), recompute=recompute,
                                       modules=modules, fuse=fuse, widths=widths, backward=backward, numbers=numbers,
                                       gradients=gradients), tape)

        return self._known.get(key, made).sized(layout, block)
