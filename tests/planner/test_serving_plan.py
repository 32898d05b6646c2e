"""The serving planner: what it finds is what enumeration finds, its ceilings hold, its files serve with its figures."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.commands import Run
from tests.report.test_pages import checked

from astrarium.config import decode, replace_all
from astrarium.cost.interval import Interval
from astrarium.cost.power import site_power
from astrarium.cost.shares import on_whole_host
from astrarium.errors import InputError
from astrarium.market import Cost
from astrarium.planner.machine import machine_of
from astrarium.planner.objective import priced
from astrarium.planner.serving import ServingPlan, plan_serving, write_serving
from astrarium.planner.serving.ceiling import Ceiling
from astrarium.planner.serving.engine import Engine, engines
from astrarium.planner.serving.goal import goal_of
from astrarium.planner.serving.machines import Machines
from astrarium.planner.serving.mix import equal, load_stream, mix_of
from astrarium.planner.serving.planning import assumptions
from astrarium.planner.serving.pools import PAIRS, pools_of
from astrarium.planner.serving.prices import price_of
from astrarium.planner.serving.routed import routed
from astrarium.planner.serving.service import Service, service_of
from astrarium.planner.terms import cost_of, terms_of
from astrarium.report.pages.serving_plan import serving_plan_page
from astrarium.report.tables.serving_plan import serving_plan_tables
from astrarium.report.tables.table import text_of
from astrarium.serving import ClosedLoop, Lognormal, Poisson, Prefix, Uniform, load_serving, serve
from astrarium.serving.find import rate_of, step_of
from astrarium.serving.interval import tpot_interval
from astrarium.serving.layout import Layout
from astrarium.serving.policy import Buckets
from astrarium.serving.prices import prices_of
from astrarium.serving.servers import fleet_of
from astrarium.serving.slo import slo_of

COMMON: Mapping[str, Any] = {"model": "llama3-8b", "device": "h100_sxm", "prompt": 600, "output": 60, "ttft": "150ms",
                             "tpot": "10ms", "compute": "roofline", "collectives": "simulated", "stack": "none"}
SPACES: Mapping[str, Mapping[str, Any]] = {
    "small": {"gpus": 1, "fixed": {"cache": ["bf16"]}},
    "formats": {"gpus": 1},
    "layouts": {"gpus": 4, "fixed": {"weights": ["bf16"], "cache": ["bf16"]}},
    "tokens": {"gpus": 1, "fixed": {"weights": ["bf16"], "max_tokens": [2048, 8192]}, "tpot": "mean=7ms"},
    "a rate": {"rate": 60.0, "fixed": {"tp": [1, 2, 4], "cache": ["fp8"]}},
    "experts": {"model": "qwen3-30b-a3b", "gpus": 2, "fixed": {"weights": ["fp8"], "cache": ["bf16"]}},
    "together": {"gpus": 1, "ttft": "good90=40ms", "tpot": "good90=8ms"},
    "energy": {"gpus": 2, "objective": "energy", "fixed": {"weights": ["bf16"], "cache": ["bf16"]}},
    "lengths": {"gpus": 2, "prompt": None, "output": None, "fixed": {"weights": ["bf16"]}, "requests": Poisson(
        rate=1, count=1, seed=1, prompt=Lognormal(mean=600, cv=0.8, high=4096), output=Uniform(low=20, high=100),
        prefix=Prefix(tokens=100))},
    "devices": {"device": ["h100_sxm", "a100_sxm_80gb"], "gpus": 2, "fixed": {"weights": ["bf16"], "cache": ["bf16"]}},
}


def planned(name: str, **more: Any) -> ServingPlan:
    """The plan of a space."""
    return plan_serving(**{**COMMON, **SPACES[name], **more})


def most(service: Service, trial: Any) -> float:
    """The highest rate of the grid that an engine holds, by bisection from far away."""
    each = trial.candidate
    low, high = step_of(0.01), step_of(10_000.0)
    while high - low > 1:
        middle = (low + high) // 2
        served = service.serve(each.design, each.policy, rate_of(middle), each.known)
        low, high = (middle, high) if service.slo.worst(served)[0] <= 1 else (low, middle)
    return rate_of(low)


@pytest.fixture(scope="module")
def one() -> ServingPlan:
    """The best engine of a small space."""
    return planned("small", top=1)


CHEAP = "small"


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.exam] * (name != CHEAP)) for name in SPACES])
def test_the_plan_is_that_of_enumeration(name: str, one: ServingPlan) -> None:
    every, few = planned(name, top=100), one if name == CHEAP else planned(name, top=1)
    assert not [each for each in every.lost if each.kind in ("ceiling", "probe", "unknown")], "nothing is left out"
    assert every.simulated > few.simulated
    orders = [line.trial.key for line in every.lines]
    assert len(orders) > 1
    assert orders == sorted(orders)
    assert few.best.trial.key == orders[0]
    assert all(line.trial.rate <= line.trial.candidate.rate for line in every.lines), "ceilings are above"


@pytest.mark.exam
@pytest.mark.parametrize("name", SPACES)
def test_rates_are_those_of_bisection(name: str) -> None:
    found = planned(name)
    assert [line.trial.rate for line in found.lines] == [most(found.service, line.trial) for line in found.lines]


@pytest.mark.exam
def test_a_fleet_for_a_rate_has_the_fewest_gpus() -> None:
    found = planned("a rate", top=3)
    for line in found.lines:
        assert line.engines * line.trial.rate >= 60 > (line.engines - 1) * line.trial.rate
        assert line.load == pytest.approx(60 / line.engines)
    assert found.best.npus == min(line.npus for line in found.lines)


def test_serve_has_the_figures_of_a_line(tmp_path: Path, one: ServingPlan) -> None:
    found = one
    design = write_serving(found.best, found.service, str(tmp_path / "best.yaml"))
    serving = load_serving(tmp_path / "best.yaml")
    assert serving.design == design
    served = serve(design, serving.requests, serving.policy)
    for limit in found.service.slo.limits:
        assert limit.of(served) == limit.of(found.best.served)
        assert limit.of(served) <= limit.most


def test_the_command(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("plan gpt2-small --for serving --device h100_sxm --gpus 1 --prompt 20 --output 2 --ttft 1ms --tpot 1ms "
             "--compute roofline --collectives simulated --stack none --fix weights=fp8 --fix cache=fp8 -o best.yaml")
    said = run(*words.split(), "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["lines"][0]["engine"]["weights"] == "fp8"
    assert (tmp_path / "best.design.yaml").exists()
    assert run("plan", "llama3-8b", "--device", "h100_sxm", "--gpus", "1", "--ttft", "1s").code == 1, "of serving"
    assert run(*words.split(), "--seq", "512").code == 1, "of training"
    assert "--objective cost" in run(*words.split(), "--budget", "$6M").err


@pytest.mark.parametrize(("changes", "part"), [
    ({"ttft": ""}, "ttft"), ({"tpot": "p95=3ms"}, "p95"), ({"prompt": None}, "prompt"), ({"gpus": None}, "gpus"),
    ({"rate": 3.0}, "rate"), ({"fixed": {"tq": [1]}}, "tp"), ({"lift": ["hosts"]}, "host"),
    ({"stack": "nemo"}, "does not serve.*vllm, vllm-sync, sglang, trt-llm"), ({"stack": "vlm"}, "did you mean 'vllm'"),
    ({"fixed": {"weights": ["fp7"]}}, "fix weights: .*did you mean 'fp8'"), ({"gpus": None, "rate": 1e9}, "less than"),
    ({"gpus": None, "rate": 1e-9}, "rate: 1e-09; expected 0.001 or more"),
    ({"model": "llama3-70b", "gpus": 4, "fixed": {"weights": ["bf16"], "cache": ["bf16"]}}, "tp 1.*tp 4"),
    ({"requests": Poisson(rate=1, count=1, seed=1, prompt=6, output=6)}, "own"),
    ({"tpot": "1ms"}, "TPOT"), ({"model": "bert-base"}, "model")])
def test_what_is_refused(changes: Mapping[str, Any], part: str) -> None:
    with pytest.raises(InputError, match=part):
        planned("formats", **changes)


def test_devices_of_different_models_are_undecided(one: ServingPlan) -> None:
    words = Machines(("h100_sxm", "h200_sxm", "mi300x"), 1, None, None, None, None).models
    assert [each.rpartition("(")[2] for each in words] == ["h100_sxm, h200_sxm)", "mi300x)"]
    assert len(Machines(("h100_sxm", "h200_sxm"), 1, None, None, None, None).models) == 1
    for models, said in ((words, True), (one.models, False)):
        titles = [table.title for table in serving_plan_tables(replace(one, models=models))]
        assert any("undecided between devices" in title for title in titles) == said


def test_long_times_have_their_unit(one: ServingPlan) -> None:
    assert replace(one.best.trial.candidate.ceiling, first=5.54e11).why == "TTFT: 554 s without any load"


def test_requests_longer_than_the_model_are_noted(one: ServingPlan) -> None:
    assert not any("max_model_len" in each for each in one.assumed)
    longer = replace(one.service, mix=equal(8192, 1, one.service.slo.limits[1]))
    assert any("max_model_len" in each for each in assumptions(longer))


def test_pipelines_are_left_out_unless_fixed() -> None:
    from astrarium.workload.inference.config import Inference

    model = Inference("llama3-8b", phase="decode", context=1).model
    usual = engines(model, "h100_sxm", 4, 8, 2048, {}, ())
    assert {each.layout.pp for each in usual} == {1}
    assert {each.layout.pp for each in engines(model, "h100_sxm", 4, 8, 2048, {"pp": [2]}, ())} == {2}


@pytest.mark.exam
def test_pools_are_served_if_their_rule_is_lifted(tmp_path: Path) -> None:
    found = planned("formats", gpus=4, fixed={"weights": ["fp8"], "cache": ["fp8"], "tp": [1, 2]}, lift=["apart"])
    pools = [line for line in found.lines if line.trial.candidate.engine.prefill]
    assert pools
    assert all(line.trial.rate <= line.trial.candidate.rate for line in found.lines)
    assert all(line.trial.candidate.engine.npus <= 4 for line in pools)
    design = write_serving(pools[0], found.service, str(tmp_path / "pools.yaml"))
    serving = load_serving(tmp_path / "pools.yaml")
    served = serve(design, serving.requests, serving.policy)
    assert all(limit.of(served) == limit.of(pools[0].served) for limit in found.service.slo.limits)
    assert not [line for line in planned("formats").lines if line.trial.candidate.engine.prefill]


def test_numbers_of_pools(one: ServingPlan) -> None:
    each = one.best.trial.candidate
    ceiling = each.ceiling
    assert isinstance(ceiling, Ceiling)
    wide = replace(each.engine, layout=Layout(2))
    found = list(pools_of([(each.engine, ceiling), (wide, ceiling)], 16, 8))
    assert 0 < len(found) <= PAIRS
    for engine, both in found:
        first, second = both.workers
        ahead = first * engine.prefill[0].npus
        assert engine.npus == ahead + second * engine.layout.npus
        assert engine.npus <= 8 or engine.npus == 16
        assert ahead % engine.layout.npus == 0
        assert both.rate == min(first * ceiling.prompts, second * ceiling.decodes)
        assert both.guess() < both.rate
    assert not list(pools_of([(each.engine, ceiling)], 1, 8))


def test_an_engine_costs_the_same_in_a_plan_and_served(one: ServingPlan) -> None:
    """`serve` of an engine's file charged its whole host."""
    line = one.best
    powers = {"compute.power": "700 W", "compute.idle_power": "80 W"}
    design = replace(replace_all(line.trial.candidate.design, powers), cost=decode(Cost, {"like": "us_h100_2024"}))
    served = prices_of([design], line.served)
    whole, share = on_whole_host(design)
    assert (whole.network.npus, share) == (8, 1 / 8)
    assert set(line.money) == {f"{name}_per_mega_tokens" for name in ("cost", "energy", "carbon")}
    for name in ("cost", "energy", "carbon"):
        assert line.money[f"{name}_per_mega_tokens"] == pytest.approx(served.amounts[name]["per_mega_tokens"], rel=1e-9)
    assert any("the share of 1 of the 8 NPUs of a h100_node" in text for text in served.assumed)
    assert any(text.startswith("an engine pays for its share of a host") for text in one.assumed)


def test_the_answer_begins_with_the_gpus_to_take() -> None:
    found = planned("a rate", rate=150.0, top=1, fixed={"tp": [1], "cache": ["fp8"], "weights": ["fp8"]})
    line = text_of(next(iter(serving_plan_tables(found)))).splitlines()[2]
    assert line.startswith(f"take {found.best.npus} x h100_sxm: {found.best.engines} engines of tp 1, fp8, cache fp8")
    assert found.routed is not None
    few = found.goal.engines(1, found.routed.fewest / found.routed.engines)
    assert ("; " in line) is (few < found.best.npus)


def test_gpus_may_count_by_their_power(one: ServingPlan) -> None:
    """Of a whole site, while all of them compute: design/0026."""
    cost = {"like": "us_h100_2024"}
    machine = machine_of("h100_sxm", 8, cost=cost_of(terms_of("energy", cost, None, None), "h100_sxm", []),
                         powers={"power": "700 W", "idle_power": "80 W"})
    price = price_of(machine, one.service, "energy")
    assert price.hour("energy") == pytest.approx(site_power(priced(machine, one.service)).peak / 8 / 1000)
    assert price.hour("carbon") == pytest.approx(price.hour("energy") * 0.429, rel=1e-3)
    with pytest.raises(InputError, match="rented"):
        price_of(replace(machine, cost=replace(machine.cost, host=None, rental="aws_h100_2025_03")), one.service,
                 "energy")


def test_lengths_of_a_stream(tmp_path: Path) -> None:
    ttft, tpot = slo_of("ttft_p99=1s,tpot_p90=10ms").limits
    alike = mix_of(Poisson(rate=1, count=1, seed=1, prompt=600, output=60), ttft, tpot)
    assert replace(alike, varies=False, share=0.9) == equal(600, 60, tpot)
    assert alike.share == pytest.approx(0.9, abs=1e-4)
    (tmp_path / "s.yaml").write_text("requests: {kind: poisson, rate: 1, count: 1, seed: 1, prefix: {tokens: 50}, "
                                     "prompt: {kind: uniform, low: 1, high: 999}, output: 60}")
    mix = mix_of(load_stream(tmp_path / "s.yaml"), ttft, tpot)
    assert mix.prompt == pytest.approx(500, rel=0.02)
    assert mix.context - mix.prompt == 50
    assert 950 < mix.first < 999
    assert mix.slack == pytest.approx(3 * 500 / math.sqrt(3) / 550 / math.sqrt(200), rel=0.02)
    with pytest.raises(InputError, match="no rate"):
        mix_of(ClosedLoop(concurrency=1, count=1, prompt=1, output=1), ttft, tpot)


def test_goals() -> None:
    eight, rated = goal_of(8, None), goal_of(None, 10.0)
    assert eight.order("", 4, 3.0)[0] == -6 / 8
    assert eight.needed("", 4, -6 / 8) == 3.0
    assert rated.order("", 4, 3.0)[0] == 16
    assert rated.needed("", 4, 16) == 2.5
    assert rated.needed("", 32, 16) == float("inf")


def test_a_router_that_knows_the_queues_serves_more(one: ServingPlan) -> None:
    found = routed(one.service, one.best.trial, 2)
    assert found is not None
    assert found.at_random == 2 * one.best.trial.rate < found.fewest
    assert one.routed is None, "one engine has nothing to choose from"


def test_the_page_and_the_tables(one: ServingPlan) -> None:
    found = checked(serving_plan_page(one))
    assert found.open == []
    shown = serving_plan_page(one)
    assert f"{one.best.load * one.best.engines:,.4g}" in shown
    printed = [table for table in serving_plan_tables(one) if table.title.startswith("loads")]
    users, npus = zip(*((float(row[0].replace(",", "")), float(row[1].replace(",", ""))) for row in printed[0].rows),
                      strict=True)
    assert list(users) == sorted(users)
    assert list(npus) == sorted(npus, reverse=True), "of the front, faster users cost tokens"
    assert len(users) > 3


@pytest.mark.parametrize(("stack", "device", "words"), [
    ("vllm", "h100_sxm", "13 cells of model and system, of one weight)"),
    ("sglang", "h100_sxm", "of all serving stacks"), ("vllm", "a100_sxm_80gb", "no measured serving row"),
    ("sglang", "mi300x", "not both measured"), (None, "h100_sxm", "no software stack")])
def test_intervals_of_stacks(stack: str | None, device: str, words: str) -> None:
    def of(npus: int, engine: Engine, model: str = "llama3-70b" if stack == "vllm" else "llama3-8b") -> Interval:
        machine = machine_of(device, npus, stack=stack, compute="roofline" if device == "mi300x" else None)
        service = service_of(model, 600, 60, slo_of("ttft_p99=1s,tpot_p99=1s"), stack)
        return tpot_interval(service.design(machine, engine))

    found, known = of(1, Engine(Layout(1), "bf16", "bf16")), "cells" in words or "stacks" in words
    assert words in found.words
    assert (found.known, found.validated) == (known, known)
    assert not of(2, Engine(Layout(1), "bf16", "bf16", prefill=(Layout(1),))).known
    other = of(1, Engine(Layout(1), "bf16", "bf16"), "gemma-7b")
    assert (other.known, other.validated) == (known, False)
    assert other.words.startswith("unvalidated")


def test_sequences_of_a_ceiling_fit_the_cache(one: ServingPlan) -> None:
    each = one.best.trial.candidate
    server = fleet_of(each.design, each.policy, Buckets(), each.known).servers[0]
    assert server.scheduler.cache.total > 0
    assert isinstance(each.ceiling, Ceiling)
    assert each.ceiling.most * server.scheduler.cache.of(600) <= server.scheduler.cache.total


@pytest.mark.exam
def test_devices_without_measured_kernels_have_no_stack(one: ServingPlan) -> None:
    found = planned("formats", device="mi300x", compute=None, collectives=None, stack=None, top=1,
                    fixed={"tp": [1], "weights": ["bf16"], "cache": ["bf16"]})
    assert found.service.stack is None
    assert any(text.startswith("stack: none") for text in found.assumed)
    assert found.best.tie is None
    assert one.best.span is None
    assert not one.best.within.known


@pytest.mark.exam
def test_a_rate_near_nothing() -> None:
    found = planned("formats", tpot="p99=3.2ms", fixed={"tp": [1], "weights": ["fp8"], "cache": ["fp8"]}, top=1)
    assert 0 < found.best.trial.rate < 0.1 * found.best.trial.candidate.rate
