"""Pictures of graphs without Graphviz: whole XML, boxes apart, dependencies downward."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astrarium.report import trace_graph
from astrarium.report.trace_graph import picture, rendered
from astrarium.report.trace_svg import Shape, svg_text
from astrarium.trace import TraceBuilder, traces_of_bytes

SVG = "{http://www.w3.org/2000/svg}"
Box = tuple[float, float, float, float]


def drawn(text: str) -> tuple[list[Box], list[list[float]]]:
    """Boxes (left, top, right, bottom); the first and last point of every dependency."""
    root = ET.fromstring(text)
    boxes = [(float(each.get("x", 0)), float(each.get("y", 0)), float(each.get("x", 0)) + float(each.get("width", 0)),
              float(each.get("y", 0)) + float(each.get("height", 0))) for each in root.iter(f"{SVG}rect")]
    lines = [[float(number) for number in re.findall(r"-?[\d.]+", each.get("d", ""))]
             for each in root.findall(f"{SVG}path")]
    return boxes, [[line[0], line[1], line[-2], line[-1]] for line in lines]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 25).flatmap(lambda count: st.tuples(
    st.lists(st.text(max_size=70), min_size=count, max_size=count),
    st.dictionaries(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1),
                              st.sampled_from(["data", "control"])), st.integers(1, 9), max_size=40))))
def test_any_graph(case: tuple[list[str], dict[tuple[int, int, str], int]]) -> None:
    labels, edges = case
    text = "\n".join(svg_text([Shape((label,), "#ffffff") for label in labels], edges))
    boxes, lines = drawn(text)
    assert (len(boxes), len(lines)) == (len(labels), len(edges))
    for a, b in combinations(boxes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    ascending = {key for key in edges if key[0] < key[1]}
    if len(ascending) == len(edges):      # no cycle
        assert all(line[1] < line[3] for line in lines)


def test_a_trace_without_graphviz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_graph.shutil, "which", lambda name: None)
    made, last = TraceBuilder(), list[int]()
    for place in range(3):
        last = [made.comp(f"a<&>{place}", 5, after=last)]
    columns = traces_of_bytes([made.encode()]).classes[0]
    boxes, lines = drawn(rendered(picture(columns), "svg").decode())
    assert (len(boxes), len(lines)) == (3, 2)
    assert rendered(picture(columns), "svg") == rendered(picture(columns), "svg")


def test_of_too_many_scopes_the_smallest_are_one() -> None:
    made = TraceBuilder()
    for place in range(30):
        made.comp(f"scope{min(place, 20)}.op", 5)
    found = picture(traces_of_bytes([made.encode()]).classes[0], limit=4)
    assert sorted((box.label, box.nodes) for box in found.boxes) == [
        ("18 other scopes", 18), ("scope0", 1), ("scope1", 1), ("scope20", 10)]
