"""Money, energy and CO2 of the tokens of an inference workload, against sums by hand and the rates of `serve`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.commands import Run

import astrarium as ar
from astrarium.config import decode, replace_all
from astrarium.cost import FIGURES, figures
from astrarium.cost.assumed import with_prices
from astrarium.cost.known import prices_assumed
from astrarium.cost.rates import RATES
from astrarium.cost.shares import shares

PLAIN: dict[str, Any] = {
    "workload": {"source": "inference", "model": "gpt2-small", "dp": 8, "batch": 16, "prompt": 100, "generated": 5},
    "network": {"dims": [{"shape": "switch", "npus": 8, "bandwidth": "450 GB/s", "latency": "500 ns"}]},
    "compute": "h100_sxm", "memory": "h100_sxm"}
OUTPUT = ("cost_per_mega_tokens", "energy_per_mega_tokens", "carbon_per_mega_tokens")
INPUT = tuple(name.replace("_tokens", "_input_tokens") for name in OUTPUT)


@pytest.fixture(scope="module")
def ran() -> tuple[ar.Design, ar.Result]:
    design = decode(ar.Design, PLAIN)
    return design, ar.simulate(design)


def test_rent_over_the_generated_tokens(ran: tuple[ar.Design, ar.Result]) -> None:
    design, result = ar.replace(ran[0], "cost", "nebius_h100_2025"), ran[1]
    found = figures(design, result)
    rent = 8 * 2.95 * float(result.makespan) / 3.6e12
    assert found["cost_per_mega_tokens"] == pytest.approx(1e6 * rent / (16 * 5))
    asked = figures(design, result, ["cost_per_mega_input_tokens"])
    assert asked["cost_per_mega_input_tokens"] == pytest.approx(1e6 * rent / (16 * 100))
    assert not {"energy_per_mega_tokens", *INPUT} & set(found)     # of rented NPUs no power is known


def test_the_catalog_prices_a_device_and_says_so(ran: tuple[ar.Design, ar.Result]) -> None:
    """The same amounts as the rates of `serve` and `plan` give for the run's time."""
    design, result = ran
    found, priced = figures(design, result), with_prices(design)[0]
    assert set(OUTPUT) <= set(found)
    assert any("us_h100_2024, of the catalog" in text for text in prices_assumed(design, found))
    assert prices_assumed(design, ["mfu"]) == ()
    makespan, busy = float(result.makespan), float(result.ranks.compute[result.outcome.row].mean()) / 1000
    for name, figure in zip(("cost", "energy", "carbon"), OUTPUT, strict=True):
        amount = RATES[name](priced, figure).value(makespan, busy)
        assert found[figure] == pytest.approx(shares(name, amount, {"per_mega_tokens": 80})["per_mega_tokens"])
    with pytest.raises(ar.InputError, match="hourly_price"):     # searches assume nothing
        FIGURES["cost_per_mega_tokens"].measure(design, result)


def test_a_part_of_a_host_pays_for_all_of_it_and_says_so(ran: tuple[ar.Design, ar.Result]) -> None:
    assert not any("a whole " in text for text in with_prices(ran[0])[1])
    half = ar.replace_all(ran[0], {"workload.dp": 4, "network.dims[0].npus": 4})
    said = with_prices(half)[1][-1]
    assert said.startswith("a whole h100_node_2024_08, of whose 8 NPUs the design has 4 (serve and plan --for serving ")
    result = ar.simulate(half)
    bought = {name: figures(ar.replace(design, "cost", "us_h100_2024"), run, ["capital_cost"])["capital_cost"]
              for name, design, run in (("whole", *ran), ("half", half, result))}
    assert bought["half"] == bought["whole"]


def test_prefill_alone_has_the_tokens_of_its_prompts(ran: tuple[ar.Design, ar.Result]) -> None:
    design = ar.replace(ran[0], "workload.phase", "prefill")
    found = figures(design, ar.simulate(design))
    assert set(INPUT) <= set(found)
    assert not set(OUTPUT) & set(found)
    with pytest.raises(ar.InputError, match="the workload has no decode"):
        figures(design, ar.simulate(design), ["energy_per_mega_tokens"])


def test_pools_and_other_workloads(ran: tuple[ar.Design, ar.Result]) -> None:
    work = {"source": "disaggregated", "model": "gpt2-small", "batch": 4, "prompt": 100, "generated": 5,
            "prefill": {"tp": 4}, "decode": {"tp": 4}}
    pools = replace_all(ran[0], {"workload": work, "cost": "nebius_h100_2025"})
    result = ar.simulate(pools)
    rent = 8 * 2.95 * float(result.makespan) / 3.6e12
    assert figures(pools, result)["cost_per_mega_tokens"] == pytest.approx(1e6 * rent / 20)
    step = replace_all(ran[0], {"workload": {"source": "transformer", "model": "gpt2-small", "dp": 8,
                                             "global_batch": 8}})
    assert not {*OUTPUT, *INPUT} & set(figures(step, ar.simulate(step)))


def test_the_command_line(run: Run, tmp_path: Any) -> None:
    path = tmp_path / "infer.yaml"
    ar.dump_design(decode(ar.Design, PLAIN), path)
    said = run("run", path)
    assert "price of 10^6 output tokens" in said.out
    assert "US dollars" in said.out
    assert "energy of 10^6 output tokens" in said.out
    assert " J\n" in said.out
    assert "note: money and energy: an NPU's power 700 W" in said.err
    assert '"prices":{"assumed":["an NPU\'s power 700 W' in run("run", path, "--json").out


def test_nothing_is_shared_over_no_work() -> None:
    assert shares("energy", 2.0, {"per_mega_tokens": 0.0, "per_request": 4.0}) == {"per_request": 1.8e6}
