"""Timelines of GPU kernels: a track per unit, slices that do not overlap, ports that add up."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from astrarium import config
from astrarium.errors import InputError
from astrarium.gpu import Gpu, Kernels, kernel_launch
from astrarium.gpu.engine import Finished, Launch, run_launch
from astrarium.report.timeline.kernels import write_kernel_timeline
from astrarium.vocab import CommOp


@pytest.fixture(scope="module")
def launch(root: Path) -> Launch:
    gpu = config.load(Gpu, root / "examples" / "astra3" / "gpu.yaml")
    return kernel_launch(CommOp.ALL_REDUCE, 1 << 18, 4, gpu, Kernels(workgroups=160))      # 128 units: some run two


def events_of(path: Path, launch: Launch, ran: Finished) -> list[dict[str, Any]]:
    count = write_kernel_timeline(str(path), launch, ran)
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    assert len(events) == count
    return events


def test_units_have_tracks_whose_slices_follow_each_other(launch: Launch, tmp_path: Path) -> None:
    ran = run_launch(launch, record=100_000)
    events = events_of(tmp_path / "t.json", launch, ran)
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"unit 0", "unit 0 (2)", "unit 127"} <= names
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            end, workgroup = event["ts"] + event["dur"], event["args"]["workgroup"]
            tracks[event["pid"], event["tid"]].append((event["ts"], end, workgroup))
    assert len(tracks) == len(names) == 160
    for slices in tracks.values():
        assert all(before[1] <= after[0] + 1e-9 for before, after in pairwise(slices))
    ends = defaultdict(float)
    for slices in tracks.values():
        for _, end, workgroup in slices:
            ends[workgroup] = max(ends[workgroup], end)
    assert [round(ends[i] * 1e6) for i in range(len(ends))] == ran.workgroup_ends[0, :len(ends)].tolist()


def test_counters_of_ports_add_up_to_their_use(launch: Launch, tmp_path: Path) -> None:
    ran = run_launch(launch, record=100_000)
    busy: dict[str, float] = defaultdict(float)
    for event in events_of(tmp_path / "t.json", launch, ran):
        if event["ph"] == "C":
            busy[event["name"]] += event["args"]["% busy"] / 100 * 100_000
    use = ran.port_use(launch.machine)[0] * ran.makespan
    assert [busy[f"port {i}"] for i in range(len(use))] == pytest.approx(use.tolist(), rel=0.02)


def test_what_was_not_recorded_has_no_timeline(launch: Launch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the run was not recorded"):
        write_kernel_timeline(str(tmp_path / "t.json"), launch, run_launch(launch))
    with pytest.raises(InputError, match="GPU 1 was not simulated"):
        write_kernel_timeline(str(tmp_path / "t.json"), launch, run_launch(launch, record=1000), gpus=[1])
