"""Signs of life: on a terminal, whatever the step; elsewhere nothing, or lines ever more rarely."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from astrarium.cli import main, progress
from astrarium.cli.progress import Counted, Line, Running
from astrarium.engine import HAVE_CORE, Limit


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SOON", 0.05)
    monkeypatch.setattr(progress, "EVERY", 0.05)


@pytest.mark.parametrize("stream", [Screen(), io.StringIO()], ids=["terminal", "file"])
@pytest.mark.usefixtures("quick")
def test_lines_come_while_a_step_runs(stream: Any) -> None:
    with Line(stream, lambda: "at work", everywhere=True) as line:
        time.sleep(1)
        line.note("a remark")
        said = stream.getvalue()
    lines = said.count("at work")
    assert lines > 8 if stream.isatty() else 2 <= lines <= 4      # after 0.05, 0.15, 0.35 and 0.75 s
    assert ("\r" in said) == stream.isatty()
    if stream.isatty():
        assert said.endswith("at work\r       \r")      # the remark is on a line of its own


@pytest.mark.usefixtures("quick")
def test_nothing_where_there_is_no_terminal_and_nothing_to_say() -> None:
    for stream, text in ((io.StringIO(), "at work"), (Screen(), None)):
        with Line(stream, lambda text=text: text):      # type: ignore[misc]
            time.sleep(0.2)
        assert stream.getvalue() == ""


class Told:
    """A limit whose runs are at 1.5 ms after 3 million events."""

    progress = 1_500_000_000, 3_000_000


def test_what_it_says_of_a_run() -> None:
    told = Running(Told())      # type: ignore[arg-type]
    told._then = told._start = time.monotonic() - 65.5
    assert told().startswith("running: 1.5 ms simulated, 3 M events, 45.")
    assert told().endswith(" events/s, 1:05")
    assert Running(Limit())() == "running: 0:00"
    counted = Counted()
    counted.show(3, 1200, "requests answered, 1.2 s simulated")
    assert counted() == "3 of 1,200 requests answered, 1.2 s simulated, 0:00"


@pytest.mark.skipif(not HAVE_CORE, reason="the compiled core counts")
def test_a_run_on_packets_shows_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "design.yaml"
    path.write_text("workload: {source: collective, op: all_to_all, payload: 2 GB}\nnetwork:\n  backend: packets\n"
                    "  packets: {transport: roce}\n"
                    "  dims: [{shape: switch, npus: 8, bandwidth: 50 GB/s, latency: 500 ns}]\n")
    screen = Screen()
    monkeypatch.setattr(progress, "SOON", 0.01)
    monkeypatch.setattr(sys, "stderr", screen)
    assert main(["run", str(path)]) == 0
    said = [line for line in screen.getvalue().split("\r") if "simulated, " in line]
    assert said, screen.getvalue()
    assert "events/s" in said[-1]
