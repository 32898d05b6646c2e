"""Names of nodes may be anything: a message stays one line and leaves the terminal alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.commands import Run

from astrarium.errors import TraceError, short_name
from astrarium.trace import TraceBuilder

EVIL = "a\n\x1b[31mb\r\tü😀" + "x" * 5000


def test_short_names() -> None:
    assert short_name("forward") == "forward"
    assert short_name("ü😀") == "ü😀"
    assert short_name("a\n\x1b\udc80") == r"a\n\x1b\udc80"
    assert short_name("x" * 64) == "x" * 64
    assert short_name("x" * 65) == "x" * 63 + "…"
    error = TraceError("w.0.et", "is wrong", rank=0, node=1, name="a\nb")
    assert str(error) == r"w.0.et: rank 0, node 1 (a\nb): is wrong"


@pytest.mark.parametrize("arguments", [["run", "DESIGN"], ["check", "DESIGN"], ["show", "PREFIX", "--nodes"]])
def test_a_hostile_name_stays_in_its_line(run: Run, design: Path, arguments: list[str]) -> None:
    for rank in range(4):
        trace = TraceBuilder()
        trace.comp(EVIL, 1, id=1, after=[1] if "show" not in arguments else [])
        trace.write(design.parent / "et" / f"w.{rank}.et")
    said = run(*(word.replace("DESIGN", str(design)).replace("PREFIX", str(design.parent / "et" / "w"))
                 for word in arguments))
    text = said.out + said.err
    assert "node 1 (a" in text or "show" in arguments
    assert r"a\n\x1b[31mb" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) < 700
