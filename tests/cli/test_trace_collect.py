"""`astrarium trace collect`: how a script ends, without PyTorch: the recording is a stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import astrarium.profile

if TYPE_CHECKING:
    from tests.commands import Run


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Folders of the recordings that came to their end."""
    found: list[str] = []

    @contextmanager
    def collect(folder: str, *, linked: bool, clock: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(notes=(), report=None, trace=f"{folder}/trace.0.et", device=None)
        found.append(folder)

    monkeypatch.setattr(astrarium.profile, "collect", collect)
    return found


@pytest.mark.parametrize(("text", "code", "words"), [
    ("", 0, "wrote"), ("raise SystemExit", 0, "wrote"), ("raise SystemExit(7)", 7, "ended with 7"),
    ("raise SystemExit('enough')", 1, "enough"), ("raise KeyboardInterrupt", 130, "interrupted"),
    ("def f():\n    return {}['mine']\nf()", 1, "KeyError: 'mine'"), ("x = (", 1, "SyntaxError")])
def test_the_exit_code_is_the_scripts(tmp_path: Path, run: Run, ended: list[str], text: str, code: int,
                                      words: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(text)
    said = run("trace", "collect", "-o", tmp_path / "out", script)
    assert (said.code, said.out) == (code, "")
    assert words in said.err
    assert "bug of ours" not in said.err
    assert "runpy" not in said.err
    assert ended == [str(tmp_path / "out")]


def test_modules_beside_the_script(tmp_path: Path, run: Run, ended: list[str]) -> None:
    (tmp_path / "beside_the_script.py").write_text("value = 3")
    (tmp_path / "script.py").write_text(
        "import sys, beside_the_script as b; assert (b.value, sys.argv[1:]) == (3, ['-x'])")
    assert run("trace", "collect", "-o", tmp_path / "out", tmp_path / "script.py", "-x").code == 0
    assert len(ended) == 1
