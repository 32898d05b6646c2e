"""Searches of serving designs: against enumeration with `serve`, and their files."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from tests.commands import Run

import astrarium as ar
from astrarium.config import replace_all
from astrarium.errors import InputError
from astrarium.search.evaluate import Evaluator, Judge
from astrarium.search.goal import goal_of
from astrarium.search.searchfile import load_search
from astrarium.search.subject import load_base
from astrarium.serving import most_requests, serve, slo_of
from astrarium.serving.deployment import Deployment
from astrarium.serving.design import ServingDesign
from astrarium.serving.members import Member

DESIGN = """
workload: {source: inference, model: gpt2-small, phase: decode, context: 1, dp: 2, batch: 2}
network: {dims: [{shape: switch, npus: 2, bandwidth: 450 GB/s, latency: 500 ns}]}
compute: {model: roofline, peak: 989.4 TFLOP/s}
memory: {capacity: 80 GB, bandwidth: 3.35 TB/s}
"""
SERVING = """
design: design.yaml
requests: {kind: poisson, rate: 4000, count: 60, seed: 1, prompt: 60, output: 12}
policy: {max_tokens: 2048}
objective: {ttft: 1 ms, tpot: 200 us}
"""
SPACE = """
base: serving.yaml
choices:
  workload.tp: [1, 2]
  workload.dp: [1, 2]
  policy.max_tokens: [64, 2048]
minimize: tpot_p99
maximize: goodput
require: [ttft_p99 < 300us]
agent: grid
"""
ALONE = """
base: serving.yaml
choices: {policy.max_tokens: [64]}
maximize: tokens_per_second
"""
SIZES = [(tp, 2 // tp, tokens) for tp, tokens in itertools.product((1, 2), (64, 2048))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a space."""
    path = tmp_path_factory.mktemp("space")
    for name, text in (("design", DESIGN), ("serving", SERVING), ("space", SPACE), ("alone", ALONE)):
        (path / f"{name}.yaml").write_text(text)
    return path


def measured(base: ServingDesign, changes: dict[str, object]) -> dict[str, float]:
    """The figures of `serve`, in ns and per second."""
    design = replace_all(base, changes)
    found = serve(design, design.requests, design.policy).summary(design.objective)
    return {"tpot_p99": found["tpot_p99_ns"], "ttft_p99": found["ttft_p99_ns"],
            "goodput": found["goodput_per_s"]}


def test_a_search_finds_the_front_of_enumeration(folder: Path) -> None:
    file = load_search(folder / "space.yaml")
    base = file.space.base
    assert isinstance(base, ServingDesign)
    assert file.space.count == len(SIZES), "the ranks are those of the network"
    study = ar.search(file.space, file.minimize, maximize=file.maximize, require=file.require, agent="grid",
                      trials=len(SIZES))
    every = {size: measured(base, dict(zip(file.space.paths, size, strict=True))) for size in SIZES}
    kept = {size: (one["tpot_p99"], -one["goodput"]) for size, one in every.items() if one["ttft_p99"] < 3e5}
    assert 1 < len(kept) < len(SIZES), "some meet the requirement"
    front = {size for size, value in kept.items() if not any(
        other != value and other[0] <= value[0] and other[1] <= value[1] for other in kept.values())}
    found = {tuple(study.values(trial).values()): study.objectives(trial) for trial in study.front}
    assert set(found) == front
    for size, values in found.items():
        assert values == {"tpot_p99": pytest.approx(every[size]["tpot_p99"], rel=1e-12),
                          "goodput": every[size]["goodput"]}


def test_the_best_design_is_a_serving_file(folder: Path, run: Run, tmp_path: Path) -> None:
    """A study goes on, and `serve` has the figures of its best design."""
    words = ("search", str(folder / "alone.yaml"), "--trials", "1", "--study", str(tmp_path / "one.study"), "--json")
    first = run(*words)
    again = run(*words, "--best", str(tmp_path / "best.yaml"))
    assert (first.code, again.code) == (0, 0), again.err
    assert json.loads(again.out)["best"] == json.loads(first.out)["best"]
    served = json.loads(run("serve", str(tmp_path / "best.yaml"), "--json").out)
    assert json.loads(again.out)["best"]["objectives"] == {"tokens_per_second": served["output_tokens_per_s"]}
    assert load_base(tmp_path / "best.yaml") == replace_all(
        load_base(folder / "serving.yaml"), json.loads(again.out)["best"]["design"])


def test_a_saturated_design_has_no_latency(folder: Path) -> None:
    space = ar.Space(load_base(folder / "serving.yaml"), {"requests.rate": [50_000.0], "policy.max_batch": [1]})
    latency, rate = (Evaluator(space, goal_of(name))((0, 0)) for name in ("ttft_p99", "requests_per_second"))
    assert "saturated" in latency.problem
    assert rate.values is not None
    assert rate.values[0] < 50_000


@pytest.mark.parametrize(("goal", "said"), [
    ("ttft_p95", "ttft_p9"), ("makespan", "ttft_p99"), ("runtime_x_cost", "makespan"),
    ("cost_per_mega_tokens", "hourly_price"), ("goodput", "objective"), ("tpot_p99 + 2sec", "with a unit")])
def test_what_is_refused(folder: Path, goal: str, said: str) -> None:
    base = ar.replace(load_base(folder / "serving.yaml"), "objective", {})
    with pytest.raises(InputError, match=said):
        Evaluator(ar.Space(base, {"policy.max_tokens": [64]}), goal_of(goal))


def test_the_cheapest_design_within_a_limit_is_proved(folder: Path) -> None:
    """Prices are bounded, latencies are not."""
    space = ar.Space(load_base(folder / "serving.yaml"), {"network.dims[0].bandwidth": ["450 GB/s", "50 GB/s"],
                                                          "policy.max_batch": [1, 256]})
    study = ar.search(space, "network_cost", require="ttft_p99 < 300us", agent="exact")
    assert study.proof is not None
    assert study.proof.complete
    assert list(map(str, study.values().values())) == ["50 GB/s", "256"]
    with pytest.raises(InputError, match="tpot_p99"):
        ar.search(space, "tpot_p99", agent="exact")


def test_the_highest_rate_within_the_objective(folder: Path) -> None:
    """As `serve --find rate` has it."""
    base = load_base(folder / "serving.yaml")
    assert isinstance(base, ServingDesign)
    space = ar.Space(base, {"policy.max_tokens": [2048]})
    slo = slo_of("ttft_p99=1ms,tpot_p99=200us")
    alone = Deployment((base,), (Member(design="", policy=base.policy),), base.buckets, ({},))
    found = most_requests(alone, base.requests, slo).best
    assert found is not None
    assert Evaluator(space, goal_of((), "rate_p99"))((0,)).values == (found.rate,)


@pytest.mark.parametrize(("text", "value"), [("30ms", 30e6), ("1.5e1us", 15e3), ("2e+3", 2e3), ("80GiB", 80 * 2**30)])
def test_numbers_may_have_a_unit(folder: Path, text: str, value: float) -> None:
    space = ar.Space(load_base(folder / "serving.yaml"), {"policy.max_tokens": [64]})
    judge = Judge(space, goal_of("tpot_p99", require=f"ttft_p99 < {text}"))
    assert str(value) in repr(judge.requirements[0])
