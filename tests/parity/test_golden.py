"""The hand-made cases: every rank's finish and exposed communication are ASTRA-sim's integers, folded and unfolded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astrarium.cli import main

from .cases import GOLDEN, MORE, Case, arguments, load, of_folder, pairs, same
from .pack import pack

USABLE = pairs((*load(GOLDEN), *load(MORE)), usable=True)
ALL = [pytest.param(case, backend, id=f"{case.name}-{backend}") for case, backend in USABLE]


@pytest.mark.parametrize(("case", "backend"), ALL)
def test_golden(case: Case, backend: str, tmp_path: Path) -> None:
    """Unfolded; the command below folds."""
    same(case, backend, tmp_path, "off")


@pytest.mark.parametrize(("case", "backend"), [        # a fifth of the cases in the suite, all in the exam
    pytest.param(*each.values, id=each.id, marks=[pytest.mark.exam] * (at % 5 > 0)) for at, each in enumerate(ALL)])
def test_golden_through_the_command(case: Case, backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """`astrarium astra-sim` with ASTRA-sim's own flags and files; it folds where it can."""
    case.write(tmp_path, traces=True)
    monkeypatch.chdir(tmp_path)
    assert main(arguments(case, backend)) == 0
    ranks = json.loads(capsys.readouterr().out)["ranks"]
    want = case.expected[backend]
    assert [rank["rank"] for rank in ranks] == list(range(case.npus))
    assert tuple(rank["finish_ns"] for rank in ranks) == want.finish_ns
    assert tuple(rank["exposed_comm_ns"] for rank in ranks) == want.exposed_ns


@pytest.mark.shared
def test_cases_that_stay_in_the_reference_folder(shared: Path, tmp_path: Path) -> None:
    """The cases that the archive leaves out (traces not ours to copy) are read where they lie."""
    packed = {case.name for case in load(GOLDEN)}
    left_out = [path for path in sorted((shared / "golden").iterdir())
                if (path / "expected.json").exists() and path.name not in packed]
    cases = tuple(of_folder(path) for path in left_out)
    assert cases
    for case, backend in pairs(cases, usable=True):
        same(case, backend, tmp_path, "off", "auto")


@pytest.mark.shared
def test_the_archive_is_what_the_reference_folder_holds(shared: Path, tmp_path: Path) -> None:
    """Packing again gives the same cases: nobody edited an expected number."""
    packed = {case.name: case for case in load(GOLDEN)}
    for path in sorted((shared / "golden").iterdir()):
        if path.name in packed:
            case, row = packed[path.name], json.loads((path / "expected.json").read_text())
            assert case.expected == of_folder(path).expected
            assert case.npus == row["npus"]
            assert case.traces[case.workload] == of_folder(path).traces[case.workload]


def test_packing_is_deterministic(tmp_path: Path) -> None:
    """The same folder gives the same bytes, and a case survives the way there and back."""
    for case in load(GOLDEN)[:3]:
        case.write(tmp_path / "in" / case.name, traces=True)
        answer = {name: {"usable": False, "status": "?", "finish_ns": {"all": None}, "exposed_ns": {"all": None}}
                  for name in case.expected}
        (tmp_path / "in" / case.name / "expected.json").write_text(json.dumps({"npus": case.npus, **answer}))
    for archive in ("a.tar.xz", "b.tar.xz"):
        assert pack(tmp_path / "in", tmp_path / archive, []) == 3
    assert (tmp_path / "a.tar.xz").read_bytes() == (tmp_path / "b.tar.xz").read_bytes()
    for before, after in zip(load(GOLDEN)[:3], load(tmp_path / "a.tar.xz"), strict=True):
        assert (before.name, before.npus, before.files, before.traces) == (
            after.name, after.npus, after.files, after.traces)
