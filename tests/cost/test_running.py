"""Power, energy, hours, tokens and CO2: by hand, and as published budgets have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cost.buildings import cluster, step

import astrarium as ar
from astrarium import catalog
from astrarium.config import replace_all
from astrarium.cost import FIGURES, figures
from astrarium.cost.capital import capital_cost
from astrarium.cost.energy import npu_energy
from astrarium.cost.power import site_power
from astrarium.cost.running import cost_per_hour
from astrarium.errors import InputError

RUN = ar.simulate(step())


def figure(name: str, design: ar.Design) -> float:
    found = FIGURES[name]
    if found.check is not None:
        found.check(design)
    return found.of_design(design) if found.of_design is not None else found.measure(design, RUN)


def test_power_of_hosts_switches_and_optics() -> None:
    """A host with its NPUs is what NVIDIA prints for a DGX H100: 10.2 kW at most."""
    found = site_power(cluster(4, cost__pue=1.0))
    assert found.active == 32 * 700
    assert found.idle == 32 * 80
    assert found.rest == pytest.approx(4 * (10_200 - 8 * 700) + 640 + 32 * 17.5)
    assert found.peak == pytest.approx(4 * 10_200 + 640 + 32 * 17.5)
    assert figure("power_peak", cluster(4)) == pytest.approx(1.25 * found.peak)
    one = replace_all(cluster(1), {"cost.pue": 1.0})
    assert figure("power_peak", one) == pytest.approx(10_200)


def test_power_of_the_rest_of_a_host_as_a_share() -> None:
    """Epoch AI's 1.82 x the chips' limit, 2.03 of A100s, gives the same 10.2 and 6.5 kW."""
    h100 = cluster(1, cost__host="server_epoch_2024", cost__device="h100_sxm_2024_07", cost__pue=1.0)
    assert figure("power_peak", h100) == pytest.approx(10_200, rel=2e-3)
    a100 = cluster(1, cost__host="server_epoch_a100_2024", cost__device="a100_sxm_80gb_2025_03", cost__pue=1.0,
                   compute={"like": "a100_sxm_80gb", "power": "400 W", "idle_power": "50 W"}, memory="a100_sxm_80gb")
    assert figure("power_peak", a100) == pytest.approx(6_500, rel=2e-3)


def test_energy_of_a_run() -> None:
    design, seconds = step(), RUN.makespan_ps / 1e12
    compute, idle = npu_energy(design, RUN)
    rest = 2 * 4000 + 640 + 16 * 17.5
    joules = 1.25 * (compute + idle + rest * seconds)
    assert figure("site_energy", design) == pytest.approx(joules)
    assert figure("power_mean", design) == pytest.approx(joules / seconds)
    assert figure("energy_cost", design) == pytest.approx(joules / 3.6e6 * 0.0771)
    assert figure("carbon", design) == pytest.approx(joules / 3.6e6 * 0.429)
    tokens = 16 * 512
    assert figure("energy_per_tera_tokens", design) == pytest.approx(joules / 3.6e6 / tokens * 1e12)
    assert figure("carbon_per_tera_tokens", design) == pytest.approx(joules / 3.6e6 * 0.429 / tokens * 1e12)
    assert site_power(design).waiting < figure("power_mean", design) <= figure("power_peak", design)


def test_an_hour_and_a_training_run() -> None:
    design, seconds = step(cost__tokens=3.0e9), RUN.makespan_ps / 1e12
    hour = capital_cost(design) / (5 * 8760) + figure("power_mean", design) / 1000 * 0.0771
    assert cost_per_hour(design, RUN) == pytest.approx(hour)
    steps = 3.0e9 / (16 * 512)
    assert figure("training_cost", design) == pytest.approx(steps * seconds / 3600 * hour)
    assert figure("owned_cost_per_tera_tokens", design) == pytest.approx(figure("training_cost", design) * 1e12 / 3e9)


def test_hours_of_work_pay_for_those_without() -> None:
    half = step(cost__utilisation=0.5)
    waiting, mean = site_power(half).waiting / 1000, figure("power_mean", half) / 1000
    assert cost_per_hour(half, RUN) == pytest.approx(2 * capital_cost(half) / (5 * 8760) + 0.0771 * (mean + waiting))


def test_rented_npus_cost_their_rent() -> None:
    rented = step(cost={"rental": "h800_deepseek_2024_12", "tokens": 14.8e12})
    assert figure("cost_per_hour", rented) == 16 * 2.0
    mine = replace_all(step(cost={}), {"compute.hourly_price": 2.0})
    assert figure("cost_per_tera_tokens", rented) == figure("cost_per_tera_tokens", mine)
    assert figure("training_cost", rented) == pytest.approx(14.8 * figure("cost_per_tera_tokens", rented))


def test_a_rent_is_of_the_device_that_runs() -> None:
    of_a_tpu = step(cost={"rental": "gcp_tpu_v4_2025_03"}, compute="h100_sxm", memory="h100_sxm")
    with pytest.raises(InputError, match=r"cost.rental: gcp_tpu_v4_2025_03 is a price of tpu_v4"):
        cost_per_hour(of_a_tpu, RUN)


def test_a_host_draws_more_than_its_devices(tmp_path: Path) -> None:
    row = """
[parts.cold_host]
title = "A host"
kind = "host"
date = "2026"
price = "1 $"
device = "h100_sxm"
npus = 8
includes = ["device", "nic"]
nic = "400 Gb/s"
power = "5 kW"
source = "made up"
"""
    path = tmp_path / "rows.toml"
    unknown = row.replace("cold_host", "other_host").replace('power = "5 kW"\n', "")
    path.write_text(row + unknown, encoding="utf-8")
    with catalog.overlay(path):
        with pytest.raises(InputError, match=(
                r"catalog.parts.cold_host.power: 5 kW are less than its 8 h100_sxm draw; expected .*more than 5.6 kW")):
            site_power(cluster(4, cost__host="cold_host"))
        with pytest.raises(InputError, match=r"cost.host_power \(nor does catalog.parts.other_host say it\)"):
            figure("power_mean", replace_all(step(), {"cost.host_power": None, "cost.host": "other_host"}))


@pytest.mark.parametrize(("figure_", "changes", "said"), [
    ("power_peak", {"compute.idle_power": None, "cost.facility": None}, r"without compute.idle_power, cost.pue \(or"),
    ("energy_cost", {"cost.tariff": None}, r"energy_cost: is not known without cost.electricity \(or cost.tariff\)"),
    ("carbon", {"cost.region": None}, r"carbon: is not known without cost.carbon_intensity \(or cost.region\)"),
    ("cost_per_hour", {"cost.lifetime": None}, r"cost_per_hour: is not known without cost.lifetime"),
    ("cost_per_hour", {"cost.host": None}, r"cost_per_hour: is not known without compute.hourly_price"),
    ("training_cost", {}, r"training_cost: is not known without cost.tokens"),
    ("cost_per_tera_tokens", {}, r"cost_per_tera_tokens: is not known without compute.hourly_price"),
    ("owned_cost_per_tera_tokens", {"cost": {"rental": "aws_h100_2025_03"}}, r"is not known of rented NPUs"),
    ("power_peak", {"cost": {"rental": "aws_h100_2025_03"}}, r"power_peak: is not known of rented NPUs"),
    ("embodied_carbon", {"cost.host": "dgx_b200_2024_12"}, r"catalog.parts.dgx_b200_2024_12.embodied"),
    ("operation_energy", {}, r"without cost.flop_energy, cost.memory_energy, network.dims\[0\].energy")])
def test_what_is_missing_is_named(figure_: str, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        figure(figure_, replace_all(step(), changes))


def test_a_search_refuses_before_the_first_trial() -> None:
    from astrarium.search import Space, search

    space = Space(step(cost__region=None), {"network.dims[0].bandwidth": ["300 GB/s", "100 GB/s"]})
    with pytest.raises(InputError, match=r"carbon: is not known without cost.carbon_intensity"):
        search(space, minimize="carbon", agent="grid", trials=2)


def test_knobs_and_limits_of_a_search() -> None:
    from astrarium.search import Space, search

    space = Space(step(), {"cost.switch": ["switch_64x400g_fs_2024_08", "switch_64x400g_nvidia_2024_08"],
                           "cost.facility": ["other_epoch", "survey_2023"]})
    best = search(space, minimize="owned_cost_per_tera_tokens", require="capital_cost <= 700000", agent="grid",
                  trials=4).best
    assert best is not None
    chosen = space.design(best.point).cost
    assert (chosen.switch, chosen.facility) == ("switch_64x400g_fs_2024_08", "other_epoch")


@given(st.floats(1, 3), st.floats(0.01, 1), st.floats(0, 1), st.integers(1, 20))
def test_costs_are_never_negative_and_rise_with_what_they_are_of(pue: float, used: float, price: float,
                                                                 years: int) -> None:
    design = step(cost__pue=pue, cost__utilisation=used, cost__electricity=f"{price} $/kWh",
                  cost__lifetime=f"{years} years")
    more = step(cost__pue=pue + 0.1, cost__utilisation=used, cost__electricity=f"{price + 0.01} $/kWh",
                cost__lifetime=f"{years} years")
    assert 0 <= capital_cost(design) / (years * 8760) <= cost_per_hour(design, RUN) <= cost_per_hour(more, RUN)


def test_figures_are_printed_where_the_design_says_what_they_need() -> None:
    found = figures(step(), RUN)
    assert {"capital_cost", "power_peak", "power_mean", "cost_per_hour", "carbon"} <= set(found)
    assert "training_cost" not in found
    assert not {"capital_cost", "power_peak", "carbon"} & set(figures(step(cost={}), RUN))
