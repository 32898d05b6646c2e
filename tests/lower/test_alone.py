"""Replay of everything needs neither peers nor groups; anything less does."""

from __future__ import annotations

from pathlib import Path

import pytest

import astrarium as ar
from astrarium.compute.config import Replay
from astrarium.design import Design, NpuType
from astrarium.errors import InputError
from astrarium.memory.config import Memory
from astrarium.network.config import Network, Switch
from astrarium.trace import TraceBuilder
from astrarium.vocab import CommOp
from astrarium.workload.config import Trace


def design(folder: Path, compute: Replay, **more: object) -> Design:
    """One rank of a job of four: a collective of a group and a message to rank 3, 10 us each."""
    trace = TraceBuilder()
    first = trace.coll("reduce", CommOp.ALL_REDUCE, 1000, group=7, duration=10)
    trace.send("send", 3, 1000, after=[first], duration=10)
    trace.write(folder / "w.0.et")
    network = Network([Switch(1, bandwidth="1 GB/s", latency="0 ns")])
    return Design(workload=Trace(str(folder / "w")), compute=compute, memory=Memory(), network=network, **more)


def test_one_rank_of_a_job_replays_alone(tmp_path: Path) -> None:
    for pure in False, True:
        assert float(ar.simulate(design(tmp_path, Replay(everything=True)), pure=pure).makespan) == 20_000


def test_a_network_needs_the_others(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"group '7' not found|not one of the 1 ranks"):
        ar.simulate(design(tmp_path, Replay()))
    with pytest.raises(InputError, match=r"group '7' not found|not one of the 1 ranks"):
        ar.simulate(design(tmp_path, Replay(everything=True), npu_types=[NpuType(npus=[0], compute=Replay())]))
