"""Energy and price: against arithmetic, on both network models, folded and not; missing figures are named first."""

from __future__ import annotations

from typing import Any

import pytest

import astrarium as ar
from astrarium.config import replace_all
from astrarium.cost.energy import energy
from astrarium.cost.price import system_cost
from astrarium.errors import InputError, UnsupportedError
from astrarium.network.cost import network_cost
from astrarium.search import Space, search
from astrarium.units import EnergyPerByte, Power

from .designs import four_dims

POWERS = {"compute.power": "700 W", "compute.idle_power": "80 W"}


def ring(backend: str = "closed_form", **more: Any) -> ar.Design:
    """An all_reduce of 80 MB on a ring of 8 with ASTRA-sim's tutorial's figures (ISCA 2026)."""
    design = ar.Design(workload=ar.SingleCollective(op="all_reduce", payload="80 MB"),
                       network=ar.Network([ar.Ring(8, bandwidth="50 GB/s", latency="500 ns", energy="2 pJ/bit")],
                                          backend=backend), collective=ar.Collective(all_reduce=["ring"]))
    return replace_all(design, {**POWERS, **more})


@pytest.mark.parametrize("backend", ["closed_form", "contention"])
@pytest.mark.parametrize("shape", ["ring", "switch"])
def test_a_collective_against_arithmetic(backend: str, shape: str) -> None:
    """Every NPU sends 2 (n - 1) / n of the payload, and idles."""
    design = ring(backend, **{"network.dims[0].shape": shape})
    result = ar.simulate(design)
    found = energy(design, result)
    assert found.compute == 0
    assert found.idle == pytest.approx(8 * 80 * result.makespan_ps / 1e12, rel=1e-12)
    assert found.network == (pytest.approx(2 * 7 * 80e6 * 8 * 2e-12, rel=1e-12),)
    assert found.total == found.idle + found.network[0]


def step(**more: Any) -> ar.Design:
    """A training step of 16 NPUs in two dims."""
    return replace_all(ar.Design(
        workload=ar.Transformer("gpt3-13b", dp=4, tp=4, global_batch=16), compute=ar.Roofline(peak="100 TFLOP/s"),
        memory=ar.Memory(bandwidth="1 TB/s"), collective=ar.Collective(chunks=2, choice="none"),
        network=ar.Network([ar.Ring(4, bandwidth="100 GB/s", latency="500 ns", energy="2 pJ/bit"),
                            ar.Switch(4, bandwidth="50 GB/s", latency="1 us", energy="25 pJ/bit")])),
        {**POWERS, **more})


def test_a_step_rank_by_rank_and_folded() -> None:
    design = step()
    whole, folded = ar.simulate(design, fold="off"), ar.simulate(design)
    found = energy(design, folded)
    busy = sum(int(whole.ranks.compute[rank]) for rank in range(16)) / 1e12
    assert found.compute == pytest.approx(700 * busy, rel=1e-9)
    assert found.idle == pytest.approx(80 * (16 * whole.makespan_ps / 1e12 - busy), rel=1e-9)
    other = energy(design, whole)
    assert (found.compute, found.idle) == (pytest.approx(other.compute), pytest.approx(other.idle))
    assert found.network == tuple(float(size) * per * 8 / 1e12 for size, per in zip(whole.dims.size, (2, 25)))


def test_npus_that_differ() -> None:
    types = [{"npus": "0:2", "compute": {"model": "replay", "power": "1 kW", "idle_power": "160 W", "price": 5}}]
    design = ring(npu_types=types, **{"compute.price": 3})
    result = ar.simulate(design)
    assert energy(design, result).idle == pytest.approx((2 * 160 + 6 * 80) * result.makespan_ps / 1e12, rel=1e-12)
    assert system_cost(design) == network_cost(design.network) + 2 * 5 + 6 * 3


def test_as_objectives() -> None:
    space = Space(ring(**{"compute.price": 10}), {"network.dims[0].bandwidth": ["50 GB/s", "100 GB/s"],
                                                  "network.dims[0].energy": ["2 pJ/bit", "4 pJ/bit"]})
    study = search(space, "energy", agent="grid", trials=4)
    best = space.design(study.best.point)      # type: ignore[union-attr]
    assert study.objectives()["energy"] == energy(best, ar.simulate(best)).total
    assert str(study.values()["network.dims[0].bandwidth"]) == "100 GB/s"
    cost = search(space, maximize="throughput_per_dollar", agent="grid", trials=4)
    value = cost.objectives()["throughput_per_dollar"]
    assert value == 1e9 / (ar.simulate(space.design(cost.best.point)).makespan_ps / 1000      # type: ignore[union-attr]
                           * system_cost(space.design(cost.best.point)))      # type: ignore[union-attr]
    assert search(space, "energy_x_delay", require="energy < 1e9", agent="grid", trials=4).best is not None


def test_missing_figures_are_named_before_the_first_trial() -> None:
    space = Space(four_dims(), {"collective.chunks": [1, 2], "compute.power": ["300 W", "700 W"]})
    with pytest.raises(InputError, match=r"energy: is not known without compute.idle_power, network.dims\[0\].energy"):
        search(space, "energy", trials=2)
    with pytest.raises(InputError, match=r"system_cost: is not known without compute\.price"):
        search(space, maximize="throughput_per_dollar", trials=2)
    astra = ring(compat="astra_sim")
    with pytest.raises(UnsupportedError, match="count bytes"):
        energy(astra, ar.simulate(astra))


def test_units() -> None:
    assert float(Power("0.7 kW")) == 700 == float(Power("700 W"))
    assert float(EnergyPerByte("2 pJ/bit")) == 0.016 == float(EnergyPerByte("0.016 nJ/B"))
    assert str(EnergyPerByte("25 pJ/bit")) == "25 pJ/bit"
