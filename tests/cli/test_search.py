"""`astrarium search`: tables, JSON, resuming, and what is refused."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from tests.commands import Run

import astrarium as ar
from astrarium import load_design
from astrarium.cli import search as verb
from astrarium.search.searchfile import load_search
from astrarium.search.study import Progress

SPACE = """
base: design.yaml
choices:
  network.dims[0].npus: [4]
  network.dims[0].shape: [ring, switch, fully_connected]
  network.dims[0].bandwidth: {from: 25 GB/s, to: 200 GB/s, step: 25 GB/s}
  collective.chunks: [1, 2, 4]
constraints: network.npus == 4
minimize: makespan
require: network_bandwidth <= 400
agent: {agent: genetic, batch: 8}
trials: 40
"""


@pytest.fixture
def space(design: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A search file beside the design."""
    monkeypatch.chdir(tmp_path)
    path = design.with_name("space.yaml")
    path.write_text(SPACE)
    return path


def test_the_table_and_the_best_design(space: Path, run: Run) -> None:
    said = run("search", space, "--best", "best.yaml")
    assert said.code == 0, said.err
    for words in ("72 feasible designs of 72 in 4 knobs", "genetic, seed 0", "best design", "closed_form", "makespan"):
        assert words in said.out
    assert "trials are stored in space.genetic-0.study" in said.err
    assert "\r" not in said.err
    best = load_design("best.yaml")
    assert ar.simulate(best).makespan_ps > 0


def test_json_and_the_same_command_again(space: Path, run: Run) -> None:
    first = json.loads(run("search", space, "--json").out)
    assert first["trials"] == 40
    assert first["best"]["objectives"]["makespan"] > 0
    assert set(first["best"]["design"]) == {"network.dims[0].npus", "network.dims[0].shape",
                                            "network.dims[0].bandwidth", "collective.chunks"}
    again = json.loads(run("search", space, "--json").out)
    assert again["best"] == first["best"]
    assert again["trials_per_s"] == 0
    more = json.loads(run("search", space, "--json", "--trials", "60", "-j", "2").out)
    assert more["trials"] == 60
    other = run("search", space, "--seed", "1", "--study", "space.genetic-0.study")
    assert (other.code, other.out) == (1, "")
    assert "another seed" in other.err


def test_the_base_is_named_beside_the_best(space: Path, run: Run) -> None:
    said = run("search", space, "--no-study", "--agent", "grid", "--trials", "100").out
    assert re.search(r"base +\S+.* \(trial 0\); the best is [1-9.]+ times as good", said), said
    found = json.loads(run("search", space, "--json", "--no-study", "--agent", "grid", "--trials", "100").out)
    assert found["base"]["number"] == 0
    alone = json.loads(run("search", space, "--json", "--no-study", "--trials", "3", "--start", "none").out)
    assert alone["base"] is None


def test_flags_stand_above_the_file(space: Path, run: Run) -> None:
    found = json.loads(run("search", space, "--json", "--no-study", "--agent", "grid", "--trials", "100",
                           "--minimize", "makespan", "--minimize", "network_bandwidth").out)
    assert found["exhausted"]
    assert found["trials"] == found["distinct"] == 72
    assert len(found["front"]) > 1
    assert not list(Path().glob("*.study"))
    assert run("search", space, "--count").out == "72 feasible designs of 72 in 4 knobs\n"
    assert json.loads(run("search", space, "--count", "--json").out)["feasible_points"] == 72


@pytest.mark.parametrize(("arguments", "says"), [
    (["--agent", "genetics"], "did you mean 'genetic'"), (["--option", "batches=3"], "did you mean 'batch'"),
    (["--minimize", "makspan"], "did you mean 'makespan'"), (["--require", "1 > 2"], "not a condition"),
    (["--study", "x", "--no-study"], "has no effect"), (["--processes"], "has no effect"),
    (["--html", "s.html", "--no-study"], "--html: needs a study: leave out --no-study"),
    (["--best", "no/where.yaml"], "there is no folder"), (["--option", "batch"], "not an assignment"),
    (["--minimize", "makespan / (collective.chunks - 2)"], "divides by zero")])
def test_one_clear_message_before_the_first_trial(space: Path, run: Run, arguments: list[str], says: str) -> None:
    said = run("search", space, *arguments)
    assert (said.code, said.out) == (1, "")
    assert says in said.err
    assert not list(Path().glob("*.study"))


def test_messages_name_the_line(space: Path, run: Run) -> None:
    for old, new, says in [("collective.chunks", "collective.chunk", "space.yaml:7: collective.chunk:"),
                           ("network.npus == 4", "network.npus == 5", "space.yaml:8: constraints[0]: no design meets"),
                           ("trials: 40", "trials: 0", "space.yaml:12: trials:"),
                           ("minimize: makespan", "minimize: makespam", "space.yaml:9: makespam: is no figure; "
                            "expected a figure (astrarium list figure) or a path of the design; did you mean "
                            "'makespan'?"),
                           ("network_bandwidth <= 400", "peak_mem <= 400", "space.yaml:10: peak_mem: is no figure"),
                           ("constraints:", "derived:\n  collective.active_chunks: collective.chunkz\nconstraints:",
                            "space.yaml:9: collective.chunkz: "),
                           ("minimize: makespan", "minimize: [makespan, network.dims[0].latency]", "space.yaml:9: is "
                            "not YAML: did not find expected ',' or ']'; expected quotes around a path with [ ] in a "
                            "list: 'network.dims[0].latency'"),
                           ("agent: {agent: genetic", "agent: {agnt: genetic", "agent.agent: is missing"),
                           ("require:", "requires:", "did you mean 'require'")]:
        space.write_text(SPACE.replace(old, new))
        said = run("search", space)
        assert said.code == 1
        assert says in said.err, said.err


def test_nothing_feasible_is_no_crash(space: Path, run: Run) -> None:
    said = run("search", space, "--no-study", "--require", "makespan < 1", "--trials", "8")
    assert said.code == 0
    assert "no trial met every requirement" in said.out
    said = run("search", space, "--no-study", "--require", "makespan < 1", "--trials", "8", "--best", "b.yaml")
    assert said.code == 1
    assert "best           none: no trial met every requirement" in said.out
    assert "so there is no best design" in said.err


def test_the_ten_best_designs(space: Path, run: Run) -> None:
    """Ten columns, ascending, each with memory (traces name none here: no row) and cost."""
    said = run("search", space, "--minimize", "makespan")
    table = said.out[said.out.index("the 10 best designs"):].splitlines()
    cells = {line.split("  ")[1]: line.split()[1:] for line in table[2:]}
    assert len(cells["trial"]) == 10
    assert "network.dims[0].bandwidth" in cells
    assert "network cost" in cells
    assert "peak memory" not in cells
    found = json.loads(run("search", space, "--minimize", "makespan", "--json").out)["ten_best"]
    values = [each["objectives"]["makespan"] for each in found]
    assert values == sorted(values)
    assert [str(each["number"]) for each in found] == cells["trial"]
    assert all(each["network_cost"] > 0 and each["peak_memory"] is None for each in found)


def test_shapes_are_compared_by_the_sum_of_an_npu(tmp_path: Path, run: Run) -> None:
    """`bandwidth` is that of a link: 100 GB/s are 300 of a fully connected NPU of four, and 200 of one on a ring; and
    of several objectives the best trial is the best by the first."""
    (tmp_path / "base.yaml").write_text("workload: {source: collective, op: all_reduce, payload: 1 MB}\n"
                                        "network: {dims: [{shape: ring, npus: 4, bandwidth: 100 GB/s, latency: 0}]}\n")
    text = ("base: base.yaml\nchoices:\n  network.dims[0].shape: [ring, fully_connected, switch]\n"
            "  network.dims[0].bandwidth: [100 GB/s, 400 GB/s]\nminimize: [makespan, network_cost]\n")
    path = tmp_path / "space.yaml"
    path.write_text(text)
    said = run("search", path, "--no-study", "--agent", "grid").out
    assert re.search(r"best by makespan alone \(trial \d+\)", said)
    assert "best design (" not in said
    path.write_text(text.replace("[makespan, network_cost]", "makespan"))
    said = run("search", path, "--no-study", "--agent", "grid").out
    assert "best design (trial" in said
    rows = {line[:27].strip(): re.split("  +", line[27:].strip()) for line in said.splitlines() if line[:2] == "  "}
    links = {"ring": 2, "fully_connected": 3, "switch": 1}
    sums = [links[shape] * int(rate.split()[0]) for shape, rate in zip(rows["network.dims[0].shape"],
                                                                      rows["network.dims[0].bandwidth"], strict=True)]
    assert [float(cell.split()[0]) * (1000 if "TB" in cell else 1) for cell in rows["dim 0, sum per NPU"]] == sums
    assert set(rows["network.dims[0].shape"]) == set(links)


def test_memory_of_the_best_designs(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "train.yaml"
    path.write_text("""
base:
  workload: {source: transformer, model: {family: decoder, layers: 4, d_model: 256, heads: 8, ffn: 1024, vocab: 512,
             seq: 128}, global_batch: 32, micro_batch: 1, dp: 8}
  network: {dims: [{shape: switch, npus: 8, bandwidth: 20 GB/s, latency: 300 ns}]}
  compute: {model: roofline, peak: 20 TFLOP/s}
  memory: {bandwidth: 500 GB/s}
choices: {workload.tp: [1, 2, 4], workload.zero: [0, 1, 3]}
derived: {workload.dp: network.npus // workload.tp}
""")
    found = json.loads(run("search", path, "--no-study", "--agent", "grid", "--json").out)["ten_best"]
    assert len(found) == 9
    for each in found:
        design = load_search(path).space
        point = design.point_of({name: value for name, value in each["design"].items() if name != "workload.dp"})
        assert each["peak_memory"] == float(ar.simulate(design.design(point)).peak_memory or 0)
    assert len({each["peak_memory"] for each in found}) > 3


def test_two_objectives_without_an_agent(space: Path, run: Run) -> None:
    space.write_text(SPACE.replace("agent: {agent: genetic, batch: 8}\n", ""))
    said = run("search", space, "--minimize", "makespan", "--minimize", "network_bandwidth")
    assert said.code == 0, said.err
    assert "bayesian, seed 0" in said.out
    assert "space.bayesian-0.study" in said.err


def test_what_a_line_of_progress_says() -> None:
    """In units that people use (users' report, issue 35 line 14)."""
    state = Progress(20, 1000, 12.3e6, 1.0, 20, 3)
    assert verb._progress(state, "makespan", 1.0) == (
        "20 of 1,000 trials, best makespan 12.3 ms, 10 designs/s, 3 refused, 1:38 left")
    assert verb._progress(Progress(0, 5000, None, 0.0, 0), "makespan", 3.0) == (
        "0 of 5,000 trials, best makespan none yet, 0 designs/s, 0 refused, time left unknown")
    assert verb._progress(Progress(10, 5000, 1.5, 20.0, 10), "runtime_x_cost", 0.0) == (
        "10 of 5,000 trials, best runtime_x_cost 1.5, 2 s a design, 0 refused, 2:46:20 left")


def test_trials_are_no_more_than_the_designs_of_an_agent_that_repeats_none(space: Path) -> None:
    for agent, planned in ("grid", 72), ("random", 100):
        told: list[Progress] = []
        ar.search(load_search(space).space, "makespan", agent=agent, trials=100, progress=told.append)
        assert {each.planned for each in told} == {planned}
        assert told[-1].trials == planned


def test_progress_within_a_batch(space: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a batch of all trials there is progress before its end, whenever a second has passed."""
    monkeypatch.setattr(sys.modules[ar.search.__module__], "TICK", 0.0)
    told: list[Progress] = []
    found = ar.search(load_search(space).space, "makespan", agent="random", options={"batch": 40}, trials=40,
                      progress=told.append)
    assert [each.trials for each in told] == [0, 1, *range(1, 41), 40]      # the base is a batch of its own
    assert found.refused == told[-1].refused == 0
