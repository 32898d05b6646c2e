"""A Stage as columns: layers of every micro-batch, weight updates, messages between stages, in STAGE's order."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from astrarium.errors import InputError
from astrarium.trace.compose import ClassBuilder
from astrarium.trace.work import Generated, TraceClass
from astrarium.vocab import CommOp
from astrarium.workload.stage.config import Stage
from astrarium.workload.stage.layer import embedding, head, layer
from astrarium.workload.stage.sheet import Row, Sheet, Sizes

__all__ = ["stage_trace"]

I32 = npt.NDArray[np.int32]
MOST = 5_000_000    # nodes of a rank
PER_LAYER = 50


def stage_trace(work: Stage) -> Generated:
    """What STAGE writes for these flags; tags count up, where STAGE draws them at random.

    Raises InputError for more than 5 million nodes.
    """
    if work.micro_batches * work.num_stacks * PER_LAYER > MOST:
        raise InputError("workload.micro_batch", f"{work.micro_batches} micro-batches of {work.num_stacks} layers",
                         expected=f"at most {MOST // PER_LAYER} layers in all")
    sheets = [_sheet(work, stage) for stage in range(work.pp)]
    _messages(work, sheets)
    members, of = _groups(work)
    classes = tuple(_class(work, sheet, stage, of) for stage, sheet in enumerate(sheets))
    return Generated(classes, members, tuple(str(number + 1) for number in range(len(members))), (None,) * len(classes))


def _sheet(work: Stage, stage: int) -> Sheet:
    """A pipeline stage without its messages."""
    sheet, sizes = Sheet(work), Sizes.of(work)
    layers = range(work.first_layer(stage), work.first_layer(stage + 1))
    for number in range(work.micro_batches):
        batch = f"mb{number}."
        for each in layers:
            _linked(sheet, batch, each)
            layer(sheet, sizes, batch, each)
        if stage == 0:
            embedding(sheet, sizes, batch)
        if stage == work.head_stage:
            sheet.alias(f"{batch}last", (f"{batch}transformer.{work.num_stacks - 1}.ffn_res.y",))
            head(sheet, sizes, batch)
    _updates(sheet, sizes, stage, layers)
    return sheet


def _linked(sheet: Sheet, batch: str, number: int) -> None:
    """What a layer's ends are joined to."""
    p, last = f"{batch}transformer.{number}.", number == sheet.work.num_stacks - 1
    below = f"{batch}in_emb.y" if number == 0 else f"{batch}transformer.{number - 1}.ffn_res.y"
    above = f"{batch}out_emb.dx" if last else f"{batch}transformer.{number + 1}.input_norm.dx"
    tp_only = not sheet.work.tpsp
    sheet.alias(f"{p}{'from_below' if tp_only and number == 0 else 'in'}", (below,))
    sheet.alias(f"{p}{'from' if tp_only and last else 'dout'}", (above,))


def _updates(sheet: Sheet, sizes: Sizes, stage: int, layers: range) -> None:
    """Gradients of all micro-batches, then one addition per weight; embeddings' gradients are summed only here."""
    work = sheet.work
    batches = [f"mb{number}." for number in range(work.micro_batches)]
    shard = Fraction(sizes.weights) / (work.dp if work.weight_sharded else 1)
    tables = [name for name, there in (("in_emb", stage == 0), ("out_emb", stage == work.head_stage)) if there]
    for each in layers:
        sheet.comp(f"transformer.{each}._sharded_grad", shard, shard,
                   [f"{batch}transformer.{each}.grad" for batch in batches])
    for name in tables:
        sheet.comp(f"{name}.dw", sizes.table, sizes.table, [f"{batch}{name}.dw" for batch in batches])
    for each in layers:
        key = f"transformer.{each}._sharded_weight"
        sheet.rows.append(Row(key, f"{key}@1_COMP", (f"transformer.{each}._sharded_grad",), int(shard), int(shard)))
    for name in tables:
        key, before = f"{name}.w", f"{name}.dw"
        sheet.rows.append(Row(key, f"{key}@1_COMP", (f"{name}.sum_cp",), int(sizes.table), int(sizes.table)))
        for axis in ("dp", "tp", "cp"):
            if axis == "tp" and not work.tpsp:
                continue
            sheet.comm(f"{name}.sum_{axis}", CommOp.ALL_REDUCE, axis, sizes.table, (before,), f"{key}@1_X2_COMM")
            before = f"{name}.sum_{axis}"


# ------------------------------------------------------------ messages
def _messages(work: Stage, sheets: list[Sheet]) -> None:
    """Tensors that another stage uses: by stage that receives, micro-batch, and order of use."""
    tag, sizes = 0, Sizes.of(work)
    for stage, sheet in enumerate(sheets):
        for batch in range(work.micro_batches):
            for source, tensor in _wanted(work, stage, f"mb{batch}."):
                size = int(sizes.local if tensor.endswith("out_emb.dx") else sizes.stream)
                sheets[source].rows.append(Row(f"{tensor}>{stage}", f"{tensor}@0_Y_SEND", (tensor,), size=size,
                                               peer=stage, tag=tag, sent=True))
                sheet.rows.append(Row(f"{tensor}<", f"shadow_{tensor}@0_Y_RECV", (), size=size, peer=source, tag=tag))
                sheet.alias(tensor, (f"{tensor}<",))
                tag += 1


def _wanted(work: Stage, stage: int, batch: str) -> Iterator[tuple[int, str]]:
    """(stage that has it, tensor)."""
    first, end, last = work.first_layer(stage), work.first_layer(stage + 1), work.num_stacks - 1
    if stage:
        yield stage - 1, f"{batch}transformer.{first - 1}.ffn_res.y"
    if end <= last:
        yield stage + 1, f"{batch}transformer.{end}.input_norm.dx"
    elif work.head_stage != stage:
        yield work.head_stage, f"{batch}out_emb.dx"
    if work.head_stage == stage and work.pp - 1 != stage:
        yield work.pp - 1, f"{batch}transformer.{last}.ffn_res.y"


# ------------------------------------------------------------ columns
def _groups(work: Stage) -> tuple[tuple[I32, ...], dict[str, I32]]:
    """Groups of every axis in STAGE's order, and the group of every rank by axis."""
    moe = work.experts is not None
    grid = np.arange(work.ranks, dtype=np.int32).reshape(work.pp, work.expert, work.sp, work.tensor, work.dp)
    members: list[I32] = []
    of: dict[str, I32] = {}
    inner = {"dp": 4, "tp": 3, "cp": 2, "ep": 1}
    for axis in inner if moe else ("dp", "tp", "cp"):
        rest = [place for name, place in inner.items() if name != axis]
        order = (0, *rest, inner[axis])
        rows = np.ascontiguousarray(grid.transpose(order)).reshape(-1, grid.shape[inner[axis]])
        of[axis] = np.zeros(work.ranks, np.int32)
        of[axis][rows] = len(members) + np.arange(len(rows), dtype=np.int32)[:, None]
        rows.flags.writeable = False
        members += list(rows)
    return tuple(members), of


def _class(work: Stage, sheet: Sheet, stage: int, of: dict[str, I32]) -> TraceClass:
    each = work.ranks // work.pp
    ranks = np.arange(stage * each, (stage + 1) * each, dtype=np.int32)
    build, place = ClassBuilder(ranks), {row.key: number for number, row in enumerate(sheet.rows)}
    for row in sheet.rows:
        after = [place[key] for key in sheet.resolved(row.after)]
        if row.op is not None:
            build.coll(row.name, row.op, row.size, group=of[row.axis][ranks], after=after)
        elif row.tag >= 0:
            (build.send if row.sent else build.recv)(row.name, ranks + (row.peer - stage) * each, row.size, row.tag,
                                                     after=after)
        else:
            build.comp(row.name, flops=row.ops, size=row.size, after=after)
    return build.build()
