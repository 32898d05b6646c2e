"""Writes the traces of a GPT training step in the manner of STAGE: data, tensor and pipeline parallel, one microbatch.

usage: _gpt_traces.py FOLDER [--dp 64] [--tp 8] [--pp 2] [--layers 40]

With the defaults: 1,024 files of 850 nodes, about 300 bytes a node. Rank = (stage * tp + tensor) * dp + data. Every
rank of a stage runs the same nodes; groups, peers and tags differ. A node's id says which layer it belongs to and
where, forward and backward nodes of a layer stand together, and many depend on later ids, as in STAGE's files.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from astrarium.trace.node import Attribute, Metadata, Node, attribute, encode_node
from astrarium.trace.write import encode_trace
from astrarium.vocab import CommOp, NodeKind

__all__ = ["Gpt", "write_gpt"]

STEP = 86          # ids of one layer
BEFORE, AFTER = -1, -2   # what the first node of a layer waits for, and what its backward pass waits for
GATHER, SCATTER, REDUCE = CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_REDUCE

# Place in the layer, name, operations in units of tokens x width (M: x width too) or the collective, what it waits for.
LAYER: tuple[tuple[int, str, float | CommOp, tuple[int, ...]], ...] = (
    (2, "input_norm.y", 5, (BEFORE,)), (3, "input_norm.dy", 1, (31, 51)), (4, "input_norm.dx", 5, (3,)),
    (7, "mha.qkv", 6e3, (8,)), (8, "mha.qkv_X1", GATHER, (2,)), (9, "mha.q", 1, (7,)), (10, "mha.k", 1, (7,)),
    (11, "mha.v", 1, (7,)), (14, "mha.o1", 2e3, (37,)), (16, "mha.o_X1", SCATTER, (14,)),
    (19, "mha.do1_X1", GATHER, (51,)), (20, "mha.dattn", 2e3, (19,)), (21, "mha.dwo", 2e3, (37, 19)),
    (25, "mha.dkv", 2, (41, 40)),
    (26, "mha.dqkv", 3, (25, 39)), (27, "mha.dwqkv", 6e3, (28, 26)), (28, "mha.dwqkv_X2", GATHER, (2,)),
    (29, "mha.dx1", 6e3, (26,)), (31, "mha.dx_X1", SCATTER, (29,)), (37, "mha.attn_kernel.qkv", 3, (9, 10, 11)),
    (39, "mha.attn_kernel.dq", 6, (20,)), (40, "mha.attn_kernel.dk", 6, (20,)), (41, "mha.attn_kernel.dv", 6, (20,)),
    (44, "mha_res.y", 1, (16, BEFORE)),
    (49, "post_attn_norm.y", 5, (44,)), (50, "post_attn_norm.dy", 1, (71, AFTER)),
    (51, "post_attn_norm.dx", 5, (50,)), (56, "ffn.x00_X1", GATHER, (49,)), (57, "ffn.xgate", 8e3, (56,)),
    (58, "ffn.xdown1", 8e3, (57,)), (60, "ffn.xdown_X1", SCATTER, (58,)), (63, "ffn.dxdown2_X1", GATHER, (AFTER,)),
    (64, "ffn.dwdown", 8e3, (57, 63)), (65, "ffn.dxgate", 8e3, (63,)), (67, "ffn.x01_X1", GATHER, (49,)),
    (68, "ffn.dwgate", 8e3, (65, 67)), (69, "ffn.dx000", 8e3, (65,)), (71, "ffn.dx0_X1", SCATTER, (69,)),
    (74, "ffn_res.y", 1, (60, 44)), (80, "_sharded_grad_X1", REDUCE, (27, 21, 68, 64)), (81, "_sharded_grad", 6, (80,)),
    (82, "_sharded_weight@1", 12, (81,)),
)
SHAPES = ("mb0.transformer.0.mha.dx@0", "MicroBatch/dp,Seq/(cp*tp),Dmodel", "2097152.0",
          "mb0.transformer.0.mha.w@0", "Dmodel/(cp*tp)", "4194304.0")


@dataclass(frozen=True)
class Gpt:
    """Sizes: `tokens` of a microbatch on one data-parallel rank, `width` of the model."""

    dp: int = 64
    tp: int = 8
    pp: int = 2
    layers: int = 40
    tokens: int = 2048
    width: int = 5120

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.dp * self.tp * self.pp

    def groups(self) -> dict[str, list[int]]:
        """Members by name: data-parallel groups first, then tensor-parallel ones."""
        lines = self.pp * self.tp
        rows = [list(range(line * self.dp, (line + 1) * self.dp)) for line in range(lines)]
        across = [rows[stage * self.tp:(stage + 1) * self.tp] for stage in range(self.pp)]
        columns = [[row[data] for row in stage] for stage in across for data in range(self.dp)]
        return {str(number): members for number, members in enumerate(rows + columns, 1)}


def write_gpt(folder: Path, gpt: Gpt) -> None:
    """Writes `w.<rank>.et` and `groups.json` into `folder`."""
    (folder / "groups.json").write_text(json.dumps(gpt.groups()))
    for stage in range(gpt.pp):
        known: dict[tuple[object, ...], bytes] = {}
        for place in range(gpt.tp * gpt.dp):
            rank = stage * gpt.tp * gpt.dp + place
            (folder / f"w.{rank}.et").write_bytes(encode_trace(Metadata("0.0.4"), _stage(gpt, stage, rank, known)))


def _stage(gpt: Gpt, stage: int, rank: int, known: dict[tuple[object, ...], bytes]) -> Iterator[bytes]:
    """The encoded nodes of a rank; `known` keeps those that other ranks of the stage have, too."""
    tensor, data = rank // gpt.dp % gpt.tp, rank % gpt.dp
    groups = {REDUCE: str(1 + stage * gpt.tp + tensor)}
    groups[GATHER] = groups[SCATTER] = str(1 + gpt.pp * gpt.tp + stage * gpt.dp + data)
    each = gpt.layers // gpt.pp
    first, last = stage * each, (stage + 1) * each - 1
    before, after, peers = _ends(gpt, stage, rank)
    yield from _edges(gpt, stage, groups)
    for layer in range(first, last + 1):
        waits = {BEFORE: before if layer == first else layer * STEP - STEP + 74,
                 AFTER: after if layer == last else layer * STEP + STEP + 4}
        for place, name, work, needs in LAYER:
            group = groups[work] if isinstance(work, CommOp) else None
            key = (layer, place, group)
            if key not in known:
                deps = tuple(waits[n] if n < 0 else layer * STEP + n for n in needs)
                known[key] = _node(gpt, layer * STEP + place, f"mb0.transformer.{layer}.{name}@0", work, deps, group)
            yield known[key]
    yield from peers


def _ends(gpt: Gpt, stage: int, rank: int) -> tuple[int, int, list[bytes]]:
    """What the first layer's forward and the last layer's backward wait for, and the rank's messages."""
    each, across, top = gpt.layers // gpt.pp, gpt.tp * gpt.dp, gpt.layers * STEP    # ids beyond the layers'
    size = gpt.tokens * gpt.width * 2 // gpt.tp
    forward, backward = (stage + 1) * each - 1, stage * each
    nodes, before, after = [], top + 1, top + 3
    if stage:
        before = top + 20
        nodes.append(_message(before, NodeKind.COMM_RECV, rank - across, rank - across, size, ()))
        sent = (backward * STEP + 4,)
        nodes.append(_message(top + 21, NodeKind.COMM_SEND, rank - across, rank + gpt.ranks, size, sent))
    if stage < gpt.pp - 1:
        after = top + 22
        nodes.append(_message(after, NodeKind.COMM_RECV, rank + across, rank + across + gpt.ranks, size, ()))
        nodes.append(_message(top + 23, NodeKind.COMM_SEND, rank + across, rank, size, (forward * STEP + 74,)))
    return before, after, nodes


def _edges(gpt: Gpt, stage: int, groups: dict[CommOp, str]) -> Iterator[bytes]:
    """Embedding of the first stage, head and loss of the last one."""
    top, each = gpt.layers * STEP, gpt.layers // gpt.pp
    if stage == 0:
        yield _node(gpt, top + 1, "in_emb.y@0", 1, (), None)
        yield _node(gpt, top + 2, "in_emb.dw@0", 10, (4,), None)
        yield _node(gpt, top + 4, "in_emb.w@1_X2", REDUCE, (top + 2,), groups[REDUCE])
        yield _node(gpt, top + 5, "in_emb.w@1_X3", SCATTER, (top + 4,), groups[SCATTER])
        yield _node(gpt, top + 6, "in_emb.w@1", 12, (top + 5,), None)
    if stage == gpt.pp - 1:
        end = (stage * each + each - 1) * STEP + 74
        yield _node(gpt, top + 10, "out_emb.y@0", 2e4, (end,), None)
        yield _node(gpt, top + 11, "loss@0", 10, (top + 10,), None)
        yield _node(gpt, top + 3, "out_emb.dx@0", 2e4, (top + 11,), None)
        yield _node(gpt, top + 12, "out_emb.dw@0", 2e4, (top + 11,), None)
        yield _node(gpt, top + 13, "out_emb.w@1_X2", REDUCE, (top + 12,), groups[REDUCE])
        yield _node(gpt, top + 14, "out_emb.w@1", 12, (top + 13,), None)
    for extra in range(3 if stage == 0 else 2):
        yield _node(gpt, top + 30 + extra, f"shadow.{extra}@0", 1, (stage * each * STEP + 4,), None)


def _node(gpt: Gpt, number: int, name: str, work: float | CommOp, after: tuple[int, ...], group: str | None) -> bytes:
    """A compute node (operations and bytes for the roofline) or a collective."""
    attrs = [Attribute("inputs", SHAPES, "string_list"), Attribute("outputs", SHAPES[:2], "string_list")]
    part = gpt.tokens * gpt.width // gpt.tp
    if isinstance(work, CommOp):
        size = 12 * gpt.width * gpt.width // gpt.tp if work == REDUCE else 2 * part * (1 if work == GATHER else gpt.tp)
        attrs += [attribute("comm_size", size), attribute("comm_type", int(work)), attribute("pg_name", group),
                  attribute("is_cpu_op", False)]
        return encode_node(Node(number, f"{name}_COMM", NodeKind.COMM_COLL, data_deps=after, attrs=tuple(attrs)))
    ops = int(part * work) * (gpt.width // 1000 if work >= 1e3 else 1)
    attrs += [attribute("num_ops", ops), attribute("tensor_size", int(4 * part)), attribute("op_type", "M")]
    return encode_node(Node(number, f"{name}_COMP", NodeKind.COMP, data_deps=after, attrs=tuple(attrs)))


def _message(number: int, kind: NodeKind, peer: int, tag: int, size: int, after: tuple[int, ...]) -> bytes:
    end = "comm_dst" if kind == NodeKind.COMM_SEND else "comm_src"
    attrs = (attribute("comm_size", size), attribute("comm_tag", 500_000 + tag), attribute(end, peer),
             attribute("is_cpu_op", False))
    return encode_node(Node(number, f"shadow_mb0@0_Y_{kind.name}", kind, data_deps=after, attrs=attrs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for name in ("dp", "tp", "pp", "layers"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Gpt, name))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    write_gpt(options.folder, Gpt(options.dp, options.tp, options.pp, options.layers))


if __name__ == "__main__":
    main()
