"""`astrarium explain`: tables, JSON, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.commands import Run

import astrarium as ar


@pytest.fixture
def other(design: Path) -> Path:
    """The same traces on another network."""
    path = design.with_name("other.yaml")
    path.write_text(design.read_text().replace("50 GB/s", "80 GB/s").replace("ring", "switch")
                    + "collective: {chunks: 4}\n")
    return path


def test_table_and_json(design: Path, other: Path, run: Run) -> None:
    said = run("explain", design, other)
    assert (said.code, said.err) == (0, "")
    for words in ("network.dims[0].bandwidth", "50 GB/s", "80 GB/s", "collective.chunks", "all 6", "8 simulated"):
        assert words in said.out
    found = json.loads(run("explain", design, other, "--json").out)
    assert sum(each["contribution_ns"] for each in found["changes"]) == pytest.approx(found["difference_ns"])
    assert found["after_ns"] - found["before_ns"] == pytest.approx(found["difference_ns"])
    assert found["difference_ns"] != 0
    assert {"knob": "collective.chunks", "from": [None], "to": [4]} in [knob for each in found["changes"]
                                                                     for knob in each["knobs"]]
    assert run("explain", design, other).out == said.out


def test_the_other_rule_book(design: Path, run: Run) -> None:
    found = json.loads(run("explain", design, "--compat", "--json").out)
    assert [each["knobs"][0]["knob"] for each in found["changes"]] == [
        "compat", "compat: whole_ns", "compat: one_slot"]
    assert run("explain", design, design).out.endswith("simulated\n")


def test_what_is_refused(design: Path, run: Run, tmp_path: Path) -> None:
    for arguments in ([design], [design, design, "--compat"]):
        said = run("explain", *arguments)
        assert said.code == 2
        assert "two designs, or one and --set, --compat" in said.err
    said = run("explain", design, tmp_path / "none.yaml")
    assert (said.code, said.out) == (1, "")
    assert "none.yaml" in said.err
    said = run("explain", design, design, "--orders", "3")
    assert (said.code, said.out) == (1, "")
    assert "4 or more" in said.err


def test_a_design_is_compared_with_itself_changed(design: Path, run: Run) -> None:
    text = design.read_text()
    other = design.with_name("slower.yaml")
    change = "network.dims[0].bandwidth=1 GB/s"
    said = run("explain", design, "--set", change)
    ar.dump_design(ar.load_design(design, {"network.dims[0].bandwidth": "1 GB/s"}), other)
    assert said.out.splitlines()[1:] == run("explain", design, other).out.splitlines()[1:]
    assert said.out.splitlines()[0].endswith(f"to the same with {change}")
    assert design.read_text() == text
