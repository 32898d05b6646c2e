"""`compute.clock: sustained`: the clock that the power limit leaves a rank's kernels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.commands import Run
from tests.profile.execute.recordings import MM, Recorded, tensor

import astrarium as ar
from astrarium.bounds.clocks import PROBE
from astrarium.compute import kernels
from astrarium.compute.kernels.power import CHIPS, FOLLOWS, GH100, PER_JOULE, Load, Mix, clocked, effective
from astrarium.compute.measured import Measured
from astrarium.cost.energy import npu_energy
from astrarium.engine.plugins import ComputeNodes
from astrarium.errors import InputError
from astrarium.lower.clocks import clocks_of
from astrarium.trace.read import traces_of_bytes
from astrarium.vocab import Kernel

SUSTAINED = [(4096, 4096, 4096, 209.9, 1410), (4096, 4096, 14336, 708.2, 1382), (512, 8192, 8192, 106.6, 1380),
             (8192, 1024, 8192, 205.7, 1402), (1024, 1024, 1024, 6.39, 1897)]
"""m, n, k, us and mean MHz of one H100 SXM in 1.1 s without a pause, PyTorch 2.11."""
NORM = Kernel("normalisation", "bf16", (), 1.0, 1e8, 2**28)


def product(m: int, n: int, k: int, precision: str = "bf16") -> Kernel:
    return Kernel("gemm", precision, (1, m, n, k), 1.0, 2.0 * m * n * k, 2 * (m * n + n * k + m * k))


def nodes(*kernels: Kernel, host: int = 0) -> ComputeNodes:
    """One node of each kernel, the last of the host with a duration (ps)."""
    every = (*kernels, Kernel("host", "fp32", (), 1.0, 0.0, 0))
    size = len(every)
    return ComputeNodes(np.ones(size), np.ones(size, np.int64), np.array([0] * (size - 1) + [host or 10**6]),
                        [""] * size, np.zeros(size, np.bool_), 0, np.arange(size, dtype=np.int32), every)


def ran(*kernels: Kernel, host: int = 0, **settings: Any) -> tuple[float, float, list[int]]:
    """(MHz, W, ps of each kernel)."""
    compute = Measured(device=settings.pop("device", "h100_sxm"), clock="sustained", **settings)
    found = compute.clocked(work := nodes(*kernels, host=host))
    assert found is not None
    return found.clock * 1000, found.watts, compute.durations(work).tolist()[:-1]


@pytest.mark.parametrize(("m", "n", "k", "us", "mhz"), SUSTAINED)
def test_sustained_products_run_at_the_measured_clock(m: int, n: int, k: int, us: float, mhz: float) -> None:
    found, watts, (ps,) = ran(product(m, n, k))
    assert found == pytest.approx(mhz, rel=0.02)
    assert watts == pytest.approx(700, abs=0.1)
    assert ps / 1e6 == pytest.approx(us, rel=0.05)


def test_a_product_that_memory_bounds_keeps_its_clock_and_time() -> None:
    found, watts, times = ran(product(16, 8192, 8192))
    assert found == 1980
    assert watts < 400
    assert times == Measured(device="h100_sxm").durations(nodes(product(16, 8192, 8192))).tolist()[:1]


def test_the_mix_decides() -> None:
    big = product(4096, 4096, 4096)
    assert ran(big)[0] < ran(big, NORM)[0] < ran(big, *[NORM] * 4)[0] == 1980
    assert ran(big, power="500 W")[0] < ran(big)[0]
    half = ran(product(8192, 8192, 8192, "fp8"))     # of the energy of a bf16 flop, and fewer of the peak
    assert ran(product(8192, 8192, 8192))[0] < half[0] < 1700


def test_a_host_that_takes_longer_lowers_the_power() -> None:
    big = product(4096, 4096, 4096)
    assert ran(big, host=10**9)[0] == 1980 > ran(big)[0]


def test_h200_is_the_chip_of_h100_and_others_are_refused() -> None:
    assert ran(product(4096, 4096, 4096), device="h200_sxm")[0] == pytest.approx(1400, rel=0.05)
    with pytest.raises(InputError, match="no sustained clocks of a100_sxm"):
        ran(product(4096, 4096, 4096), device="a100_sxm")


def test_power_is_that_of_the_formula() -> None:
    load = Load(1e12, 1e9, lambda clock: 1.5e6 / clock)
    found = clocked(GH100, 132, 700.0, load)
    busy = load.busy(effective(found.share))
    drawn = 1.795e-3 * 1e12 * found.share**2 / busy + 0.0314 * 1e9 / busy + 0.303 * 132 * found.share**3
    assert found.watts == pytest.approx(80 + drawn)
    assert found.watts == pytest.approx(700)


def test_many_clocks_at_once_are_the_same_from_above_and_rise_no_more_than_they_say() -> None:
    sets = np.array([[1e12, 8e11, 2e11, 0.0], [1e9, 2e9, 1e8, 3e9], [1.5e6, 2e6, 1e6, 1e6], [7e5, 4e5, 3e5, 0.0]])
    share, room = Mix(GH100, 132, 700.0, sets).highest()
    for other in (0.0, 1e3, 1e5, 1e6):
        bound = np.minimum(1.0, share * (1 + other / np.maximum(room - other, 1e-9)))
        for (flops, size, busy, more), least in zip(sets.T.tolist(), bound.tolist()):
            load = Load(flops, size, lambda clock: busy + other + more * (1 / clock - 1) / FOLLOWS)    # noqa: B023
            found = clocked(GH100, 132, 700.0, load).share
            assert found <= least + 1e-9
            assert other or found == pytest.approx(least, abs=1e-6)


def test_optimizers_take_ever_less_time_a_byte_from_the_planners_probe_on() -> None:
    for model in map(kernels.load, CHIPS):
        for curve in (model.machine.stream, model.streams.get("adamw_fused", ())):
            size, ns = np.array(curve or [(1.0, 1.0)]).T
            assert (np.diff((ns / size)[np.searchsorted(size, PROBE.bytes) - 1:]) <= 0).all()
        assert "adamw_fused" not in model.slower


def test_the_chip_gives_what_rows_of_large_products_make_of_a_joule() -> None:
    large = product(4096, 4096, 14336)
    _, _, (ps,) = ran(large)
    short = Measured(device="h100_sxm").durations(nodes(large)).tolist()[0]
    assert 1.15 < ps / short < 1.25        # a short run draws more than the limit
    assert large.flops / short * 1e3 / 700 / 1e3 == pytest.approx(PER_JOULE["wgmma"], rel=0.09)


def test_a_run_says_its_clock_and_counts_its_energy(tmp_path: Path, run: Run) -> None:
    design = ar.Design(workload=ar.Transformer("llama3-8b", tp=4, global_batch=1, seq=2048),
                       compute={"like": "h100_sxm", "clock": "sustained", "power": "700 W", "idle_power": "80 W"},
                       memory="h100_sxm", network=ar.Network([ar.Switch(4, bandwidth="450 GB/s", latency="1 us")]))
    result = ar.simulate(design)
    (ranks, found), = clocks_of(design, result.traces)
    assert ranks.tolist() == [0, 1, 2, 3]
    assert 1400 < found.clock * 1000 < 1980
    busy = float(result.ranks.compute[result.outcome.row].sum()) / 1e12
    assert npu_energy(design, result)[0] == pytest.approx(busy * found.watts)
    ar.dump_design(design, tmp_path / "d.yaml")
    said = run("run", tmp_path / "d.yaml", "--json").err
    assert re.search(r"compute.clock: 1,\d{3} MHz \(0\.\d\d of the highest\) on rank 0 and 3 equal ones", said)


def test_a_recording_has_a_clock_too() -> None:
    """Of a product that ran 2.4 ms: the clock of a generated one, and its watts count."""
    builder, matrix = Recorded(), {"kind": "c10::BFloat16", "width": 2}
    operands = [tensor(number, 8192, 8192, **matrix) for number in range(3)]
    builder.kernel("nvjet", builder.call(MM, operands[:2], operands[2:], duration=0), duration=2400)
    traces = traces_of_bytes([builder.encode()])
    compute = {"like": "h100_sxm", "clock": "sustained", "missing": "0 ns", "idle_power": "80 W"}
    design = ar.Design(workload=ar.Trace("made.*.et"), compute=compute, memory="h100_sxm",
                       network=ar.Network([ar.Switch(1, bandwidth="450 GB/s", latency="1 us")]))
    (ranks, found), = clocks_of(design, traces)
    assert ranks.tolist() == [0]
    assert found.clock * 1000 == pytest.approx(ran(product(8192, 8192, 8192))[0], rel=0.01)     # its bytes are unknown
    result = ar.simulate(design, traces=traces)
    assert npu_energy(design, result)[0] == pytest.approx(result.makespan / 1e9 * found.watts)
