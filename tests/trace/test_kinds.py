"""`kind` of traces: every writer says it, and show, check, diff and anonymise know it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astrarium.cli import main
from astrarium.trace import Metadata, TraceBuilder, attribute, check, encode_trace, traces_of_bytes
from astrarium.trace.anonymise import anonymise
from astrarium.trace.diff import diff_traces
from astrarium.trace.node import TRACE_KINDS, trace_kind
from astrarium.trace.transform import Job


def file(kind: str | None, **more: int) -> bytes:
    """A trace of one node."""
    made = TraceBuilder()
    made.comp("mm", **more)
    attrs = (attribute("kind", kind),) if kind else ()
    return encode_trace(Metadata("", attrs), made.nodes)


@pytest.mark.parametrize("kind", TRACE_KINDS)
def test_show_and_anonymise_keep_the_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    path = tmp_path / "w.0.et"
    path.write_bytes(file(kind, num_ops=100, tensor_size=10))
    assert main(["trace", "show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert f"w.0.et: {kind}, 1 nodes" in shown
    assert shown.split("FLOPs of compute")[1].split()[0] == "100"
    assert main(["trace", "show", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metadata"]["kind"] == kind
    job = Job([file(kind, duration=100)], {})
    assert trace_kind(anonymise(job, seed=1).job.traces().classes[0].metadata) == kind


def test_diff_compares_kinds() -> None:
    pair, = diff_traces(traces_of_bytes([file("pre", num_ops=7)]), traces_of_bytes([file("post", num_ops=9)])).pairs
    assert pair.kinds == ("pre", "post")
    assert pair.totals["compute"]["flop"] == (7, 9)


def test_the_doctor_names_mixed_and_unknown_kinds() -> None:
    files = [file("pre", duration=1), file("post", num_ops=2), file("made up", tensor_size=3)]
    found = check(traces_of_bytes(files))
    kinds = [(each.severity, each.code) for each in found if "kind" in each.code]
    assert kinds == [("warning", "mixed_kinds"), ("warning", "unknown_kind")]
    assert check(traces_of_bytes([file("pre", duration=1)] * 3)) == []
    assert check(traces_of_bytes([file(None, duration=1)])) == []     # as Chakra's own converters write


def test_a_builder_says_that_it_made_it_up() -> None:
    made = TraceBuilder()
    made.comp("mm", 1)
    assert made.metadata.attrs == (attribute("kind", "synthesised"),)
