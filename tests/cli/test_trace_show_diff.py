"""`astrarium trace show` with times, and `astrarium trace diff`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from astrarium.trace import Attribute, Metadata, Node, attribute, encode_trace
from astrarium.trace.write import write_files

if TYPE_CHECKING:
    from tests.commands import Run


def _write(path: Path, name: str = "gemm") -> Path:
    cpu = attribute("is_cpu_op", False)
    nodes = [Node(1, name, 4, (), (), 100, 50, attrs=(cpu, attribute("stream", 7))),
             Node(2, "ncclDevKernel", 7, (), (1,), 130, 40, attrs=(
                 cpu, attribute("stream", 8), attribute("comm_type", 0), attribute("comm_size", 40_000_000))),
             Node(3, "tail", 4, (), (2,), 180, 20, attrs=(cpu, attribute("stream", 7)))]
    metadata = Metadata(attrs=(Attribute("world_size", 4, "int64_val"),))
    write_files([(str(path), encode_trace(metadata, nodes))])
    return path


def test_overlap_idle_and_busbw(run: Run, tmp_path: Path) -> None:
    said = run("trace", "show", _write(tmp_path / "w.0.et"), "--json")
    times = json.loads(said.out)["times"]
    assert {word: times[f"{word}_ns"] for word in ("span", "compute", "communication", "overlap", "idle")} == {
        "span": 100_000, "compute": 70_000, "communication": 40_000, "overlap": 20_000, "idle": 10_000}
    # 40 MB in 40 us are 1000 GB/s; 2 (n - 1) / n of it on 4 ranks
    assert times["collectives"][0]["busbw_gb_per_s"] == 1500
    said = run("trace", "show", tmp_path / "w.0.et")
    assert "1.5 TB/s" in said.out or "1500 GB/s" in said.out, said.out
    assert "10.0%" in said.out


def _waiting(path: Path, micros: tuple[int, ...]) -> Path:
    """A rank of two whose all_reduces of 30 MB took `micros`, waiting included."""
    nodes = [Node(number, "ncclDevKernel", 7, (), (number - 1,) if number else (), 1000 * number + 1, time, attrs=(
        attribute("is_cpu_op", False), attribute("stream", 8), attribute("comm_type", 0),
        attribute("comm_size", 30_000_000))) for number, time in enumerate(micros)]
    write_files([(str(path), encode_trace(Metadata(attrs=(Attribute("world_size", 2, "int64_val"),)), nodes))])
    return path


def test_collectives_of_several_ranks_are_without_waiting(run: Run, tmp_path: Path) -> None:
    """Of three all_reduces rank 1 comes last to two, rank 0 to one: 100, 150 and 100 us; the median is 300 GB/s."""
    paths = _waiting(tmp_path / "w.0.et", (900, 150, 700)), _waiting(tmp_path / "w.1.et", (100, 800, 100))
    shown = json.loads(run("trace", "show", tmp_path / "w.*.et", "--json").out)
    assert shown["times"]["collectives"][0]["recorded_ns"] == 1_750_000
    (found,) = shown["from_last_arrival"]
    assert (found["recorded_ns"], found["busbw_gb_per_s"], found["count"]) == (350_000, 300, 3)
    said = run("trace", "show", *paths)
    assert "from the arrival of the last one" in said.out
    assert "300 GB/s" in said.out
    assert "have a trace" not in said.out
    assert ", rank 0 of 2 (the last table alone has the other ranks): 3 nodes" in said.out
    assert "rank 0" not in run("trace", "show", paths[0]).out
    assert "from_last_arrival" not in run("trace", "show", paths[0], "--json").out


def test_the_statistics_are_a_page(run: Run, tmp_path: Path) -> None:
    """Well-formed, with the tables' figures, and safe whatever the names."""
    trace, page = _write(tmp_path / "w.0.et", name="<b>gemm & co"), tmp_path / "page.html"
    said = run("trace", "show", trace, "--html", page)
    assert (said.code, said.out) == (0, "")
    text = page.read_text()
    for words in ("over time, as recorded", "busbw", "GPU idle", "&lt;b&gt;gemm &amp; co", "<svg", "10.0%"):
        assert words in text
    assert "<b>" not in text
    shown = re.sub(r"(?s)<meta [^>]*>|<script.*?</script>", "", text.removeprefix("<!doctype html>"))
    tree = ET.fromstring(shown)
    assert len(tree.findall(".//table")) == 7
    assert run("trace", "show", trace, "--html", tmp_path / "absent" / "page.html").code == 1


def test_differences_are_listed(run: Run, tmp_path: Path) -> None:
    _write(tmp_path / "a.0.et")
    _write(tmp_path / "b.0.et", "other")
    said = run("trace", "diff", tmp_path / "a", tmp_path / "b")
    assert (said.code, "1 only in the first, 1 only in the second" in said.out) == (0, True)
    said = run("trace", "diff", tmp_path / "a.0.et", tmp_path / "a.0.et", "--json")
    assert json.loads(said.out)["same"] is True
