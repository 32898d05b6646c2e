"""COMET's study: its parameters, its ratios, and its space, which finds what the study finds."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from comet import Lab, decompose, expansion_ratios, load_book, spread_of
from comet.hybrid import hybrid_bandwidth

import astrarium as ar
from astrarium.search.searchfile import load_space

CASE = "transformer_1t"


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab(load_book(Path(__file__).parents[3] / "examples" / "comet" / "parameters.yaml"))


def test_the_reconstruction_says_so(root: Path, lab: Lab) -> None:
    text = (root / "examples" / "comet" / "parameters.yaml").read_text(encoding="utf-8")
    assert "was not available" in text
    marks = {each.mark for each in lab.book.parameters.values()}
    assert marks == {"R", "V", "M", "A"}
    assert not [path for path, each in lab.book.parameters.items() if each.mark == "R" and
                "http" not in lab.book.source(path) and "arXiv" not in lab.book.source(path)]


def test_comets_arithmetic_of_bytes(lab: Lab) -> None:
    """2 bytes a parameter over MP and 14 over 1,024 nodes: 45 GB for MP64_DP16, 265 GB for MP8_DP128."""
    case = lab.case(CASE)
    for split, gigabytes in ((64, 45), (8, 265)):
        held = lab.footprint(case, split)
        assert math.isclose(held.weights + held.gradients + held.states, gigabytes * 1e9, rel_tol=0.02)


def test_tables_are_spread_over_all_nodes(lab: Lab) -> None:
    """1.2e12 parameters of 4 bytes: 75 GB on each of 64 nodes, twice that on 32, which need expanded memory."""
    case = lab.case("dlrm_1t")
    for nodes in (64, 32):
        assert math.isclose(case.counted(lab.footprint(case, 1, nodes)), 1.2e12 * 4 / nodes, rel_tol=0.01)
    whole, half = (lab.point(case, lab.cluster("A1"), 1, nodes=nodes, parts=True) for nodes in (64, 32))
    assert (whole.fits, half.fits, lab.point(case, lab.cluster("A0"), 1, nodes=32).fits) == (True, True, False)
    assert half.spread.bandwidth < whole.spread.bandwidth
    assert whole.parts is not None
    assert whole.parts.compute["update"] == 0


def test_the_baseline_design_is_the_studys(root: Path, lab: Lab) -> None:
    case = lab.case(CASE)
    found = ar.load_design(root / "examples" / "comet" / "a100.yaml")
    assert found == lab.design(case, lab.cluster("A0"), case.baseline, 2039.0)
    layer = next(row for row in decompose(case.strategy(64)) if (row.layer, row.phase) == ("layer", "forward"))
    tokens, d = 64 * 2048, 25600      # of a replica
    assert sum(2 * math.prod(shape) for shape in layer.products) == 2 * tokens * 12 * d**2 / 64


def test_memory_expansion_of_a100(lab: Lab) -> None:
    """The ratio beside 1.4x, as the documentation has it."""
    (found,) = expansion_ratios(lab, CASE, [["A0", "A1"]]).values()
    assert (round(found[0], 2), found[1].name, found[2].name) == (1.36, "MP64_DP16", "MP16_DP64")


def test_the_space_counts_as_the_study_does(root: Path, lab: Lab) -> None:
    space = load_space(root / "examples" / "comet" / "space.yaml")
    case, cluster = lab.case(CASE), lab.cluster("A1")
    for split in (64, 16, 8, 4):
        spread = spread_of(case.counted(lab.footprint(case, split)), cluster)
        point = space.point_of({"workload.tp": split, "expanded": 500})
        assert math.isclose(space.design(point).memory.bandwidth or 0, spread.bandwidth, rel_tol=0.01)
    held = 2032e9 / 16 + 28e9
    assert math.isclose(space.design(space.point_of({"workload.tp": 16, "expanded": 250})).memory.bandwidth or 0,
                        hybrid_bandwidth((80e9, held - 80e9), (2039, 250)), rel_tol=1e-9)


@pytest.mark.exam
def test_the_whole_study(root: Path, tmp_path: Path) -> None:
    folder = root / "examples" / "comet"
    found = subprocess.run([sys.executable, folder / "study.py", "--out", str(tmp_path)], capture_output=True,
                           text=True, check=True, env={"PYTHONPATH": ":".join(sys.path), "PATH": ""})
    assert found.stdout == (tmp_path / "report.md").read_text(encoding="utf-8")
    assert {path.stem for path in tmp_path.glob("*.svg")} == {
        "strategies", "clusters", "footprint", "expansion", "peak", "capacity", "network", "dlrm"}
    page = (root / "docs" / "guides" / "comet.md").read_text(encoding="utf-8")
    rows = [line for line in found.stdout.splitlines() if line.startswith("| ")]
    start = page.index("| difference |")
    ours = [line for line in page.splitlines() if line.startswith(("| clusters,", "| expanded memory, "))]
    ours += [line for line in page[start:page.index("\n\n", start)].splitlines() if "---" not in line]
    assert len(ours) == 5 + 18
    assert not [line for line in ours if line not in rows]
    for name in ("clusters", "expansion"):
        drawn = (root / "docs" / "guides" / f"comet_{name}.svg").read_text(encoding="utf-8")
        assert drawn == (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
    seconds = re.search(r"(\d+) CPU-seconds in all", found.stdout)
    assert seconds is not None
    assert int(seconds[1]) < 60
