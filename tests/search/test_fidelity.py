"""Several fidelities: the best designs of a search in a cheaper network model start the search in the dear one."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.commands import Run
from tests.search.designs import tiny_space

import astrarium as ar
from astrarium.errors import InputError
from astrarium.search import Space, search
from astrarium.search.bundle import rerun, write_bundle
from astrarium.search.evaluate import Evaluator
from astrarium.search.fidelity import LOOKS, Correlation, correlation, on_model, saved
from astrarium.search.goal import goal_of
from astrarium.search.studyfile import load_study

JOBS = ar.load_design("examples/jobs/two_jobs.yaml")


def rings() -> Space:
    """An all_to_all of eight NPUs, 36 designs; `contention` is the dear model."""
    base = ar.Design(
        workload=ar.SingleCollective(op="all_to_all", payload="64 kB"),
        network=ar.Network([ar.Ring(4, bandwidth="50 GB/s", latency="500 ns"),
                            ar.Switch(2, bandwidth="50 GB/s", latency="500 ns")], backend="contention",
                           switching="cut_through"),
        collective=ar.Collective(all_to_all=["direct", "direct"], chunks=4))
    return Space(base, {
        "network.dims[*].bandwidth": ["10 GB/s", "50 GB/s", "100 GB/s"], "collective.chunks": [1, 4],
        "network.switching": ["store_and_forward", "cut_through"]})


def test_the_dear_model_decides_and_a_study_goes_on(tmp_path: Path) -> None:
    """Starts are the base, the ten best of the cheaper study and the random designs; all values are the dear model's; a
    study in two parts has the same rows, and the same bundle."""
    space, goal, file = rings(), goal_of("runtime_x_bandwidth"), tmp_path / "whole.study"
    whole = search(space, "runtime_x_bandwidth", agent="random", trials=18, fidelity="closed_form", study=file)
    trials = list(load_study(file).trials())
    dear, cheap = Evaluator(space, goal), Evaluator(on_model(space, "closed_form"), goal)
    assert [each.verdict.values for each in trials] == [each.values for each in dear.all([one.point for one in trials])]
    assert whole.best is not None
    assert whole.best.verdict.values == min(each.verdict.values for each in trials if each.verdict.values)
    below = load_study(tmp_path / "whole.closed_form.study")
    best = sorted({each.verdict.values for each in below.trials() if each.verdict.values})
    assert {cheap(each.point).values for each in trials[:11]} >= set(best[:4])
    assert {space.values(each.point)["network.switching"] for each in trials[:10]} == {"cut_through"}
    [note] = whole.notes
    assert note.startswith("closed_form does not read network.switching: its designs have the base's values")
    part = tmp_path / "part.study"
    search(space, "runtime_x_bandwidth", agent="random", trials=7, fidelity=["closed_form"], study=part)
    again = search(space, "runtime_x_bandwidth", agent="random", trials=18, study=part,
                   fidelity=["closed_form", "contention"])
    assert [(each.point, each.verdict.values) for each in load_study(part).trials()] == [
        (each.point, each.verdict.values) for each in trials]
    assert again.fidelity == whole.fidelity == saved(str(part))
    [found] = whole.fidelity
    assert found.verdict == "high"
    assert len(found.promoted) == 10
    random = load_study(tmp_path / "whole.drawn.study")
    for pairs, points in ((found.drawn, random), (found.promoted, load_study(file))):
        both = {(one.values, other.values) for one, other in zip(*(
            judge.all([each.point for each in points.trials()]) for judge in (cheap, dear)))}
        assert {((one,), (other,)) for one, other in pairs} <= both
    with pytest.raises(InputError, match="holds a study with another fidelity"):
        search(space, "runtime_x_bandwidth", agent="random", trials=18, study=part)
    write_bundle(load_study(file), str(tmp_path / "whole.zip"))
    assert rerun(str(tmp_path / "whole.zip")).differs is None


def hashed() -> Space:
    """Ways of a Clos of 64 NPUs are hashed: 48 designs, whose order closed_form does not see."""
    base = ar.load_design("examples/ladder/clos.yaml")
    return Space(ar.replace_all(base, {"network.backend": "contention", "workload.micro_batch": 1}), {
        "network.ecmp": list(range(12)), "collective.chunks": [1, 4], "collective.scheduling": ["lifo", "fifo"]})


def test_a_model_that_does_not_rank_alike_costs_nothing(tmp_path: Path) -> None:
    """No search in the cheaper model, and the first designs of the search in the dear model alone."""
    search(hashed(), "makespan", trials=17, study=tmp_path / "alone.study")
    found = search(hashed(), "makespan", trials=17, fidelity="closed_form", study=tmp_path / "two.study")
    [said] = found.fidelity
    assert said.verdict in ("low", "undecided")
    assert len(said.drawn) in LOOKS
    assert said.promoted == ()
    assert not (tmp_path / "two.closed_form.study").exists()
    one, two = ([each.point for each in load_study(tmp_path / f"{name}.study").trials()] for name in ("alone", "two"))
    assert one == two
    assert [f"closed_form {why} contention" in note for note in found.notes
            for why in ("is not known to rank designs as", "ranks designs unlike")].count(True) == 1
    assert saved(str(tmp_path / "two.study")) == found.fidelity


def test_a_chain_of_models_without_files() -> None:
    space = Space(ar.replace(rings().base, "network.backend", "packets"), rings().choices)
    found = search(space, "runtime_x_bandwidth", agent="random", trials=8, fidelity=["closed_form", "contention"])
    assert [(each.model, each.dear) for each in found.fidelity] == [("closed_form", "contention"),
                                                                    ("contention", "packets")]
    assert found.trials == 8


@pytest.mark.parametrize(("space", "minimize", "fidelity", "says"), [
    (rings(), "makespan", "closd_form", "there is no network model 'closd_form'"),
    (rings(), "makespan", ["fluid"], "fluid is not cheaper than contention"),
    (rings(), "makespan", ["closed_form", "closed_form"], "closed_form is not cheaper than closed_form"),
    (Space(rings().base, {"network.backend": ["fluid", "packets"]}), "makespan", "closed_form", "is a knob"),
    (Space(rings().base, {"network.switching": ["cut_through", "store_and_forward"]}), "makespan", "closed_form",
     "closed_form sees none of the knobs: it does not read network.switching"),
    (Space(JOBS, {"workload.jobs[*].placement": ["packed", "spread"]}), "slowdown", "closed_form",
     "closed_form does not see links that jobs share"),
    (Space(ar.replace(JOBS, "network.dims", [ar.Switch(64, bandwidth="50 GB/s", latency="1 us")]),
           {"collective.chunks": [1, 2, 4]}), "slowdown", "closed_form", "gives 3 random designs the same slowdown")])
def test_a_model_that_cannot_see_is_refused(space: Space, minimize: str, fidelity: Any, says: str) -> None:
    if minimize == "slowdown":
        space = Space(ar.replace_all(space.base, {"collective.all_reduce": ["ring"]}), space.choices)
    with pytest.raises(InputError, match=says):
        search(space, minimize, agent="random", trials=4, fidelity=fidelity)


def test_no_cheaper_model_is_a_search_as_before() -> None:
    plain = search(tiny_space(), "makespan", agent="random", trials=6)
    assert plain.best is not None
    for fidelity in ((), "closed_form", ["closed_form"]):      # the base's own
        same = search(tiny_space(), "makespan", agent="random", trials=6, fidelity=fidelity)
        assert same.best is not None
        assert (same.best.point, same.plan.described()) == (plain.best.point, plain.plan.described())


def test_rank_correlation() -> None:
    """A textbook's pair with a tie; and the interval covers the correlation of normal variables in 95 of 100 draws."""
    found = correlation([1, 2, 3, 4, 5], [5, 6, 7, 8, 7])
    assert found is not None
    assert found[0] == pytest.approx(0.8207826816681233)      # scipy.stats.spearmanr's example
    assert correlation([1, 2, 3, 4], [1, 2, 3, 4]) is correlation([1] * 9, list(range(9))) is None
    rng, covered = np.random.default_rng(1), 0
    for _ in range(200):
        one, other = rng.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], 20).T
        _, low, high = correlation(one.tolist(), other.tolist()) or (0.0, 1.0, 1.0)
        covered += low <= 6 / math.pi * math.asin(0.35) <= high
    assert 180 <= covered <= 199


def test_a_verdict_has_an_interval() -> None:
    """Eight designs decide if they rank alike; few, or a spread, do not."""
    alike = [(float(each), float(each)) for each in range(16)]
    swapped = [(one, float(int(one) ^ 7)) for one, _ in alike]
    assert Correlation("closed_form", "packets", tuple(alike[:8])).verdict == "high"
    assert Correlation("closed_form", "packets", tuple(alike[:6])).verdict == "undecided"
    assert Correlation("closed_form", "packets", tuple(alike[:4])).interval is None
    assert Correlation("closed_form", "packets", tuple(swapped[:8])).verdict == "low"
    assert Correlation("closed_form", "packets", tuple(swapped)).verdict == "undecided"


def test_file_and_command(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of the file and the flag; the figures of `search --json` are those of `report --json`."""
    monkeypatch.chdir(tmp_path)
    Path("d.yaml").write_text("workload: {source: collective, op: all_reduce, payload: 1 MB}\n"
                              "network: {backend: contention, dims: [{shape: ring, npus: 8, bandwidth: 50 GB/s, "
                              "latency: 1 us}]}\n", encoding="utf-8")
    text = ("base: d.yaml\nchoices:\n  collective.chunks: [1, 2, 4, 8]\n"
            "  network.dims[0].bandwidth: [10 GB/s, 50 GB/s]\n")
    Path("flag.yaml").write_text(text, encoding="utf-8")
    Path("key.yaml").write_text(text + "fidelity: [closed_form, contention]\n", encoding="utf-8")
    key = json.loads(run("search", "key.yaml", "--trials", "8", "--json").out)
    flag = json.loads(run("search", "flag.yaml", "--trials", "8", "--json", "--fidelity", "closed_form").out)
    assert key["fidelity"] == flag["fidelity"]
    assert key["fidelity"][0]["spearman"] > 0.9
    report = json.loads(run("report", "key.bayesian-0.study", "--json").out)
    assert report["fidelity"] == [{"study": "key.bayesian-0.study", **key["fidelity"][0]}]
    assert "closed_form: rank correlation" in run("report", "key.bayesian-0.study").out
    run("report", "key.bayesian-0.study", "--html", "page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    assert "closed_form against contention: rank correlation" in page
    assert "makespan (closed_form)" in page
