"""Charts as SVG: well-formed whatever the names, ticks that are read, points where their values are."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from astrarium.report.svg import charts as svg
from astrarium.report.svg.charts import Area, Band, Mark, Ruler

HOSTILE = "</svg><script>alert('&\"')</script>"
SHAPE = Mark(0.5, "dot", "#222222", says=HOSTILE)
CHARTS: dict[str, Callable[[str], str]] = {
    "lines": lambda name: svg.lines([Band(name, [1, 2], [1, 2], [0, 1], [2, 3])], name, name, lambda value: name),
    "points": lambda name: svg.points([(name, [(1, 2), (3, 4)])], name, name, lambda _: name, lambda _: name),
    "against": lambda name: svg.against([(name, [(1.0, 2.0)])], name, name, 0.1),
    "over_time": lambda name: svg.over_time([(name, [0, 1], [2, 3])], name, name, {name: 2.5}, [[(0.2, 0.4)]]),
    "roofline": lambda name: svg.roofline([(name, 10.0, 5.0)], 100.0, 2.0),
    "bars": lambda name: svg.bars([(name, 0.5), (name, 0.0)]),
    "ranges": lambda name: svg.ranges([name], [(name, [(0.5, 0.2, 0.7)]), ("b", [None])], name, 0.0),
    "parallel": lambda name: svg.parallel([name, "b"], [[name, "y"], ["z"]], [[0, 1], [1, 0.5]], [1.0, 0.0]),
    "strip": lambda name: svg.strip(Ruler(0, 1), name, 20, [Area(0.2, 0.4, "#ececec", 8)], [SHAPE],
                                    [(0.3, "#555", "3 3")]),
    "sign": lambda name: svg.sign(Mark(0, "dot", "#222222", says=name)),
    "ruler_line": lambda name: svg.ruler_line(Ruler(0, 1), lambda _: name),
}


def parsed(text: str) -> ET.Element:
    assert "<script" not in text
    assert "nan" not in text
    assert "inf" not in text
    return ET.fromstring(text)


def words(root: ET.Element) -> list[str]:
    return [each.text or "" for each in root.iter() if each.tag in ("text", "title")]


@pytest.mark.parametrize("chart", CHARTS)
def test_hostile_names_are_text(chart: str) -> None:
    """Each name is drawn as it was given, or read to those who see nothing."""
    root = parsed(CHARTS[chart](HOSTILE))
    assert any(HOSTILE in each for each in [*words(root), root.get("aria-label", "")])


def coordinates(root: ET.Element) -> list[tuple[float, float]]:
    return [(float(each.get("cx", "")), float(each.get("cy", ""))) for each in root.iter("circle")]


def test_points_lie_where_their_values_are() -> None:
    """On linear axes: the ends at the frame, the middle in the middle; y grows upwards."""
    found = coordinates(parsed(svg.points([("a", [(10, 0), (11, 2)]), ("b", [(12, 1)])], "x", "y")))
    left, right = svg.LEFT, svg.WIDTH - svg.RIGHT
    top, bottom = svg.TOP, svg.HEIGHT - svg.BOTTOM
    assert found == [(left, bottom), ((left + right) / 2, top), (right, (top + bottom) / 2)]


def test_values_that_span_more_than_a_factor_of_five_stand_on_a_logarithmic_axis() -> None:
    xs = [x for x, _ in coordinates(parsed(svg.points([("a", [(1, 1), (10, 1), (100, 1)])], "x", "y")))]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1])
    xs = [x for x, _ in coordinates(parsed(svg.points([("a", [(1, 1), (3, 1), (5, 1)])], "x", "y")))]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1])


@pytest.mark.parametrize(("low", "high", "logarithm", "ticks"), [
    (0.0, 1.0, False, [0, 0.2, 0.4, 0.6, 0.8, 1]), (-1.0, 1.0, False, [-1, -0.5, 0, 0.5, 1]),
    (3.0, 3.0, False, [3]), (1.0, 100.0, True, [1, 2, 5, 10, 20, 50, 100]),
    (1.0, 1e9, True, [10**n for n in range(10)]), (7.0, 41.0, True, [10, 20])])
def test_ticks_are_round_numbers(low: float, high: float, logarithm: bool, ticks: list[float]) -> None:
    assert svg._ticks(low, high, logarithm) == pytest.approx(ticks)


def test_ticks_are_written_by_the_caller() -> None:
    band = Band("a", [0, 1], [0, 1], [0, 1], [0, 1])
    found = words(parsed(svg.lines([band], "x", "y", lambda value: f"{value:.1f} s")))
    assert {"0.0 s", "0.2 s", "1.0 s", "x", "y", "a"} <= set(found)


def test_values_that_are_none_leave_a_gap() -> None:
    """A band whose first trials were infeasible begins where values begin."""
    root = parsed(svg.lines([Band("a", [0, 1, 2], [math.inf, 2, 1], [math.inf, 1, 1], [math.inf, 3, 1])], "x", "y"))
    way, = (each.get("points", "") for each in root.iter("polyline"))
    assert len(way.split()) == 2
    assert len(parsed(svg.points([("a", [])], "x", "y")).findall("circle")) == 0


def test_a_line_of_equal_values_is_no_division_by_zero() -> None:
    root = parsed(svg.lines([Band("a", [5, 5], [7, 7], [7, 7], [7, 7])], "x", "y"))
    way, = (each.get("points", "") for each in root.iter("polyline"))
    assert len(set(way.split())) == 1
    parsed(svg.over_time([("a", [0.0], [0.0])], "x", "y", {}))
    parsed(svg.bars([]))


def test_bars_are_as_wide_as_their_share_of_the_longest() -> None:
    root = parsed(svg.bars([("a", 4.0), ("b", 1.0), ("c", 0.0)]))
    widths = [float(each.get("width", "")) for each in root.iter("rect")]
    assert widths[1] == pytest.approx(widths[0] / 4, abs=0.1)
    assert widths[2] == 0


def test_a_roofline_bends_where_peak_and_bandwidth_meet() -> None:
    """100 TFLOP/s over 2 TB/s: at 50 FLOPs per byte; a kernel on the roof lies on the line."""
    root = parsed(svg.roofline([("a", 50.0, 100.0), ("b", 10.0, 20.0)], 100.0, 2.0))
    line = next(each.get("d", "") for each in root.iter("path") if each.get("fill") == "none")
    start, bend = line.removeprefix("M").split("H")[0].split("L")
    assert coordinates(root)[0] == pytest.approx(tuple(map(float, bend.split())), abs=0.1)
    (x0, y0), (x1, y1), (x, y) = map(float, start.split()), map(float, bend.split()), coordinates(root)[1]
    assert y == pytest.approx(y0 + (x - x0) / (x1 - x0) * (y1 - y0), abs=0.2)


def test_a_limit_is_drawn_where_it_is() -> None:
    root = parsed(svg.over_time([("a", [0, 1], [1.0, 2.0])], "s", "GB", {"capacity": 2.0}))
    assert "capacity" in words(root)
    held = next(each.get("d", "") for each in root.iter("path") if each.get("stroke-width") == "1.5")
    line = next(each.get("d", "") for each in root.iter("path") if each.get("stroke") == "#c00")
    assert held.endswith("V" + line.partition(" ")[2].partition("H")[0])
    assert "capacity" not in words(parsed(svg.over_time([("a", [0, 1], [1.0, 2.0])], "s", "GB", {})))


def test_a_ruler_keeps_values_on_it() -> None:
    ruler = Ruler(10.0, 20.0)
    assert [ruler.at(value) for value in (9.0, 10.0, 12.5, 20.0, 99.0)] == ["0.000%", "0.000%", "25.000%", "100.000%",
                                                                           "100.000%"]
    root = parsed(svg.strip(ruler, "a", 20, [Area(5.0, 15.0, "#ececec", 8)], [Mark(15.0, "left", "#222222", False)]))
    area = root.findall("rect")[1]
    assert (area.get("x"), area.get("width")) == ("0.000%", "50.000%")
    assert [each.get("x") for each in root.findall("svg")] == ["50.000%"]


def test_designs_of_parallel_coordinates() -> None:
    """The best line is strong and comes last; many labels are the first and the last one."""
    root = parsed(svg.parallel(["a", "b"], [list("0123456789"), ["only"]], [[0, 0], [1, 1]], [1.0, 0.0]))
    lines = root.findall("polyline")
    assert [each.get("stroke-opacity") for each in lines] == ["0.15", "0.90"]
    assert [each.get("stroke") for each in lines] == list(svg.COLOURS[:2])
    assert set(words(root)) == {"a", "b", "0", "9", "only"}
