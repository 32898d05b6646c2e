"""Money, energy and CO2 of a stream: from the design's prices, or the catalog's."""

from __future__ import annotations

from typing import Any

import pytest

import astrarium as ar
from astrarium.config import decode, replace_all
from astrarium.cost.power import site_power
from astrarium.cost.running import KWH
from astrarium.serving import Poisson, Served, serve
from astrarium.serving.design import ServingDesign
from astrarium.serving.figures import SERVED
from astrarium.serving.prices import prices_of

STREAM = Poisson(rate=4000, count=150, seed=1, prompt=60, output=12)
PLAIN: dict[str, Any] = {
    "workload": {"source": "inference", "model": "gpt2-small", "phase": "decode", "context": 1, "dp": 8, "batch": 8},
    "network": {"dims": [{"shape": "switch", "npus": 8, "bandwidth": "450 GB/s", "latency": "500 ns"}]},
    "compute": "h100_sxm", "memory": "h100_sxm"}


@pytest.fixture(scope="module")
def served() -> tuple[ar.Design, Served]:
    """A design of a device of the catalog, and its stream."""
    design = decode(ar.Design, PLAIN)
    return design, serve(design, STREAM)


def test_rent_is_by_the_hour(served: tuple[ar.Design, Served]) -> None:
    design, found = served
    rented = ar.replace(design, "cost", {"rental": "aws_h100_2025_03"})
    prices, rates = prices_of([rented], found), found.rates(found.window)
    second = prices.amounts["cost"]["per_request"] * rates["requests_per_s"]
    assert second * 3600 == pytest.approx(8 * 12.29)
    assert prices.amounts["cost"]["per_mega_tokens"] == pytest.approx(1e6 * second / rates["output_tokens_per_s"])
    assert prices.amounts["cost"]["per_mega_input_tokens"] == pytest.approx(1e6 * second / rates["prompt_tokens_per_s"])
    assert "rented" in prices.unknown["energy"]


def test_the_catalog_has_prices_of_its_devices(served: tuple[ar.Design, Served]) -> None:
    """Of a design that says none; and its power is that of the site."""
    design, found = served
    prices = prices_of([design], found)
    assert any("us_h100_2024" in text for text in prices.assumed)
    assert any("700 W" in text for text in prices.assumed)
    assert not prices.unknown
    said = replace_all(design, {"cost": "us_h100_2024", "compute.power": "700 W", "compute.idle_power": "80 W"})
    assert prices_of([said], found).amounts == prices.amounts
    power = site_power(said)
    watts = power.waiting + found.busy_share * power.pue * (power.active - power.idle)
    joules = prices.amounts["energy"]["per_request"]
    assert joules * found.rates(found.window)["requests_per_s"] == pytest.approx(watts)
    assert prices.amounts["carbon"]["per_request"] == pytest.approx(joules / KWH * (said.cost.grid or 0) / 1000)


def test_a_device_without_prices_has_none(served: tuple[ar.Design, Served]) -> None:
    design, found = served
    prices = prices_of([replace_all(design, {"compute": {"model": "roofline", "peak": "1 PFLOP/s"}})], found)
    assert (prices.amounts, prices.assumed) == ({}, ())
    assert "hourly_price" in prices.unknown["cost"]


def test_figures_of_searches_are_the_same(served: tuple[ar.Design, Served]) -> None:
    said = {"cost": "us_h100_2024", "compute.power": "700 W", "compute.idle_power": "80 W"}
    design = replace_all(ServingDesign(**{name: getattr(served[0], name) for name in ar.Design.__struct_fields__},
                                       requests=STREAM), said)
    plain = prices_of([design], served[1]).plain
    assert {name: SERVED[name].measure(design, served[1]) for name in plain} == plain
