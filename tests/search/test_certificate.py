"""Certificates: a checker that shares no code with the search says what they prove, and finds what is wrong."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.loading import tool
from tests.search.designs import few_trainings, tiny_space

import astrarium as ar
from astrarium.errors import InputError
from astrarium.search import search
from astrarium.search.certificate import write_certificate
from astrarium.search.choice import jsonable
from astrarium.search.evaluate import Evaluator
from astrarium.search.goal import goal_of
from astrarium.search.searchfile import load_space
from astrarium.search.space import space_plain
from astrarium.search.studyfile import load_study


def check(path: Path, *more: str) -> tuple[int, str]:
    """Exit code and everything that the checker prints."""
    checker = tool("check_optimum")
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as said:
        patch.setattr(sys, "argv", ["check_optimum.py", str(path), *more])
        try:
            code = checker.main()
        except SystemExit as wrong:
            return 1, f"{said.getvalue()}{wrong}"
    return code, said.getvalue()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That of an optimum."""
    folder = tmp_path_factory.mktemp("certificate")
    study = search(tiny_space(), "runtime_x_bandwidth", agent="exact", options={"warm": 32}, trials=10**6,
                   study=folder / "s")
    assert study.proof is not None
    assert study.proof.gap == 0
    write_certificate(load_study(folder / "s"), str(folder / "c.json"))
    write_certificate(load_study(folder / "s"), str(folder / "c.json.gz"))
    return folder / "c.json"


def test_values_that_are_not_known_have_no_certificate(tmp_path: Path) -> None:
    search(tiny_space(), "makespan", agent="random", trials=80, cap=1.0, study=tmp_path / "s")
    with pytest.raises(InputError, match=r"has no certificate: trial \d+ was beyond the cap"):
        write_certificate(load_study(tmp_path / "s"), str(tmp_path / "c"))


def test_an_optimum_is_confirmed(root: Path, certificate: Path) -> None:
    source = str(Path(ar.__file__).resolve().parents[1])
    done = subprocess.run([sys.executable, str(root / "tools" / "check_optimum.py"), str(certificate)], text=True,
                          capture_output=True, check=False, env={"PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1"})
    said = done.stdout
    assert done.returncode == 0, done.stderr
    assert f"{tiny_space().count:,} feasible designs" in said
    assert "optimal: no design of the space is better" in said
    assert check(certificate.with_name("c.json.gz"), "--simulate", "1")[1].splitlines()[-1] in said


def test_the_bound_of_a_stopped_search_is_the_checkers(tmp_path: Path) -> None:
    study = search(tiny_space(), "runtime_x_bandwidth", agent="exact", options={"warm": 32}, trials=48,
                   study=tmp_path / "s")
    write_certificate(load_study(tmp_path / "s"), str(tmp_path / "c.json"))
    code, said = check(tmp_path / "c.json", "--simulate", "1")
    assert code == 0, said
    assert study.proof is not None
    bound = float(said.split("below ")[-1].split(",")[0])
    assert study.proof.bound <= bound * (1 + 1e-6)
    assert bound < study.objectives()["runtime_x_bandwidth"]


def test_the_optimum_of_trainings_is_confirmed(tmp_path: Path) -> None:
    study = search(few_trainings(), "runtime_x_bandwidth", agent="exact", trials=10**6, study=tmp_path / "s")
    assert study.proof is not None
    assert study.proof.complete
    write_certificate(load_study(tmp_path / "s"), str(tmp_path / "c.json"))
    code, said = check(tmp_path / "c.json", "--simulate", "12")      # none is below its floor
    assert code == 0, said
    assert f"{few_trainings().count:,} feasible designs" in said
    assert "optimal: no design of the space is better" in said
    found = json.loads((tmp_path / "c.json").read_text())
    rows = [row for row in found["evaluated"] if row != found["best"]]
    second = min((row for row in rows if row[-1] is not None), key=lambda row: row[-1])
    (tmp_path / "hidden").write_text(json.dumps({**found, "evaluated": rows, "best": second}))
    code, said = check(tmp_path / "hidden", "--simulate", "0")
    assert code == 0, said
    assert "optimal" not in said


FIXED = """
base:
  workload: {source: transformer, model: gpt2-small, global_batch: 16, seq: 1024, tp: 2, dp: 8}
  network:
    dims:
    - {shape: ring, npus: 4, latency: 500 ns, bandwidth_per_npu: 50 GB/s}
    - {shape: switch, npus: 4, latency: 700 ns, bandwidth_per_npu: 50 GB/s}
  collective: {choice: none, all_reduce: [ring, direct], all_gather: [ring, direct], reduce_scatter: [ring, direct],
    chunks: 2, composition: blueconnect}
  compute: {model: roofline, peak: 100 TFLOP/s}
  memory: {bandwidth: 1 TB/s, capacity: 3 GB}
choices:
  workload.tp: [1, 2]
  workload.pp: [1, 2]
  workload.zero: [0, 3]
  network.dims[*].bandwidth_per_npu: [20 GB/s, 200 GB/s]
  network.dims[0].shape: [ring, fully_connected]
derived:
  workload.dp: 16 // (workload.tp * workload.pp)
constraints: [network.npus == 16]
"""


@pytest.mark.parametrize("require", [
    pytest.param("peak_memory <= memory.capacity", marks=pytest.mark.exam), "peak_memory <= '2 GB'"])
def test_requirements_on_dims_of_fixed_sizes_are_confirmed(require: str, tmp_path: Path) -> None:
    """A user's case: stages run different programs, two streams, memory is required."""
    (tmp_path / "fixed.yaml").write_text(FIXED)
    space = load_space(tmp_path / "fixed.yaml")
    study = search(space, "runtime_x_bandwidth", require=require, agent="exact", trials=10**6, study=tmp_path / "s")
    free = search(space, "runtime_x_bandwidth", agent="exact", trials=10**6)
    assert study.proof is not None
    assert study.proof.complete
    assert study.refused < study.trials
    write_certificate(load_study(tmp_path / "s"), str(tmp_path / "c.json"))
    code, said = check(tmp_path / "c.json", "--simulate", "-1")
    assert code == 0, said
    assert f"{space.count:,} feasible designs" in said
    assert "optimal: no design of the space is better" in said
    assert study.objectives()["runtime_x_bandwidth"] >= free.objectives()["runtime_x_bandwidth"]
    found = json.loads((tmp_path / "c.json").read_text())
    place = next((place for place, row in enumerate(found["evaluated"]) if row[-1] is None), None)
    if place is not None:       # a design that fails a requirement is not sold as a good one
        found["evaluated"][place][-1] = found["best"][-1] * 1.5
        (tmp_path / "sold").write_text(json.dumps(found))
        assert check(tmp_path / "sold", "--simulate", "-1")[0] == 1


def test_what_is_wrong_is_found(certificate: Path, tmp_path: Path) -> None:
    found: dict[str, Any] = json.loads(certificate.read_text())
    lied = {**found, "evaluated": [[*row[:-1], row[-1] * (1.01 if place == 5 else 1)]
                                   for place, row in enumerate(found["evaluated"])]}
    (tmp_path / "lied").write_text(json.dumps(lied))
    code, said = check(tmp_path / "lied", "--simulate", "-1")
    assert code == 1
    assert "is worth" in said
    best = found["best"]
    rows = [row for row in found["evaluated"] if row != best]
    second = min((row for row in rows if row[-1] is not None), key=lambda row: row[-1])
    (tmp_path / "hidden").write_text(json.dumps({**found, "evaluated": rows, "best": second}))
    code, said = check(tmp_path / "hidden", "--simulate", "0")
    assert code == 0
    assert "optimal" not in said
    (tmp_path / "false").write_text(json.dumps({**found, "best": second}))
    assert check(tmp_path / "false", "--simulate", "0")[0] == 1


def test_a_certificate_of_another_space_is_found(certificate: Path, tmp_path: Path) -> None:
    """Knobs are the choices of the space, and designs are of it."""
    found: dict[str, Any] = json.loads(certificate.read_text())
    path, values = next((path, values) for path, values in found["space"]["choices"].items() if isinstance(values, list)
                        and isinstance(values[0], int))
    knobs, space, rows = found["knobs"], found["space"], found["evaluated"]
    place = next(place for place, knob in enumerate(knobs) if knob["values"] == values)
    wrong: dict[str, tuple[Any, str]] = {
        "more": ({**found, "space": {**space, "choices": {**space["choices"], path: [*values, 2 * values[-1]]}}},
                 "is not that of the space"),
        "fewer": ({**found, "knobs": knobs[:-1], "evaluated": [row[:-2] + row[-1:] for row in rows],
                   "best": found["best"][:-2] + found["best"][-1:]}, "of the space is no knob"),
        "others": ({**found, "knobs": [{**knob, "numbers": [2 * each for each in knob["numbers"]]} if knob
                                       is knobs[place] else knob for knob in knobs]}, "is not that of the space"),
        "outside": ({**found, "evaluated": [*rows, [*rows[0][:place], 99, *rows[0][place + 1:-1], None]]},
                    "is no design of the space"),
        "before": ({**found, "evaluated": [*rows, [*rows[0][:place], -1, *rows[0][place + 1:-1], None]]},
                   "is no design of the space"),
        "ruled out": ({**found, "space": {**space, "constraints": [*space["constraints"], "network.npus == 1"]}},
                      "does not meet network.npus == 1"),
        "empty": ({**found, "evaluated": []}, "is not the best"), "list": ([], "knows certificates of format 1")}
    for name, (forged, words) in wrong.items():
        (tmp_path / name).write_text(json.dumps(forged))
        code, said = check(tmp_path / name, "--simulate", "0")
        assert (code, words in said) == (1, True), (name, said)
    (tmp_path / "text").write_text("{")
    assert "is no JSON" in check(tmp_path / "text")[1]


def test_what_has_no_certificate_is_refused(tmp_path: Path) -> None:
    search(tiny_space(), ["makespan", "network_cost"], agent="random", trials=10, study=tmp_path / "two")
    search(tiny_space(), "makespan", require="makespan < 1", trials=10, study=tmp_path / "none")
    for name, says in [("two", "no certificate"), ("none", "no feasible design")]:
        with pytest.raises(InputError, match=says):
            write_certificate(load_study(tmp_path / name), str(tmp_path / "c"))


def test_the_optimum_of_the_full_stack_is_what_its_file_says(root: Path) -> None:
    found: dict[str, Any] = json.loads((root / "examples/cosmic/full.optimum.json").read_text())
    space = load_space(root / "examples/cosmic/spaces/full.yaml")
    assert json.loads(msgspec.json.encode(jsonable(space_plain(space)))) == found["space"]
    verdict = Evaluator(space, goal_of("runtime_x_bandwidth"))(tuple(found["best"][:-1]))
    assert verdict.values == (found["best"][-1],)


@pytest.mark.exam
def test_the_optimum_of_the_full_stack_is_confirmed(root: Path) -> None:
    code, said = check(root / "examples/cosmic/full.optimum.json", "--simulate", "-1")
    assert code == 0, said
    assert "optimal: no design of the space is better" in said
