"""Plans by cost, energy and CO2, and within budgets: against exhaustive search and the figures themselves."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace
from tests.planner.spaces import DENSE, QUICK

from astrarium.cli import main
from astrarium.cost import FIGURES
from astrarium.cost.assumed import price_hint
from astrarium.errors import InputError
from astrarium.lower.kept import Kept
from astrarium.planner import budget, plan
from astrarium.planner.budget import counts_within, over
from astrarium.planner.explore import busy_of, explore, memory_of, workload_of
from astrarium.planner.layout import layouts
from astrarium.planner.machine import Machine, machine_of
from astrarium.planner.objective import objective_of, priced
from astrarium.planner.planning import line_of
from astrarium.planner.terms import cost_of, powers_of, terms_of
from astrarium.report.tables.shortlist import remarks
from astrarium.simulate import simulate

SMALL: dict[str, Any] = {**QUICK.fixed, "pp": [1, 2], "tp": [1, 2], "virtual_stages": [1], "zero": [0, 1]}


def machine(npus: int, objective: str = "cost", **cost: Any) -> Machine:
    terms = terms_of(objective, {"like": "us_h100_2024", **cost}, None, None)
    return machine_of("h100_sxm", npus, None, *QUICK.how, cost=cost_of(terms, "h100_sxm", []),
                      powers=powers_of(terms, "h100_sxm", []))


@pytest.mark.parametrize("name", ["cost", pytest.param("energy", marks=pytest.mark.exam)])
def test_never_worse_than_exhaustive_search(name: str) -> None:
    found_on, job, kept = machine(16, name), QUICK.job, Kept()
    goal = objective_of(name, found_on, job)
    every = {}
    for layout in layouts(job, 16, found_on.host, SMALL):
        workload = workload_of(job, layout)
        if memory_of(workload, kept) <= found_on.capacity:
            result = simulate(found_on.design(workload), kept=kept)
            every[layout] = goal.value(float(result.makespan), busy_of(result))
    found = explore(job, found_on, top=3, every=layouts(job, 16, found_on.host, SMALL), objective=goal)
    assert [trial.value for trial in found.found] == sorted(every.values())[:3]
    assert found.simulated < len(every)
    assert all(trial.least <= trial.value for trial in found.found)


@pytest.mark.parametrize(("name", "cost"), [
    ("cost", {}), ("cost", {"utilisation": 0.6}), ("energy", {}), ("carbon", {}), ("cost", {"rental": None})])
def test_an_objective_is_its_figure(name: str, cost: dict[str, Any]) -> None:
    where = machine(16, name, **cost)
    if "rental" in cost:
        where = replace(where, cost=type(where.cost)(rental="aws_h100_2025_03"))
    goal = objective_of(name, where, QUICK.job)
    layout = next(iter(layouts(QUICK.job, 16, 8, {**SMALL, "tp": [2], "pp": [2]})))
    line = line_of(QUICK.job, where, goal, layout, simulate(where.design(workload_of(QUICK.job, layout))))
    assert line.value == pytest.approx(line.figures[goal.figure], rel=1e-9)
    assert FIGURES[goal.figure].label


def test_counts_within_a_budget() -> None:
    terms = terms_of("cost", "us_h100_2024", "$2M", None)
    found = counts_within(machine, 8, QUICK.job, terms)
    assert found[-1] == max(found) == 40        # 6 hosts cost 1.96 M$, 7 cost 2.28 M$; 48 ranks have no layout
    assert sorted(found) == [8, 16, 32, 40]
    assert not over(machine(48), QUICK.job, terms)
    assert "the budget is 2,000,000 US dollars" in over(machine(56), QUICK.job, terms)
    watts = terms_of("time", "us_h100_2024", None, "55 kW")
    assert max(counts_within(machine, 8, QUICK.job, watts)) == 32       # 52.5 kW
    with pytest.raises(InputError, match=r"budget: 8 x h100_sxm cost 310,000 US dollars, the budget is 1,000"):
        counts_within(machine, 8, QUICK.job, terms_of("time", "us_h100_2024", "$1k", None))


def test_the_most_npus_of_a_budget_are_whole_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A doubled count may be beyond the most that is planned where the budget is not: 6 hosts of at most 7."""
    monkeypatch.setattr(budget, "MOST_PLANNED", 60)
    terms = terms_of("cost", "us_h100_2024", "$2M", None)
    assert max(counts_within(machine, 8, QUICK.job, terms)) == 40
    with pytest.raises(InputError, match="budget: pays for 56 NPUs or more"):
        counts_within(machine, 8, QUICK.job, terms_of("cost", "us_h100_2024", "$9M", None))


def test_a_plan_within_a_budget() -> None:
    how = {"compute": "roofline", "collectives": "simulated", "seq": 2048, "global_batch": 16, "fixed": SMALL}
    found = plan(DENSE, "h100_sxm", budget="$700k", objective="cost", top=2, **how)
    assert found.counts == (8, 16)
    assert found.best.value <= found.lines[1].value
    assert found.plain["objective"] == "cost"
    assert found.proved
    said = "\n".join(found.assumed)
    for words in ("cost: us_h100_2024", "host: h100_node_2024_08 (prices of 2024-08)", "PUE 1.25 (other_epoch)",
                  "700,000 US dollars for all that is bought", "idle power 80 W"):
        assert words in said
    assert "cost +" in found.lines[1].lost
    with pytest.raises(InputError, match=r"gpus: 32 x h100_sxm cost 1,318,240 US dollars, the budget is 700,000"):
        plan(DENSE, "h100_sxm", 32, budget="$700k", **how)


@pytest.mark.parametrize(("arguments", "said"), [
    ({"objective": "price"}, r"objective: 'price' is not known; expected one of time, cost, energy, carbon"),
    ({"budget": "6"}, r"budget: '6' is a number without a unit"), ({"budget": "$0"}, r"budget: '\$0' buys nothing"),
    ({"budget": "$1e15"}, r"budget: pays for 1,048,576 NPUs or more; expected less, or --gpus"),
    ({"power": "$5"}, r"power: .*is not a power"), ({}, r"gpus: is missing; expected --gpus N .*--budget"),
    ({"budget": "$6M", "cost": "deepseek_v3"}, r"cost.host: is missing"),
    ({"gpus": 8, "cost": {"rental": "gcp_tpu_v4_2025_03"}}, r"cost.rental: gcp_tpu_v4_2025_03 is a price of tpu_v4"),
    ({"gpus": 8, "cost": {"host": "dgx_b200_2024_12"}}, r"cost.host: dgx_b200_2024_12 is a price of b200"),
    ({"budget": "$6M", "cost": {"pue": 0.5}}, r"cost.pue: 0.5 is impossible"),
    ({"budget": "$6M", "cost": {"compute.price": 3}}, r"cost: compute.price: is no figure of cost")])
def test_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        plan(DENSE, "h100_sxm", seq=2048, global_batch=16, **arguments)


def test_a_device_without_prices_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"whole section of prices of tpu_v5p \(its parts: tpu_v5p_2025_03\)"):
        plan(DENSE, "tpu_v5p", 8, seq=2048, global_batch=16, objective="cost")
    assert math.isfinite(priced(machine(8), QUICK.job).network.npus)


def test_candidates_under_one_budget() -> None:
    """Every device that has prices and fits is planned; the answer has the best of each."""
    how = {"compute": "roofline", "collectives": "simulated", "stack": "none", "seq": 2048, "global_batch": 16}
    found = plan(DENSE, ["a100_sxm_80gb", "h200_sxm", "mi300x", "gb200"], budget="$900k", top=1,
                 fixed={**SMALL, "tp": [1], "pp": [1]}, **how)
    best = {line.device: line for line in found.candidates}
    assert set(best) == {"a100_sxm_80gb", "h200_sxm", "mi300x"}
    assert all(0 < line.figures["capital_cost"] <= 900e3 for line in best.values())
    assert [line.value for line in found.candidates] == sorted(line.value for line in found.candidates)
    assert "left out: 72 x gb200 cost 3,100,000 US dollars, the budget is 900,000 US dollars" in found.assumed
    said = "\n".join(found.assumed)
    assert "a100_sxm_80gb: an idle a100_sxm_80gb draws 45.71 W (not published: 11.4% of its limit" in said
    alone = plan(DENSE, "a100_sxm_80gb", budget="$900k", top=1, fixed={**SMALL, "tp": [1], "pp": [1]}, **how)
    assert best["a100_sxm_80gb"].value == alone.best.value
    with pytest.raises(InputError, match=r"gpus: no layout takes 8 to 16 x h200_sxm, which the budget pays for"):
        plan(DENSE, "h200_sxm", budget="$900k", fixed={"tp": [32]}, **how)


def test_a_plan_of_owned_systems_has_the_price_of_rented_ones() -> None:
    """Rented, 10^12 tokens cost the GPU-hours at each rent of the catalog; a plan with a rent has none beside it."""
    how = {"seq": 2048, "global_batch": 16, "compute": "roofline", "collectives": "simulated", "stack": "none",
           "fixed": {**SMALL, "tp": [1], "pp": [1]}, "objective": "cost", "top": 1}
    line = plan(DENSE, "h200_sxm", 8, **how).best
    hours = line.figures["npu_hours_per_tera_tokens"]
    assert line.rented["nebius_h200_2025"] == pytest.approx(3.5 * hours)
    assert line.plain["rented_per_tera_tokens"] == line.rented
    assert list(line.rented.values()) == sorted(line.rented.values())
    rented = plan(DENSE, "h200_sxm", 8, cost="nebius_h200_2025", **how).best
    assert rented.figures["cost_per_tera_tokens"] == pytest.approx(line.rented["nebius_h200_2025"])
    assert rented.rented == {}


def test_a_plan_without_prices_names_the_flags_that_show_them() -> None:
    assert price_hint(["h200_sxm"]) == \
        "prices: --cost us_h200_2025 or nebius_h200_2025 (3.50 $/h); --objective cost compares by them"
    assert price_hint(["h200_sxm", "h100_sxm"]) == "prices: --objective cost compares by them"
    assert price_hint(["tpu_v5p"]) == price_hint(["h200_sxm", "tpu_v5p"]) == ""
    how: dict[str, Any] = {"seq": 2048, "global_batch": 16, "compute": "roofline", "collectives": "simulated",
                           "stack": "none", "fixed": {**SMALL, "tp": [1], "pp": [1]}, "top": 1}
    assert list(remarks(plan(DENSE, "h200_sxm", 8, **how)))[-1] == price_hint(["h200_sxm"])
    shown = plan(DENSE, "h200_sxm", 8, cost="us_h200_2025", **how)
    assert not any(each.startswith("prices:") for each in remarks(shown))


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "gpt2-small", "--device", "h100_sxm", "--seq", "1024", "--global-batch", "16",
             "--compute", "roofline",
             "--collectives", "simulated", "--stack", "none", "--top", "2", "--fix", "tp=1", "--fix", "pp=1",
             "--fix", "cp=1", "--fix", "recompute=none", "--objective", "cost", "--budget", "$400k",
             "--cost", "us_h100_2024", "--cost", "pue=1.1"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "by cost of 10^12 tokens, least first" in said
    assert "310,000 $" in said
    (head,) = [line for line in said.splitlines() if "10^12 tokens, owned" in line]
    assert head.split("10^12 tokens, owned")[1].split()[:3] == ["interval", "10^12", "tokens,"]
    assert "PUE 1.1, 0.0771 $/kWh (us_industrial_2024)" in said
    assert main([*words, "--cost", "pue=0.5"]) == 1
    assert "is there twice" in capsys.readouterr().err
