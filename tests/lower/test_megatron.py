"""Eight recorded ranks of a Megatron job: collectives come out as recorded, and kernels are predicted.

One file has all tests of this recording: linking it takes 7 s of CPU."""

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
from astrarium.profile.link import link, write_linked
from astrarium.profile.recorded import collective_calls
from astrarium.result import Result
from astrarium.result.gap import gap_of
from astrarium.system.config import System
from astrarium.trace import read_traces
from astrarium.workload.config import Trace
from astrarium.workload.model.decoder import Decoder

pytestmark = pytest.mark.shared
RANKS, MEASURED_MS = 8, 651.959       # from the first rank's begin to the last one's end


@pytest.fixture(scope="module")
def megatron(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prefix of eight recorded ranks of a Megatron job, linked (tp 8 on A100; shared/traces/real)."""
    folder = shared / "traces" / "real"
    if not (folder / "megatron_tp8_et_0.json.gz").exists():
        pytest.skip(f"no recording in {folder}")
    made = tmp_path_factory.mktemp("megatron") / "w"
    for rank in range(8):
        host, device = (folder / f"megatron_tp8_{kind}_{rank}.json.gz" for kind in ("et", "kineto"))
        write_linked(made, link(host, device, rank=rank))
    return made


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


def test_what_a_prediction_of_the_forward_pass_misses(megatron: Path) -> None:
    """40 layers, tp 8 on A100: products as predicted; ranks 0 and 6, slow hosts, make the others wait."""
    model = Decoder(layers=40, d_model=4096, heads=32, ffn=16_384, vocab=51_200, seq=2048, gated=False, norm="layer",
                    activation="gelu", biases=["qkv", "out", "mlp"])
    predicted = ar.simulate(ar.Design(
        workload=ar.Inference(model, tp=8, batch=4, prompt=2048, phase="prefill", attention="unfused",
                              mask="full", fusion=False),
        compute=ar.Measured(device="a100_sxm_80gb"), memory=ar.Memory(bandwidth="2.04 TB/s"),
        network=ar.Network([ar.Switch(8, bandwidth="300 GB/s", latency="2 us")])))
    found = gap_of(predicted, ar.simulate(replay_design(f"{megatron}.*.et")))
    products = found.mean("products")
    assert products[1] == pytest.approx(products[0], rel=0.03)
    waiting, host = (found.recorded[:, found.names.index(name)] for name in ("waiting for ranks", "host"))
    assert sorted(host.argsort()[-2:].tolist()) == [0, 6]
    assert sorted(waiting.argsort()[:2].tolist()) == [0, 6]


def test_known_kernels_take_the_time_of_the_device_that_recorded_them(megatron: Path) -> None:
    """The kernels that are known take 3 % less than recorded; the model has never seen the recording."""
    before, after = (ar.simulate(ar.Design(
        workload=ar.Trace(f"{megatron}.0.et", rank=0), memory=ar.Memory(bandwidth="2.04 TB/s"), compute=compute,
        network=ar.Network([ar.Switch(8, bandwidth="300 GB/s", latency="2 us")])))
        for compute in (ar.Replay(missing="0 ns"),
                        ar.Measured(device="a100_sxm_80gb", unknown="recorded", missing="0 ns")))
    kernels = [float(result.ranks.compute[0]) for result in (before, after)]
    assert kernels[0] != kernels[1]
    assert kernels[1] == pytest.approx(kernels[0], rel=0.05)
