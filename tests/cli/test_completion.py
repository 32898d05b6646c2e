"""`astrarium completion`: what the scripts complete, tried in a shell."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.commands import Run

from astrarium.cli.dispatch import VERBS

CASES = {
    "astrarium pl": {"plan"}, "astrarium plan --dev": {"--device"}, "astrarium trace sy": {"synthesise"},
    "astrarium trace suite ma": {"make"}, "astrarium run --cat": {"--catalog"}, "astrarium ": set(VERBS),
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_verbs_and_flags(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    said = run("completion", "bash")
    assert (said.code, said.err) == (0, "")
    (tmp_path / "astrarium.sh").write_text(said.out)
    for line, expected in CASES.items():
        words = line.split(" ")
        script = (f"source astrarium.sh; COMP_WORDS=({' '.join(words[:-1])} '{words[-1]}'); "
                  f"COMP_CWORD={len(words) - 1}; _shtab_astrarium; echo ${{COMPREPLY[@]}}")
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert expected <= set(done.stdout.split()), line


def test_fish_has_verbs_flags_and_files(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shtab = pytest.importorskip("shtab", "1.13")
    said = run("completion", "fish")
    assert (said.code, said.err) == (0, "")
    lines = [line for line in said.out.splitlines() if line.startswith("complete -c astrarium")]
    assert any(" plan " in line for line in lines)
    assert any("_using plan'" in line and "-l device" in line for line in lines)
    assert any("_using run'" in line and "-l catalog" in line and "__fish_complete_path" in line for line in lines)
    if shutil.which("fish") is not None:
        subprocess.run(["fish", "--no-execute"], input=said.out, text=True, check=True)
    monkeypatch.setattr(shtab, "SUPPORTED_SHELLS", ["bash"])
    assert "this version of shtab has no fish; expected shtab 1.13 or later" in run("completion", "fish").err


def test_without_the_extra_it_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    said = run("completion", "bash")
    assert said.code == 1
    assert "completion: shtab is not installed; expected " in said.err
    assert "[completion]'" in said.err


def test_an_unknown_shell_is_refused(run: Run) -> None:
    assert run("completion", "nushell").code == 2
