"""Traces executed on gloo with processes of their own: every operation, measured times, feedback."""

from __future__ import annotations

import json

import pytest

from astrarium.cli.replay_design import replay_design
from astrarium.simulate import simulate
from astrarium.trace import TraceBuilder, read_traces
from astrarium.trace.node import IOInfo, Metadata, attribute
from astrarium.vocab import CommOp, NodeKind

from .recordings import astrarium

pytest.importorskip("torch", reason='executing traces needs PyTorch: pip install "astrarium[torch]"')
pytestmark = pytest.mark.exam

GROUPS = IOInfo(repr([json.dumps([{"pg_name": "1", "ranks": [0, 1]}, {"pg_name": "2", "ranks": [1, 2]}])]))


def builder_of(groups=True):
    builder = TraceBuilder()
    builder.metadata = Metadata("", (attribute("kind", "profiled"),))
    if groups:
        builder.node(NodeKind.METADATA, "## process_group:init ##", inputs=GROUPS)
    return builder


def test_every_operation_and_the_feedback(tmp_path):
    """Three ranks: all collectives, groups that overlap, a ring of messages, sleeps beside; what is fed back simulates
    in about the time that was measured."""
    ops = [op for op in CommOp if op != CommOp.REDUCE_SCATTER_BLOCK]
    for rank in range(3):
        builder = builder_of()
        last = builder.comp("begin", 30_000)
        for op in ops:
            last = builder.coll(op.name, op, 0 if op == CommOp.BARRIER else 1_200_000, after=[last])
        for group, members in ((1, (0, 1)), (2, (1, 2))):
            if rank in members:
                last = builder.coll("part", CommOp.ALL_REDUCE, 400_000, group=group, after=[last])
        sent = builder.send("to", (rank + 1) % 3, 80_000, tag=5, after=[last])
        got = builder.recv("from", (rank - 1) % 3, 80_000, tag=5, after=[last])
        builder.comp("end", 50_000, after=[sent, got])
        builder.write(tmp_path / f"all.{rank}.et")
    found = astrarium("trace", "replay", "all", "-o", "again", "--json", cwd=tmp_path)
    assert found.returncode == 0, found.stderr[-3000:]
    told = json.loads(found.stdout)
    assert {row["what"] for row in told["measured"]} == {*(op.name.lower() for op in ops), "comm_send", "comm_recv"}
    assert min(told["makespan_ns"]) > 80e6
    again = read_traces(tmp_path / "again.*.et")
    assert (again.classes[0].duration[again.classes[0].comm_node] > 0).all()
    forecast = simulate(replay_design(str(tmp_path / "again.*.et"))).makespan / 1e6
    print("measured", told["makespan_ns"], "simulated from fed-back durations", forecast)
    assert forecast == pytest.approx(told["median_ns"] / 1e6, rel=0.25)     # medians of nodes, of wholes


def test_products_of_the_nodes_flops(tmp_path):
    """`--compute matmul`: nodes with FLOPs are measured, and eight times the FLOPs take longer."""
    builder = builder_of(groups=False)
    small = builder.comp("small", num_ops=2 * 256**3)
    builder.comp("large", num_ops=2 * 8 * 512**3, after=[small])
    builder.write(tmp_path / "mm.0.et")
    found = astrarium("trace", "replay", "mm", "--compute", "matmul", "-o", "out", "--json", cwd=tmp_path)
    assert found.returncode == 0, found.stderr[-3000:]
    rows = {row["size"]: row["median_ns"] / 1e3 for row in json.loads(found.stdout)["measured"]}
    assert rows[2 * 8 * 512**3] > 4 * rows[2 * 256**3]
    assert (read_traces(tmp_path / "out").classes[0].duration > 0).all()


def test_faults_are_one_message(tmp_path):
    for rank in range(2):
        builder = builder_of(groups=False)
        builder.coll("x", CommOp.ALL_REDUCE, 8 + rank)
        builder.write(tmp_path / f"bad.{rank}.et")
    found = astrarium("trace", "replay", "bad", cwd=tmp_path)
    assert found.returncode == 1
    assert "Traceback" not in found.stderr
    assert "another order, or with other bytes" in found.stderr
