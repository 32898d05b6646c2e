"""Training loops of ASTRA-sim's ASPLOS'23 tutorial (exercise 2), which are not exact: how far they are from its totals.

Compute times are (tests/profile/test_text_workload.py). The totals differ since ASTRA-sim 1 schedules chunks otherwise.
"""

from __future__ import annotations

from typing import Any

import pytest

import astrarium as ar
from astrarium.config import Config
from astrarium.profile.text_generate import generate_text
from astrarium.profile.text_workload import parse_text

PASSES = [(3429, 3584), (73143, 73856), (36571, 147712), (73143, 295168), (36571, 590336), *[(73143, 1180160)] * 2,
          (36571, 2360320), *[(73143, 4719616)] * 2, *[(18286, 4719616)] * 3, (4063, 205529088), (663, 33562624),
          (162, 8194000)]                       # ns; bytes of the layer's all_reduce
VGG16 = "DATA\n16\n" + "\n".join(f"l{i} -1 {time} NONE 0 {time} NONE 0 {time} ALLREDUCE {size} 1"
                                 for i, (time, size) in enumerate(PASSES))
LATENCY = "500 ns"
DGX2: list[Config] = [ar.Switch(16, bandwidth="150 GiB/s", latency=LATENCY),
                      ar.Switch(16, bandwidth="6.25 GiB/s", latency=LATENCY)]
TPU: list[Config] = [ar.Ring(16, bandwidth="124 GiB/s", latency=LATENCY)] * 2


@pytest.mark.exam
@pytest.mark.parametrize(("dims", "algorithm", "scale", "slide_us", "ratio"), [
    (DGX2, "halving_doubling", 0.41, 5632.316, 1.161), (TPU, "ring", 1.0, 5489.225, 1.014)])
def test_vgg16(dims: list[Config], algorithm: str, scale: float, slide_us: float, ratio: float) -> None:
    chosen: dict[str, Any] = {op: [algorithm] * 2 for op in ("all_reduce", "all_gather", "reduce_scatter")}
    design = ar.Design(
        workload=ar.Trace("text"), network=ar.Network(dims), compat="astra_sim",
        memory=ar.Memory(bandwidth="500000 GB/s"),
        collective=ar.Collective(**chosen, choice="none", chunks=4, endpoint_delay="10 ns", composition="blueconnect"))
    generated = generate_text(parse_text(VGG16), 256, compute_scale=scale, unit="ns")
    found = ar.simulate(design, traces=generated).makespan_ps / 1e6
    assert found / slide_us == pytest.approx(ratio, abs=0.001)
