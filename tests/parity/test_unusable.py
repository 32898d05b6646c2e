"""Where ASTRA-sim hangs, crashes or says nothing: the right answer if there is one, else one error with its cause."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from astrarium.cli import main
from astrarium.errors import AstrariumError

from .cases import GOLDEN, MORE, RANDOM, Case, arguments, load, lower, of_folder, outcome, pairs, seen

EXPECTED: dict[str, Any] = json.loads((Path(__file__).parent / "unusable.json").read_text())["cases"]
HAND_MADE = (*load(GOLDEN), *load(MORE))
UNUSABLE = pairs(HAND_MADE, usable=False)
CASES = [pytest.param(case, backend, id=f"{case.name}-{backend}") for case, backend in UNUSABLE]
STRANGE = [pytest.param(*pair, id=f"{pair[0].name}-{pair[1]}") for pair in pairs(load(RANDOM), usable=False)]
MODES = ("off", "auto")


def _row(case: Case, backend: str) -> dict[str, Any]:
    rows: dict[str, Any] = EXPECTED[case.name]
    row: dict[str, Any] = rows.get("both") or rows[backend]
    return row


def _compare(case: Case, backend: str, folder: Path, *modes: str) -> None:
    """In each of the modes: the answer, or the words of the refusal."""
    row = _row(case, backend)
    if "refused" not in row:
        lowered = lower(case, backend, folder, from_files=True)
        want = tuple(_spread(row[key], case.npus) for key in ("finish_ns", "exposed_ns"))
        for mode in modes:
            assert seen(outcome(*lowered, mode)) == want, mode
        return
    for error in _refusals(case, backend, folder, modes):
        message = str(error).replace(f"{folder}/", "")
        assert error.exit_code == 1
        for words in row["refused"]:
            assert words in message


def _refusals(case: Case, backend: str, folder: Path, modes: Sequence[str]) -> list[AstrariumError]:
    """The error of lowering, which comes before any mode; else one for each mode."""
    try:
        lowered = lower(case, backend, folder, from_files=True)
    except AstrariumError as error:
        return [error]
    found = []
    for mode in modes:
        with pytest.raises(AstrariumError) as caught:
            outcome(*lowered, mode)
        found.append(caught.value)
    return found


def _spread(value: Any, npus: int) -> tuple[int, ...]:
    return (value["all"],) * npus if isinstance(value, dict) else tuple(value)


@pytest.mark.parametrize(("case", "backend"), CASES)
def test_unusable(case: Case, backend: str, tmp_path: Path) -> None:
    """Unfolded; the command below folds."""
    _compare(case, backend, tmp_path, "off")


@pytest.mark.parametrize(("case", "backend"), CASES)
def test_unusable_through_the_command(case: Case, backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 0 and JSON, or exit 1, one message on stderr and nothing on stdout."""
    case.write(tmp_path, traces=True)
    monkeypatch.chdir(tmp_path)
    row = _row(case, backend)
    code = main(arguments(case, backend))
    out, err = capsys.readouterr()
    if "refused" in row:
        assert (code, out) == (1, "")
        assert "Traceback" not in err
        for words in row["refused"]:
            assert words in err
    else:
        assert code == 0
        ranks = json.loads(out)["ranks"]
        assert tuple(rank["finish_ns"] for rank in ranks) == _spread(row["finish_ns"], case.npus)
        assert tuple(rank["exposed_comm_ns"] for rank in ranks) == _spread(row["exposed_ns"], case.npus)


@pytest.mark.shared
def test_unusable_cases_that_stay_in_the_reference_folder(shared: Path, tmp_path: Path) -> None:
    """The same for the cases that the archive leaves out."""
    packed = {case.name for case in HAND_MADE}
    left_out = tuple(of_folder(shared / "golden" / name) for name in EXPECTED if name not in packed)
    assert left_out
    for case, backend in pairs(left_out, usable=False):
        _compare(case, backend, tmp_path, *MODES)


def test_every_unusable_case_has_an_expected_answer() -> None:
    """Nothing is missing, nothing is superfluous, everything says why."""
    packed = {case.name for case in HAND_MADE}
    listed = {(name, backend) for name, rows in EXPECTED.items() if name in packed
              for backend in (("unaware", "aware") if "both" in rows else rows)}
    assert listed == {(case.name, backend) for case, backend in UNUSABLE}
    for rows in EXPECTED.values():
        for row in rows.values():
            assert row["because"]
            assert len({"refused", "closed_form", "same_as"} & row.keys()) == 1


@pytest.mark.parametrize(("case", "backend"), CASES)
def test_closed_form(case: Case, backend: str) -> None:
    """The expected times are what their closed form gives, or ASTRA-sim's own of another case."""
    row = _row(case, backend)
    if "same_as" in row:
        other = next(each for each in HAND_MADE if each.name == row["same_as"]).expected[backend]
        assert other.usable
        assert other.finish_ns == tuple(row["finish_ns"])
        return
    if "closed_form" not in row:
        assert row["refused"]
        return
    names: dict[str, Any] = {"__builtins__": {}, "trunc": math.trunc, "min": min, "gib": 2**30 / 1e9}
    for name, text in row.get("where", {}).items():
        names[name] = eval(text, names)
    forms = row["closed_form"] if isinstance(row["closed_form"], list) else [row["closed_form"]] * case.npus
    assert tuple(eval(form, names) for form in forms) == _spread(row["finish_ns"], case.npus)


@pytest.mark.parametrize(("case", "backend"), STRANGE)
def test_random_programs_that_astra_sim_does_not_finish(case: Case, backend: str, tmp_path: Path) -> None:
    """In each mode they end, or one error says which rank waits for what; never a hang, a crash or an internal
    error."""
    try:
        lowered = lower(case, backend, tmp_path, from_files=True)
    except AstrariumError as error:
        _names_a_place(error, tmp_path)
        return
    for mode in MODES:
        try:
            finish, _ = seen(outcome(*lowered, mode))
        except AstrariumError as error:
            _names_a_place(error, tmp_path)
        else:
            assert len(finish) == case.npus, mode
            assert all(time > 0 for time in finish), mode


def _names_a_place(error: AstrariumError, folder: Path) -> None:
    message = str(error).replace(f"{folder}/", "")
    assert error.exit_code == 1
    assert any(place in message for place in ("et/w.", "system.json", "network.yml")), message
