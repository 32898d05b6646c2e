"""Flags that has no effect are refused, and a file that cannot be written is said before the work."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.commands import Run


@pytest.mark.parametrize(("arguments", "flag", "beside"), [
    (["run", "DESIGN", "--timeline-ranks", "0"], "--timeline-ranks", "--timeline as well"),
    (["run", "DESIGN", "--nodes"], "--nodes", "--json or --parquet as well"),
    (["show", "DESIGN", "--nodes"], "--nodes", "a trace"),
    (["show", "DESIGN", "--rank", "0"], "--rank", "a trace and --nodes"),
    (["show", "PREFIX", "--rank", "0"], "--rank", "--nodes as well"),
    (["show", "PREFIX", "--set", "fold=off"], "--set", "a design or a fabric"),
    (["check", "DESIGN", "--groups", "groups.json"], "--groups", "traces; a design file names its groups"),
    (["convert", "--to", "jsonl", "PREFIX.0.et", "--gzip"], "--gzip", "--to et"),
])
def test_a_flag_that_would_do_nothing(run: Run, design: Path, arguments: list[str], flag: str, beside: str) -> None:
    words = [word.replace("DESIGN", str(design)).replace("PREFIX", str(design.parent / "et" / "w"))
             for word in arguments]
    said = run(*words)
    assert (said.code, said.out) == (1, "")
    assert said.err == f"astrarium: {flag}: has no effect here; expected {beside}\n"


@pytest.mark.parametrize(("name", "words"), [
    ("", "(is empty)"), ("none/t.json", "cannot be written (there is no folder"),
    ("et", "cannot be written (is a folder)")])
def test_a_timeline_that_cannot_be_written_is_said_first(run: Run, design: Path, name: str, words: str,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(design.parent)
    (design.parent / "et" / "w.2.et").unlink()      # so the run itself would fail
    said = run("run", design, "--timeline", name)
    assert (said.code, said.out) == (1, "")
    assert words in said.err
    assert said.err.endswith("; expected the name of a file that can be written\n")


def test_a_device_is_a_place(run: Run, design: Path) -> None:
    assert run("run", design, "--timeline", "/dev/null").code == 0
