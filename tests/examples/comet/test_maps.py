"""Heat maps, lines of equal value, stacked bars: places and sizes are those of the numbers."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st
from maps import BAR, contour, heat_map, stacked_bars

VALUES = st.floats(0.01, 100)
GRID = st.integers(2, 5).flatmap(lambda n: st.lists(st.lists(VALUES, min_size=n, max_size=n), min_size=2, max_size=5))


@given(GRID, VALUES)
def test_a_contour_lies_where_the_interpolated_value_is_the_level(cells: list[list[float]], level: float) -> None:
    for piece in contour(cells, level):
        for x, y in piece:
            low, high = (math.floor(x), math.floor(y)), (math.ceil(x), math.ceil(y))
            share = (x - low[0]) + (y - low[1])      # an end lies on an edge: one of the two is whole
            first, second = math.log(cells[low[1]][low[0]]), math.log(cells[high[1]][high[0]])
            assert math.isclose(first + share * (second - first), math.log(level), abs_tol=1e-6)


@given(GRID, VALUES)
def test_a_square_with_values_on_both_sides_has_a_line(cells: list[list[float]], level: float) -> None:
    square = [cells[y][:2] for y in range(2)]
    sides = {value > level for row in square for value in row}
    assert bool(contour(square, level)) == (len(sides) == 2)


def test_an_empty_corner_has_no_line() -> None:
    assert contour([[1, 4], [1, 4]], 2) == [((0.5, 0), (0.5, 1))]
    assert contour([[1, None], [1, 4]], 2) == []


def test_heat_map() -> None:
    text = heat_map("A <b>", ("rows", ["r0", "r1"]), ("columns", ["c0", "c1"]), [[1, 4], [1, 16]],
                    lambda value: f"{value:g} s", [2])
    root = ET.fromstring(text)
    said = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [each for each in said if each and each.endswith(" s")] == ["2 s", "1 s", "4 s", "1 s", "16 s"]
    assert said[0] == "A <b>"
    assert {"r0", "r1", "c0", "c1", "rows", "columns"} <= set(said)
    fills = [each.get("fill") for each in root.iter("{http://www.w3.org/2000/svg}rect")][1:]
    assert fills == ["#f6f9fc", "#8ca6c3", "#f6f9fc", "#21548a"]


def test_an_empty_cell_is_grey_and_has_no_number() -> None:
    text = heat_map("T", ("r", ["a"]), ("c", ["x", "y"]), [[None, 3.0]], str)
    assert text.count('fill="#e8e8e8"') == 1
    assert ">3.0<" in text
    assert "None" not in text


def test_stacked_bars() -> None:
    text = stacked_bars("T", [("one", "#111"), ("two", "#222")], [("a", [1, 3]), ("b", [2, 0])], str)
    sizes = [float(size) for size in re.findall(r'width="([\d.]+)" height="15"', text)]
    assert sizes == [BAR / 4, BAR * 3 / 4, BAR / 2]
    assert "a, two: 3" in text
    ET.fromstring(text)
