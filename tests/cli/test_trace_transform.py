"""`astrarium trace transform`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from astrarium.trace import TraceBuilder, read_traces

if TYPE_CHECKING:
    from tests.commands import Run


def test_steps_are_taken_in_order(run: Run, tmp_path: Path) -> None:
    made = TraceBuilder()
    made.comp("*a*", 10)
    made.comp("b", 20, after=[0])
    made.write(tmp_path / "w.0.et")
    said = run("trace", "transform", tmp_path / "w", "-o", tmp_path / "o", "--step", "scale-durations:by=2,name=b",
               "--step", "rename:name=b,to={name},again", "--json")
    assert (said.code, json.loads(said.out)["ranks"]) == (0, 1)
    columns = read_traces(tmp_path / "o").classes[0]
    assert (columns.duration.tolist(), columns.names()) == ([10, 40], ["*a*", "b,again"])
    said = run("trace", "transform", tmp_path / "w", tmp_path / "o", "-o", tmp_path / "m", "--merge", "time")
    assert (said.code, read_traces(tmp_path / "m").classes[0].nodes) == (0, 5)


def test_what_is_refused(run: Run, tmp_path: Path) -> None:
    TraceBuilder().write(tmp_path / "w.0.et")
    for step, words in (("scale:by=2", "did you mean"), ("rename:to=x,nmae=y", "did you mean 'name'"),
                        ("cut_ranks:ranks=1", "rank 1"), ("scale_sizes:by=x", "scale_sizes.by")):
        said = run("trace", "transform", tmp_path / "w", "-o", tmp_path / "o", "--step", step)
        assert (said.code, words in said.err) == (1, True), said.err


def test_anonymised_traces_are_written_with_their_names_aside(run: Run, tmp_path: Path) -> None:
    made = TraceBuilder()
    made.comp("secret", 1000)
    made.write(tmp_path / "w.0.et")
    said = run("trace", "anonymise", tmp_path / "w", "-o", tmp_path / "o", "--seed", "7", "--durations", "10",
               "--names", tmp_path / "names.json", "--json")
    assert (said.code, json.loads(said.out)["renamed"]) == (0, 1)
    assert json.loads((tmp_path / "names.json").read_text()) == {"op0": "secret"}
    columns = read_traces(tmp_path / "o").classes[0]
    assert columns.names() == ["op0"]
    assert 900 <= int(columns.duration[0]) <= 1100
