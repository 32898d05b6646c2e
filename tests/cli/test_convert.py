"""`convert`: ASTRA-sim's inputs to a design that gives the same integers, and traces to JSON lines and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Run
from tests.parity import cases

from astrarium.astra_sim.to_design import design_of
from astrarium.config import dumps, loads
from astrarium.design import Design
from astrarium.simulate import simulate
from astrarium.trace import traces_of_bytes


def finish(text: str) -> list[int]:
    """`finish_ns` of every rank of a JSON answer of either verb."""
    return [int(row["finish_ns"]) for row in json.loads(text)["ranks"]]


@pytest.mark.parametrize("more", [[], ["--backend=congestion_aware"], ["--rendezvous-protocol=true"],
                                  ["--injection-scale=3"], ["--num-queues-per-dim=2"]])
def test_the_design_gives_the_same_integers(more: list[str], flags: list[str], run: Run, tmp_path: Path) -> None:
    out = tmp_path / "made" / "design.yaml"
    out.parent.mkdir()
    assert run("convert", "--to", "design", *flags, *more, "-o", out).code == 0
    said = run("run", out, "--json")
    assert said.code == 0
    assert finish(said.out) == finish(run("astra-sim", *flags, *more, "--json").out)
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize("out", [(), ("-o", "-")])
def test_to_stdout(out: tuple[str, ...], flags: list[str], run: Run) -> None:
    said = run("convert", "--to", "design", *out, *flags)
    design = loads(Design, said.out)
    assert (design.compat, design.network.npus, design.collective.chunks) == ("astra_sim", 4, 2)
    assert "50 GiB/s" in said.out


def same(case: Any, backend: str, folder: Path) -> None:
    """The converted design of a packed case, written and read back, gives ASTRA-sim's integers."""
    inputs = cases.read(case, backend, folder)
    groups = "comm_groups.json" if "comm_groups.json" in case.files else None
    with cases.inside(folder):
        made = design_of(inputs, "system.json", groups)
        design = loads(Design, dumps(made))
        assert design == made
        outcome = simulate(design, record=False, traces=traces_of_bytes(case.traces[case.workload])).outcome
    want = case.expected[backend]
    assert cases.seen(outcome) == (want.finish_ns, want.exposed_ns)


def test_golden_cases_converted(tmp_path: Path) -> None:
    """Every third of ASTRA-sim's measured cases; `make exam` takes all."""
    for number, (case, backend) in enumerate(cases.pairs(cases.load(cases.GOLDEN), usable=True)[::3]):
        (tmp_path / str(number)).mkdir()
        same(case, backend, tmp_path / str(number))


@pytest.mark.exam
def test_all_golden_and_random_cases_converted(tmp_path: Path) -> None:
    packed = (*cases.load(cases.GOLDEN), *cases.load(cases.RANDOM))
    for number, (case, backend) in enumerate(cases.pairs(packed, usable=True)):
        (tmp_path / str(number)).mkdir()
        same(case, backend, tmp_path / str(number))


@pytest.mark.parametrize(("change", "words"), [
    ({"all-reduce-implementation": ["oneRing"]}, "all-reduce-implementation[0]: 'oneRing'"),
    ({"preferred-dataset-splits": 0}, "preferred-dataset-splits"),
])
def test_what_a_design_cannot_say_is_refused(change: dict[str, Any], words: str, flags: list[str], run: Run,
                                             tmp_path: Path) -> None:
    system = json.loads((tmp_path / "system.json").read_text())
    (tmp_path / "system.json").write_text(json.dumps({**system, **change}))
    said = run("convert", "--to", "design", *flags, "-o", tmp_path / "d.yaml")
    assert (said.code, said.out) == (1, "")
    assert words in said.err
    assert not (tmp_path / "d.yaml").exists()


def test_missing_parts_are_named(flags: list[str], run: Run, prefix: Path) -> None:
    assert "--network-configuration: is missing" in run("convert", "--to", "design", *flags[:2]).err
    assert "ASTRA-sim's flags" in run("convert", "--to", "design", *flags, f"{prefix}.0.et").err
    assert run("convert", "--to", "jsonl").code == 1
    assert "--out: is missing" in run("convert", "--to", "et", f"{prefix}.0.et").err


def test_trace_to_lines_and_back(prefix: Path, run: Run, tmp_path: Path) -> None:
    lines, back, packed = tmp_path / "t.jsonl", tmp_path / "b.0.et", tmp_path / "c.0.et"
    assert run("convert", "--to", "jsonl", f"{prefix}.1.et", "-o", lines).code == 0
    assert run("convert", "--to", "jsonl", f"{prefix}.1.et").out == lines.read_text()
    assert run("convert", "--to", "et", lines, "-o", back).code == 0
    assert back.read_bytes() == Path(f"{prefix}.1.et").read_bytes()
    assert run("convert", "--to", "et", lines, "-o", packed, "--gzip").code == 0
    assert packed.read_bytes()[:2] == b"\x1f\x8b"
    assert run("convert", "--to", "jsonl", packed).out == lines.read_text()


@pytest.mark.parametrize(("text", "words"), [
    ("", "not a Chakra execution trace: byte 0"),
    ("{", "begins with '{': not a trace of a known form; expected one of chakra (binary, run.0.et); kineto"),
    ("{}\n[]", "t.jsonl:2: [] is not an object"),
    ('{}\n{"id": -1}', "t.jsonl:2: id: -1"),
    ('{}\n{"idd": 1}', "did you mean 'id'?"),
    ('{}\n{"type": "COMPP"}', "did you mean 'COMP'?"),
    ('{}\n{"type": []}', "t.jsonl:2: type"),
    ('{}\n{"data_deps": 3}', "data_deps"),
    ('{}\n{"data_deps": ["a"]}', "data_deps"),
    ('{}\n{"attrs": [{"name": "x", "kind": "int64_val"}]}', "attrs[0]: has only one of kind and value"),
    ('{}\n{"attrs": [{"name": "x", "kind": "int64_vla", "value": 1}]}', "did you mean 'int64_val'?"),
    ('{}\n{"attrs": [{"name": "x", "kind": "int32_val", "value": 4294967296}]}', "does not fit int32_val"),
    ('{}\n{"name": 3}', "t.jsonl:2: name"),
    ('{}\n{"unknown": "??"}', "base64"),
])
def test_hostile_lines(text: str, words: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(text)
    said = run("convert", "--to", "et", tmp_path / "t.jsonl", "-o", tmp_path / "t.0.et")
    assert (said.code, said.out) == (1, "")
    assert words in said.err
    assert not (tmp_path / "t.0.et").exists()
