"""Agents in programs of their own: what they are told, what they may answer, and that no answer is asked for twice."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.search.designs import small_space, tiny_space

from astrarium.errors import InputError
from astrarium.search import search
from astrarium.search.agents.command import Command
from astrarium.search.bundle import rerun, write_bundle
from astrarium.search.choice import jsonable
from astrarium.search.explain import explain
from astrarium.search.searchfile import load_search
from astrarium.search.studyfile import load_study

EXAMPLE = Path(__file__).parents[2] / "examples" / "search" / "outside_agent.py"
HEAR = """
import json, sys
log = open({log!r}, "a")
for line in sys.stdin:
    log.write(line); log.flush()
    message = json.loads(line)
    if message["type"] == "space":
        knobs, asked = message["knobs"], 0
    if message["type"] == "ask":
        {answer}
        asked += 1
"""
LAST = 'print(json.dumps({"propose": [{**BASE, "collective.chunks": [1, 4][asked % 2]}]}), flush=True)'
BASE = {axis.name: jsonable(axis.values[point]) for axis, point in zip(small_space().axes, small_space().point(0))}


def program(folder: Path, answer: str = LAST) -> tuple[Command, Path]:
    """An agent that logs what it hears and answers with `answer`."""
    log, file = folder / "heard.jsonl", folder / "agent.py"
    file.write_text(HEAR.replace("{log!r}", repr(str(log))).replace("{answer}", answer.replace("BASE", repr(BASE))))
    return Command(command=f"{sys.executable} {file}", patience=20.0), log


def heard(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_a_program_hears_knobs_results_and_reasons(tmp_path: Path) -> None:
    agent, log = program(tmp_path)
    study = search(small_space(), "makespan", require="makespan <= 1", agent=agent, trials=3)
    opening, *others = heard(log)
    assert [knob["name"] for knob in opening["knobs"]] == [axis.name for axis in small_space().axes]
    assert opening["objectives"] == [{"name": "makespan", "sense": "minimize", "measure": "makespan"}]
    trials = [each for each in others if each["type"] == "trial"]
    assert [each["trial"] for each in trials] == [0, 1, 2]
    assert not trials[0]["feasible"]
    assert trials[0]["slacks"]["makespan <= 1"] == 1 - trials[0]["objectives"]["makespan"]
    assert study.trials == 3
    assert others[-1] == {"type": "end"}


def test_no_answer_is_asked_for_twice(tmp_path: Path) -> None:
    agent, log = program(tmp_path)
    file = tmp_path / "kept.study"
    first = search(small_space(), "makespan", agent=agent, trials=3, study=file)
    log.unlink()
    second = search(small_space(), "makespan", agent=agent, trials=5, study=file)
    told = heard(log)
    assert sum(each["type"] == "ask" for each in told) == 2
    assert [each["trial"] for each in told if each["type"] == "trial"] == [0, 1, 2, 3, 4]
    assert (second.fresh, second.trials) == (2, 5)
    log.unlink()
    again = search(small_space(), "makespan", agent=agent, trials=5, study=file)
    assert again.best == second.best
    assert first.best is not None
    assert not log.exists()      # the program never started


def test_an_answer_is_kept_before_its_design_runs(tmp_path: Path) -> None:
    agent, log = program(tmp_path)
    file = tmp_path / "kept.study"

    def failing(design: Any, result: Any) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(small_space(), {"time": failing}, agent=agent, start=(), trials=2, study=file)
    assert sum(each["type"] == "ask" for each in heard(log)) == 1
    log.unlink()
    search(small_space(), {"time": lambda design, result: float(result.makespan)}, agent=agent, start=(), trials=1,
           study=file)
    assert not log.exists()


@pytest.mark.parametrize(("answer", "says"), [
    ('print("hello", flush=True)', "'hello' is no answer"),
    ('print(json.dumps({"propose": []}), flush=True)', "has 0 designs; expected 1 to 1, or stop: true"),
    ('print(json.dumps({"propose": [{"collective.chunk": 1}]}), flush=True)', "is not a knob of this space"),
    ('print(json.dumps({"propose": [{}]}), flush=True)', "is missing; expected a value"),
    ('print("[" * 100000, flush=True)', "is no answer"),
    ('print(json.dumps({"propose": [{knob["name"]: [1] for knob in knobs}]}), flush=True)', ""),
    ('print("{}\\n{}", flush=True)', "wrote more than one line for one request"),
    ("sys.exit(3)", "ended with exit code 3 before it answered"),
])
def test_a_wrong_answer_is_explained_and_then_ends_the_search(answer: str, says: str, tmp_path: Path) -> None:
    agent, log = program(tmp_path, answer)
    with pytest.raises(InputError, match="agent command") as caught:
        search(small_space(), "makespan", agent=agent, trials=2)
    assert says in str(caught.value)
    refused = [each for each in heard(log) if each["type"] == "refused"]
    assert len(refused) in ({1, 4, 5} if "more than one" in says else {0} if "exit" in says else {4, 5})


def test_an_infeasible_answer_hears_the_constraint_and_a_feasible_design(tmp_path: Path) -> None:
    space = small_space()
    agent, log = program(tmp_path, 'print(json.dumps({"propose": [{knob["name"]: knob["values"][0] for knob in knobs}]}'
                                   '), flush=True) if asked < 1 else print(json.dumps({"stop": True}), flush=True)')
    study = search(space, "makespan", agent=agent, start=(), trials=2)
    [found] = [each for each in heard(log) if each["type"] == "refused"]
    assert found["problem"].endswith("breaks the constraint 'network.npus == 64'; expected a feasible design")
    assert space.number(space.point_of(found["nearest"])) >= 0
    assert study.exhausted
    assert not study.trials


def test_a_silent_program_is_ended(tmp_path: Path) -> None:
    slow = Command(command=f"{sys.executable} -c 'import time; time.sleep(60)'", patience=0.2)
    begin = time.monotonic()
    with pytest.raises(InputError, match=r"did not answer within 0\.2 s"):
        search(small_space(), "makespan", agent=slow, trials=2)
    assert time.monotonic() - begin < 10
    with pytest.raises(InputError, match="cannot be started"):
        search(small_space(), "makespan", agent="command:/no/such/program", trials=2)
    with pytest.raises(InputError, match=r"agent\.command: is missing"):
        search(small_space(), "makespan", agent="command", trials=2)


def test_a_file_starts_no_program_and_a_bundle_none_either(tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    for agent in ("'command:touch here'", "{agent: command, command: touch here}"):
        file.write_text(f"variables: {{a: [1, 2]}}\nminimize: a\nagent: {agent}\n")
        with pytest.raises(InputError, match="outside this process, which a file may not choose"):
            load_search(file)
    agent_, log = program(tmp_path)
    search(small_space(), "makespan", agent=agent_, trials=3, study=tmp_path / "kept.study")
    write_bundle(load_study(str(tmp_path / "kept.study")), str(tmp_path / "kept.zip"))
    log.unlink()
    assert rerun(str(tmp_path / "kept.zip")).differs is None
    assert not log.exists()


def test_the_example_runs_from_the_command_line(tmp_path: Path) -> None:
    space = tmp_path / "space.yaml"
    base = EXAMPLE.parent / "design.yaml"
    space.write_text(f"base: {base}\nchoices: {{collective.chunks: [1, 2, 4, 8]}}\n")
    done = subprocess.run([sys.executable, "-m", "astrarium", "search", str(space), "--agent",
                           f"command:{sys.executable} {EXAMPLE}", "--trials", "12", "--no-study", "--json"],
                          check=True, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["trials"] == 12


def test_a_program_asks_why_two_designs_differ(tmp_path: Path) -> None:
    """The contributions are those of `explain`; a question about one design is refused."""
    other = {**BASE, "network.dims[0].bandwidth": "100 GB/s", "collective.chunks": 4}
    agent, log = program(tmp_path, f"""
        said = [{{"explain": [BASE, {other!r}]}}, {{"explain": [BASE]}}, {{"propose": [BASE]}}]
        print(json.dumps(said[min(asked, 2)]), flush=True)""")
    search(small_space(), "makespan", agent=agent, trials=2)
    [why] = [each for each in heard(log) if each["type"] == "explanation"]
    [refused] = [each for each in heard(log) if each["type"] == "refused"]
    space = small_space()
    one, two = (space.design(space.point_of(values)) for values in (BASE, other))
    found = explain(one, two)
    assert why["changes"] == [{"knobs": [knob.knob for knob in each.knobs], "contribution": each.contribution / 1e12}
                              for each in found.changes]
    assert [why["before"], why["after"]] == [found.before / 1e12, found.after / 1e12]
    assert "expected two" in refused["problem"]


def test_a_language_model_s_session(tmp_path: Path) -> None:
    """The answers of a language model as it gave them, notes, two questions and a broken constraint included."""
    recorded = Path(__file__).with_name("language_model.jsonl")
    agent, log = program(tmp_path, f"""
        said = open({str(recorded)!r}).read().splitlines()
        print(said[asked], flush=True)""")
    study = search(small_space(), "runtime_x_bandwidth", agent=agent, trials=30, study=tmp_path / "study")
    kinds = Counter(each["type"] for each in heard(log))
    assert kinds == {"space": 1, "trial": 8, "ask": 11, "explanation": 2, "refused": 1, "end": 1}
    assert (study.trials, study.exhausted, study.best and study.best.number) == (8, True, 3)
    again = search(small_space(), "runtime_x_bandwidth", agent=agent, trials=8, study=tmp_path / "study")
    assert again.fresh == 0
    assert Counter(each["type"] for each in heard(log)) == kinds      # nothing is asked again


def test_the_example_that_asks_why() -> None:
    space = tiny_space()
    options = Command(command=f"{sys.executable} {EXAMPLE.with_name('explaining_agent.py')}", patience=20.0)
    found = search(space, "makespan", agent=options, trials=30)
    assert found.trials == 30
    assert found.best is not None
    assert found.best.number > 0
