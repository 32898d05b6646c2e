"""Eight recorded ranks of a Megatron job: with their start offsets, collectives come out as recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import astrarium as ar
from astrarium.cli.replay_design import replay_design
from astrarium.compute.config import Replay
from astrarium.config import replace
from astrarium.design import Design
from astrarium.memory.config import Memory
from astrarium.network.config import Network, Switch
from astrarium.profile.recorded import collective_calls
from astrarium.result import Result
from astrarium.system.config import System
from astrarium.trace import read_traces
from astrarium.workload.config import Trace

pytestmark = pytest.mark.shared
RANKS, MEASURED_MS = 8, 651.959       # from the first rank's begin to the last one's end


def in_collectives(result: Result) -> list[float]:
    """ms of every rank."""
    chosen = result.nodes.work == 1
    time = np.zeros(RANKS, np.int64)
    np.add.at(time, result.nodes.row[chosen], (result.nodes.end - result.nodes.start)[chosen])
    return (time / 1e9).tolist()


def recorded(megatron: Path) -> list[float]:
    return [float((each[""].end - each[""].begin).sum()) / 1e6 for each in collective_calls(read_traces(megatron), {})]


def on_a_network(megatron: Path) -> Design:
    system = System(compute_streams=64, comm_streams=64, cpu_threads=64)
    return Design(workload=Trace(str(megatron)), compute=Replay(missing="0 ns"), memory=Memory(), system=system,
                  network=Network([Switch(RANKS, bandwidth="200 GB/s", latency="2 us")]))


def test_every_ranks_wait_comes_back_on_a_network(megatron: Path) -> None:
    result = ar.simulate(on_a_network(megatron))
    assert result.makespan_ps / 1e9 == pytest.approx(MEASURED_MS, rel=1e-4)      # 651.94
    assert in_collectives(result) == pytest.approx(recorded(megatron), rel=0.005)


@pytest.mark.exam
def test_the_pure_engine_says_the_same(megatron: Path) -> None:
    result, pure = (ar.simulate(on_a_network(megatron), pure=pure) for pure in (False, True))
    assert np.array_equal(pure.outcome.end, result.outcome.end)


def test_without_offsets_it_does_not(megatron: Path) -> None:
    found = in_collectives(ar.simulate(replace(on_a_network(megatron), "workload.starts", "together")))
    assert (found[6], found[0]) == pytest.approx((74, 478), rel=0.01)            # measured: 264 and 241


def test_and_in_replay_without_a_design(megatron: Path) -> None:
    chosen = replay_design(f"{megatron}.*.et")
    result = ar.simulate(chosen)
    assert result.makespan_ps / 1e9 == pytest.approx(MEASURED_MS, rel=1e-4)
    assert in_collectives(result) == pytest.approx(recorded(megatron), rel=0.001)
