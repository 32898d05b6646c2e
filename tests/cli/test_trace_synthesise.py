"""`astrarium trace synthesise`: learn, sample, compare; what goes wrong is one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astrarium.cli.dispatch import dispatch
from astrarium.trace.export import write_generated
from astrarium.workload.corpus import draw_corpus
from astrarium.workload.generate import generate

Capture = pytest.CaptureFixture[str]


def _run(*words: str) -> int:
    return dispatch(["trace", "synthesise", *words])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "m"
    assert _run("learn", "--traces", "4", "-o", str(path)) == 0
    return str(path)


FIT = ("--model-size", "llama2-7b", "--condition", "batch=1", "--condition", "micro_batches=2", "--condition",
       "seq=2048", "--extrapolate")


def test_samples_are_written_with_their_conditions(model: str, tmp_path: Path, capsys: Capture) -> None:
    assert _run("sample", model, *FIT, "--tp", "2", "--ranks", "8", "-o", str(tmp_path / "s"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["ranks"] == 8
    said = json.loads((tmp_path / "s.conditions.json").read_text())
    assert (said["tp"], said["dp"], said["pp"], said["layers"]) == (2, 4, 1, 32)
    first = (tmp_path / "s.0.et").read_bytes()
    assert _run("sample", model, *FIT, "--tp", "2", "--ranks", "8", "-o", str(tmp_path / "s")) == 0
    assert (tmp_path / "s.0.et").read_bytes() == first


def test_traces_in_a_folder_are_learned(tmp_path: Path, capsys: Capture) -> None:
    for number, (c, work) in enumerate(draw_corpus(["llama2-7b"], 3, seed=4)):
        write_generated(generate(work), tmp_path / f"t{number}")
        (tmp_path / f"t{number}.conditions.json").write_text(json.dumps(c))
    assert _run("learn", str(tmp_path), "-o", str(tmp_path / "m"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["examples"] >= 3


def test_comparison_has_a_row_per_case(model: str, capsys: Capture) -> None:
    assert _run("compare", model, "--traces", "2", "--models", "llama2-7b", "--extrapolate", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["cases"]) == 2
    assert found["summary"]["makespan"]["worst"] >= 0


@pytest.mark.parametrize(("words", "said"), [
    (("sample", "MODEL", "-o", "x", "--tp", "2"), "has no value"),
    (("sample", "MODEL", "-o", "x", *FIT, "--tp", "2", "--ranks", "7"), "not tp * dp * pp"),
    (("sample", "MODEL", "-o", "x", *FIT[:-1], "--tp", "2", "--ranks", "999998"), "learnt from"),
    (("sample", "MODEL", "-o", "x", "--condition", "layers"), "NAME=NUMBER"),
    (("sample", "/dev/null", "-o", "x"), "no model of traces"),
    (("learn", "--models", "gpt2-small,llama2-7b", "-o", "x"), "built otherwise"),
    (("learn", "--models", "mixtral-8x7b", "-o", "x"), "no dense decoder"),
    (("learn", "nowhere", "-o", "x"), "nowhere.conditions.json"),
])
def test_faults_are_said(model: str, words: tuple[str, ...], said: str, tmp_path: Path, capsys: Capture,
                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _run(*(model if word == "MODEL" else word for word in words)) == 1
    assert said in capsys.readouterr().err
