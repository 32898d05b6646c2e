"""Queues over time: from the design's flag to the table, the chart and the counters."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.commands import Run

import astrarium as ar
from astrarium.network.packets import Packets
from astrarium.network.roce import Roce
from astrarium.report.plot.plots.queues import link_queues
from astrarium.report.timeline.counters import queue_counters
from astrarium.result import Result, tables
from astrarium.trace import TraceBuilder, traces_of_bytes

LINK = {"bandwidth": "50 GB/s", "latency": "500 ns"}
SMALL = Roce(buffer="700 kB", kmin="50 kB", kmax="80 kB")


def incast(queues: bool = True, npus: int = 8, transport: str = "roce") -> tuple[ar.Design, Result]:
    """All other NPUs send 200 kB to NPU 0, which PFC must stop."""
    ranks = [TraceBuilder() for _ in range(npus)]
    for npu in range(1, npus):
        ranks[npu].send(f"{npu}", 0, 200_000)
        ranks[0].recv(f"{npu}", npu, 200_000)
    packets = Packets(transport=SMALL if transport == "roce" else transport, queues=queues)
    design = ar.Design(workload=ar.Trace("in memory"),
                       network=ar.Network([ar.Switch(npus, **LINK)], backend="packets", packets=packets))
    return design, ar.simulate(design, traces=traces_of_bytes([rank.encode() for rank in ranks]))


def test_the_table_has_the_longest_queue_and_all_pauses() -> None:
    _, result = incast()
    counts, table = result.outcome.packets, tables(result)["queues_over_time"]
    assert counts is not None
    assert table["longest_bytes"].max() == counts.queue.max() > 0
    assert table["paused_ns"].sum() == pytest.approx(counts.paused.sum() / 1000)
    assert table["paused_ns"].sum() > 0
    assert set(table["name"].tolist()) >= {"node 8 -> node 0", "node 1 -> node 8"}
    steps = np.diff(table["start_ns"][table["link"] == table["link"][0]])
    np.testing.assert_allclose(steps, table["end_ns"][0])
    assert table["end_ns"].max() >= result.makespan_ps / 1000 - 2000


def test_without_the_flag_there_is_none() -> None:
    _, result = incast(queues=False)
    assert result.queues is None
    assert "queues_over_time" not in tables(result)
    assert queue_counters(result) == ()


def test_counters_follow_the_queue_and_end_at_nothing() -> None:
    _, result = incast()
    counter = queue_counters(result)[0]
    assert counter.name == "queue of node 8 -> node 0"
    assert counter.value.max() == result.queues.longest.max()       # type: ignore[union-attr]
    assert counter.value[-1] == 0


@pytest.mark.parametrize(("transport", "limits"), [("roce", 2), ("credits", 0)])
def test_the_chart_has_thresholds_of_marks_where_there_are_any(transport: str, limits: int) -> None:
    design, result = incast(transport=transport)
    assert result.queues is not None
    plot = link_queues(result, design)
    rules = [layer for layer in plot.layers if layer.mark == "rule" and layer.colour == "limit"]
    assert sum(len(layer.columns["y"].values) for layer in rules) == limits
    assert "node 8 -> node 0" in plot.colours


def test_a_design_file_on_the_command_line(tmp_path: Path, run: Run) -> None:
    design, page, timeline = (tmp_path / name for name in ("design.yaml", "run.html", "run.json"))
    design.write_text("""\
workload: {source: collective, op: all_to_all, payload: 2 MB}
network:
  backend: packets
  packets: {queues: true}
  dims:
    - {shape: switch, npus: 4, bandwidth: 50 GB/s, latency: 500 ns}
    - {shape: switch, npus: 2, bandwidth: 25 GB/s, latency: 1 us}
""")
    done = run("run", str(design), "--json", "--html", str(page), "--timeline", str(timeline))
    assert json.loads(done.out)["queues_over_time"][0]["name"].startswith("node ")
    assert "<h2>Queues of links" in page.read_text(encoding="utf-8")
    assert "queue of node" in timeline.read_text(encoding="utf-8")
