"""Clock and power cap: closed forms, physics that always holds, and clocks of a V100 that somebody measured."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import astrarium as ar
from astrarium.config import replace_all
from astrarium.units import Frequency, Power

MEASURED = Path(__file__).parents[1] / "published" / "v100_dvfs.csv"
HELD_OUT = ("quasirandomGenerator", "binomialOptions", "matrixMul")
V100: dict[str, Any] = {"nominal": "1380 MHz", "knee": "1025 MHz", "lowest_voltage": 0.84, "static_power": "20 W",
                        "lowest": "405 MHz"}
"""Fitted on two other kernels of the same measurements (eigenvalues, sortingNetworks), whose own errors are 2 %."""


def scaling(**fields: Any) -> ar.Scaling:
    return ar.Scaling(**{**V100, **fields})


def measured(kernel: str) -> list[tuple[float, float, float]]:
    """(cycle/ns, W, ms) of a kernel, ascending, without the lowest clock, at which the memory's clock falls too."""
    with MEASURED.open() as file:
        return [(float(row["clock_mhz"]) / 1000, float(row["power_w"]), float(row["time_ms"]))
                for row in csv.DictReader(file) if row["kernel"] == kernel and row["clock_mhz"] != "405"]


@pytest.mark.parametrize(("kernel", "power", "energy"), list(zip(HELD_OUT, (0.037, 0.06, 0.08), (0.04, 0.07, 0.03))))
def test_clocks_of_a_v100_on_kernels_that_compute(kernel: str, power: float, energy: float) -> None:
    """Power and energy of kernels that no parameter was fitted on, from their power and time at the highest clock."""
    rows, model = measured(kernel), scaling()
    _, top_power, top_time = rows[-1]
    for clock, watts, ms in rows[:-1]:
        predicted, took = model.power_at(clock, top_power), top_time * model.nominal / clock
        assert predicted == pytest.approx(watts, rel=power)
        assert predicted * took == pytest.approx(watts * ms, rel=energy)
        assert took == pytest.approx(ms, rel=0.06)


def test_what_it_cannot_predict() -> None:
    """A kernel that waits for memory draws more at low clocks than C V^2 f says: its memory does not slow down."""
    rows = measured("vectorAdd")
    errors = [scaling().power_at(clock, rows[-1][1]) / watts - 1 for clock, watts, _ in rows[:-1]]
    assert all(error < 0.02 for error in errors)
    assert min(errors) < -0.2


def test_closed_forms() -> None:
    flat = scaling(lowest_voltage=1.0)      # no voltage scaling: dynamic power goes with the clock
    assert flat.power_at(0.69, 220) == pytest.approx(20 + 200 / 2)
    cubic = scaling(knee="0 GHz", lowest_voltage=1e-9)      # V goes with f: dynamic power with its cube
    assert cubic.power_at(0.69, 220) == pytest.approx(20 + 200 / 8)
    # The clock of least energy of a job that computes: f^3 = P_static f_0^3 / (2 (P_0 - P_static)).
    best = 1.38 * (20 / (2 * 200)) ** (1 / 3)
    energy = {clock: cubic.power_at(clock, 220) / clock for clock in np.linspace(0.41, 1.38, 400)}
    assert min(energy, key=lambda clock: energy[clock]) == pytest.approx(best, rel=5e-3)


@given(st.floats(0.405, 1.38), st.floats(30, 1000), st.floats(0.3, 1.0))
def test_a_cap_is_kept_to_and_used_up(clock: float, power: float, voltage: float) -> None:
    model = scaling(lowest_voltage=voltage)
    cap = Power.of(model.power_at(clock, power))
    capped = scaling(lowest_voltage=voltage, power_cap=cap)
    assert capped.drawn(power) <= cap * (1 + 1e-12)
    assert capped.power_at(capped.runs_at(power), power) == pytest.approx(cap, rel=1e-9)
    slower = scaling(lowest_voltage=voltage, clock=Frequency.of(clock))
    assert slower.drawn(power) <= power
    assert slower.share(power) == pytest.approx(clock / 1.38)


WORK = """
workload: {source: transformer, model: gpt2-small, dp: 2, global_batch: 8, seq: 512}
compute: {model: roofline, peak: 10 TFLOP/s, power: 300 W, idle_power: 50 W, scaling: {nominal: 1380 MHz, knee: 1 GHz,
  lowest_voltage: 0.8, static_power: 20 W, lowest: 400 MHz}}
memory: {bandwidth: BANDWIDTH, capacity: 80 GB}
network: {dims: [{shape: switch, npus: 2, bandwidth: 100 TB/s, latency: 0 ns, energy: 0 pJ/bit}]}
"""


def design(bandwidth: str = "1000 TB/s") -> ar.Design:
    from astrarium.config import loads

    return loads(ar.Design, WORK.replace("BANDWIDTH", bandwidth))


def test_only_what_computes_takes_longer() -> None:
    half = {"compute.scaling.clock": "690 MHz"}
    fast, slow = (ar.simulate(each).makespan_ps for each in (design(), replace_all(design(), half)))
    assert slow == pytest.approx(2 * fast, rel=1e-3)
    starved = design("1 GB/s")      # all of it waits for memory
    same = ar.simulate(starved).makespan_ps
    assert ar.simulate(replace_all(starved, half)).makespan_ps == pytest.approx(same, rel=0.01)


def test_energy_takes_the_power_of_the_clock() -> None:
    capped = replace_all(design(), {"compute.scaling.power_cap": "150 W"})
    assert capped.compute.active_power == pytest.approx(150)
    result = ar.simulate(capped)
    from astrarium.cost.energy import energy

    busy = float(result.ranks.compute[result.outcome.row].sum()) / 1e12
    assert energy(capped, result).compute == pytest.approx(150 * busy)
    assert energy(capped, result).compute < energy(design(), ar.simulate(design())).compute


@pytest.mark.parametrize(("fields", "said"), [
    ({"clock": "2 GHz"}, r"Scaling.clock: is above the nominal clock of 1.38 GHz"),
    ({"clock": "100 MHz"}, r"Scaling.clock: is below the lowest clock of 405 MHz"),
    ({"lowest_voltage": 1.5}, r"Scaling.lowest_voltage: 1.5 is above the nominal voltage"),
    ({"clock": 1380}, r"Scaling.clock: 1380 is a number without a unit")])
def test_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ar.InputError, match=said):
        scaling(**fields)


def test_a_roofline_refuses_what_does_not_fit() -> None:
    with pytest.raises(ar.InputError, match=r"Roofline.power: is missing"):
        ar.Roofline(peak="1 TFLOP/s", scaling=scaling())
    with pytest.raises(ar.InputError, match=r"scaling.power_cap: is less than what the lowest clock draws"):
        ar.Roofline(peak="1 TFLOP/s", power="300 W", scaling=scaling(power_cap="30 W"))
    with pytest.raises(ar.InputError, match=r"Roofline.idle_power: is more than the 300 W that it draws while it comp"):
        ar.Roofline(peak="1 TFLOP/s", power="300 W", idle_power="301 W")
    with pytest.raises(ar.InputError, match=r"Roofline.idle_power: is more than the 150 W"):
        ar.Roofline(peak="1 TFLOP/s", power="300 W", idle_power="160 W", scaling=scaling(power_cap="150 W"))
    with pytest.raises(ar.InputError, match=r"Measured.idle_power: is more than the 50 W"):
        ar.Measured(device="h100_sxm", power="50 W", idle_power="80 W")
    with pytest.raises(ar.InputError, match=r"compute.scaling: does not exist under compat: astra_sim"):
        replace_all(design(), {"compat": "astra_sim", "compute.scaling.clock": "1 GHz"})
    assert math.isclose(ar.Roofline(peak="1 TFLOP/s").running_peak, 1000)
