"""Pictures of graphs without Graphviz: whole XML, boxes apart, dependencies downward."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astrarium.report.svg.graph import Shape, svg_text
from astrarium.report.trace import graph as trace_graph
from astrarium.report.trace.graph import picture, rendered
from astrarium.report.trace.scopes import opened
from astrarium.trace import TraceBuilder, traces_of_bytes
from astrarium.vocab import CommOp

SVG = "{http://www.w3.org/2000/svg}"
Box = tuple[float, float, float, float]


def drawn(text: str) -> tuple[list[Box], list[list[float]]]:
    """Boxes (left, top, right, bottom); the first and last point of every dependency."""
    root = ET.fromstring(text)
    boxes = [(float(each.get("x", 0)), float(each.get("y", 0)), float(each.get("x", 0)) + float(each.get("width", 0)),
              float(each.get("y", 0)) + float(each.get("height", 0))) for each in root.findall(f"{SVG}rect")]
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


@pytest.mark.parametrize("name", ["W" * 90, "w" * 45, "\u4e2d" * 60, "i" * 300, "A" * 50, "a/b" * 40, ""])
def test_text_fits_its_box(name: str) -> None:
    """As wide as letters of Helvetica: a W is 944 thousandths of the size, an i 222, East Asian ones 1000."""
    per_mille = {"W": 944, "w": 722, "\u4e2d": 1000, "i": 222, "A": 667, "/": 278, "\u2026": 1000}
    root = ET.fromstring("\n".join(svg_text([Shape((name,), "#ffffff")], {})))
    shown = str(root.findtext(f"{SVG}text"))
    width = float(root.findall(f"{SVG}rect")[0].get("width", 0))
    assert sum(per_mille.get(letter, 556) for letter in shown) * 12 / 1000 <= width - 10
    assert width <= 480


def test_long_edges_go_between_boxes() -> None:
    edges = {(at, at + 1, "data"): 1 for at in range(5)} | {(0, 5, "data"): 1, (0, 4, "control"): 1}
    text = "\n".join(svg_text([Shape(("a box",), "#ffffff")] * 6, edges))     # type: ignore[arg-type]
    boxes, _ = drawn(text)
    down = [(float(x), float(y), float(low)) for x, y, low in
            re.findall(r"([\d.]+) ([\d.]+) V([\d.]+)", text)]
    assert len(down) == 4 + 3
    for x, top, bottom in down:
        assert not [box for box in boxes if box[0] <= x <= box[2] and top < box[3] and box[1] < bottom]


def test_colours_and_dashes_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_graph.shutil, "which", lambda name: None)
    made = TraceBuilder()
    first = made.comp("a", 5)
    host = made.comp("b", 5, cpu=True, after=[first])
    made.coll("c", CommOp.ALL_REDUCE, 8, ctrl=[host])
    root = ET.fromstring(rendered(picture(traces_of_bytes([made.encode()]).classes[0]), "svg"))
    assert [each.findtext(f"{SVG}text") for each in root.findall(f"{SVG}g")] == \
        ["compute", "host", "collective", "control dependency"]


def test_numbers_of_too_many_scopes_do_not_count() -> None:
    made = TraceBuilder()
    for place in range(40):
        made.comp(f"{'norm' if place % 2 else 'mm'}_{place}", 5)
    found = picture(traces_of_bytes([made.encode()]).classes[0], limit=10)
    assert [(box.label, box.nodes) for box in found.boxes] == [("mm_#", 20), ("norm_#", 20)]


def test_of_too_many_scopes_the_smallest_are_one() -> None:
    made = TraceBuilder()
    for place in range(30):
        made.comp(f"scope{min(place, 20)}.op", 5)
    columns = traces_of_bytes([made.encode()]).classes[0]
    found = picture(columns, limit=4, depth=1)
    assert sorted((box.label, box.nodes) for box in found.boxes) == [
        ("18 other scopes", 18), ("scope0", 1), ("scope1", 1), ("scope20", 10)]


def test_the_heaviest_scopes_are_opened() -> None:
    paths = [("a", "x", "1"), ("a", "x", "2"), ("a", "y"), ("b", "z"), ("b", "w"), ("c",)]
    weight = [5.0, 4.0, 1.0, 2.0, 2.0, 0.5]
    assert opened(paths, weight, 3) == [("a",), ("a",), ("a",), ("b",), ("b",), ("c",)]
    assert opened(paths, weight, 4) == [("a", "x"), ("a", "x"), ("a", "y"), ("b",), ("b",), ("c",)]
    assert opened(paths, weight, 5) == [("a", "x", "1"), ("a", "x", "2"), ("a", "y"), ("b",), ("b",), ("c",)]
    assert opened(paths, weight, 2) == [("a",)] * 3 + [("2 other scopes",)] * 3
    assert opened(paths, weight, 2, whole=True) == [("the trace",)] * 6
    many = [("s", str(place)) for place in range(50)]
    kept = opened(many, [1.0] * 50, 40)
    assert (len(set(kept)), kept.count(("s", "39 other scopes"))) == (12, 39)


def test_a_picture_of_scopes_is_no_wider_than_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_graph.shutil, "which", lambda name: None)
    made, last = TraceBuilder(), list[int]()
    for place in range(1645):
        name = f"part{place % 9}.{'abcdefgh'[place % 8] * 6}.op"
        last = [made.comp(name, 5 + place % 9, cpu=place % 2 == 0, after=last)]
    text = rendered(picture(traces_of_bytes([made.encode()]).classes[0]), "svg").decode()
    root = ET.fromstring(text)
    assert float(root.get("width", 0)) < 2300
    assert "rarer dependencies are not drawn" in text
    assert "#cfe2f3" in {each.get("fill") for each in root.findall(f"{SVG}rect")}     # not only the host
