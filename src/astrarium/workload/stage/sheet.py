"""The nodes of one pipeline stage by name, in the order of their ids; what they wait for may come later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from msgspec import Struct, field

from astrarium.vocab import CommOp
from astrarium.workload.stage.config import Stage

__all__ = ["Row", "Sheet", "Sizes"]


class Row(Struct, frozen=True):
    """A node: compute (`ops` operations, `size` elements), a collective over `axis`, or a message (`tag` >= 0) with
    stage `peer`, sent or received."""

    key: str
    name: str
    after: tuple[str, ...]
    ops: int = 0
    size: int = 0
    op: CommOp | None = None
    axis: str = ""
    peer: int = -1
    tag: int = -1
    sent: bool = False


class Sizes(Struct, frozen=True):
    """Elements on one rank: `full` of the stream without tensor parallelism, `local` with, `stream` between matrices,
    `wide` of keys of the whole sequence, `inner` of the FFN, `weights` of a layer, `table` of an embedding, `logits`;
    `kv` the share of the queries' size that keys and values have, `square` a d x d matrix, `matrix` one of the FFN.
    """

    full: Fraction
    local: Fraction
    stream: Fraction
    inner: Fraction
    wide: Fraction
    weights: Fraction
    table: Fraction
    logits: Fraction
    kv: Fraction
    square: Fraction
    matrix: Fraction

    @classmethod
    def of(cls, work: Stage) -> Sizes:
        """Of one micro-batch."""
        d, t = work.dmodel, work.tensor
        tokens = Fraction(work.micro_batch or work.batch, work.dp) * work.seq / work.sp
        local, square, matrix = tokens * d / t, Fraction(d * d, t), Fraction(d * work.dff, t)
        kv = Fraction(1) if work.experts is None else Fraction(work.kvhead, work.head)
        ffn = 2 * matrix
        if work.experts is not None:
            ffn = 2 * matrix * work.experts / work.ep + Fraction(d * work.kexperts, work.ep)
        return cls(full=tokens * d, local=local, stream=local if work.tpsp else tokens * d,
                   inner=tokens * work.dff / t, wide=local * work.sp,
                   weights=(2 + 2 * kv) * square + ffn, kv=kv, square=square, matrix=matrix,
                   table=Fraction(work.dvocal * d, 1 if work.tpsp else t),
                   logits=tokens * work.dvocal / (t if work.tpsp else 1))


class Sheet(Struct):
    """Collects rows. A collective over one rank is no node: who waits for it waits for what it waits for."""

    work: Stage
    rows: list[Row] = field(default_factory=list)
    instead: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def comp(self, key: str, ops: Fraction, size: Fraction, after: Sequence[str]) -> None:
        """A compute node."""
        self.rows.append(Row(key, f"{key}@0_COMP", tuple(after), int(ops), int(size)))

    def comm(self, key: str, op: CommOp, axis: str, size: Fraction, after: Sequence[str], name: str = "") -> None:
        """A collective over dp, tp, cp or ep."""
        work = self.work
        degree = {"dp": work.dp, "tp": work.tensor, "cp": work.sp, "ep": work.expert}[axis]
        if degree == 1:
            self.instead[key] = tuple(after)
        else:
            self.rows.append(Row(key, name or f"{key}@0_X1COMM", tuple(after), size=int(size), op=op, axis=axis))

    def alias(self, key: str, after: Sequence[str]) -> None:
        """Who waits for `key` waits for these."""
        self.instead[key] = tuple(after)

    def resolved(self, keys: Sequence[str]) -> Iterator[str]:
        """The nodes behind keys."""
        for key in keys:
            if key in self.instead:
                yield from self.resolved(self.instead[key])
            else:
                yield key
