"""`astrarium search`: tables, JSON, resuming, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import astrarium as ar
from astrarium import load_design

from .conftest import Run

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
    assert "trials are kept in space.genetic-0.study" in said.err
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
    (["--study", "x", "--no-study"], "would do nothing"), (["--processes"], "would do nothing"),
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
    assert (said.code, said.out) == (1, "")
