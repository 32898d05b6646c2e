"""What the command line says about input that is nearly right: the field, the unit, the verb that was meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.commands import Run

DESIGN = """
workload: {source: collective, op: all_reduce, payload: 100 GB}
network: {dims: [{shape: ring, npus: 4, bandwidth: 50 GB/s, latency: 1 us}]}
collective: {chunks: 1}
"""
SPACE = "base: design.yaml\nchoices: {collective.chunks: [1, 2]}\n"
SERVING = "design: design.yaml\nrequests: {rate: 1}\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A design, a space, a serving file and a trace."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("design", DESIGN), ("space", SPACE), ("serving", SERVING)):
        Path(f"{name}.yaml").write_text(text)
    Path("kernels.json").write_text('{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "mm", "ts": 1, "dur": 2}]}')
    return tmp_path


@pytest.mark.parametrize(("old", "new", "says"), [
    ("1 us", "10000000 s", "design.yaml:3: network.dims[0].latency: is more than 2^63 ps; expected at most 106 days"),
    ("chunks: 1", "chunks: 10000000000", "collective.chunks: cuts 100,000,000,000 bytes into 10,000,000,000 chunks; "
                                         "expected at most 1,048,576"),
    ("50 GB/s", "450 gb/s", "did you mean 'GB/s'?"), ("50 GB/s", "450 gbps", "did you mean 'Gb/s'?"),
    ("50 GB/s", "450 GBps", "did you mean 'GB/s'?"), ("100 GB", "100 gb", "did you mean 'GB'?"),
    ("1 us", "1 US", "did you mean 'us'?")])
def test_fields_and_units(files: Path, run: Run, old: str, new: str, says: str) -> None:
    Path("design.yaml").write_text(DESIGN.replace(old, new))
    said = run("run", "design.yaml")
    assert (said.code, said.out) == (1, "")
    assert says in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(("arguments", "says"), [
    (["run", "space.yaml"], "space.yaml: is a space, not a design; expected a design, or astrarium search space.yaml"),
    (["run", "serving.yaml"], "is a serving file, not a design; expected a design, or astrarium serve serving.yaml"),
    (["explain", "design.yaml", "space.yaml"], "astrarium search space.yaml"),
    (["show", "serving.yaml"], "astrarium serve serving.yaml"),
    (["check", "space.yaml"], "astrarium search space.yaml"),
    (["search", "design.yaml"], "is a design, not a space; expected a space, or astrarium run design.yaml"),
    (["serve", "space.yaml"], "is a space, not a serving file"),
    (["run", "kernels.json"], "is a trace (kineto), not a design; expected a design, or astrarium run --trace kernels"),
    (["trace", "show", "design.yaml"], "is YAML, and no trace; expected a trace (.et), or for a design file astrarium "
                                       "show design.yaml"),
    (["run", "design.yaml", "--set", "=3"], "=3: is not an assignment; expected path=value"),
    (["search", "space.yaml", "--option", "=3"], "=3: is not an assignment")])
def test_the_verb_that_was_meant(files: Path, run: Run, arguments: list[str], says: str) -> None:
    said = run(*arguments)
    assert said.code == 1
    assert says in said.err + said.out
    assert "Traceback" not in said.err


def test_one_error_is_one(files: Path, run: Run) -> None:
    Path("design.yaml").write_text(DESIGN.replace("50 GB/s", "450 gb/s"))
    assert run("check", "design.yaml").err.endswith("1 error, 0 warnings\n")
    Path("design.yaml").write_text(DESIGN.replace("50 GB/s", "450 gb/s").replace("1 us", "1 parsec"))
    assert run("check", "design.yaml").err.endswith("2 errors, 0 warnings\n")
