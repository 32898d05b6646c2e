"""Pictures of `plan` and `validate` pages: a row per design and per source, positions in proportion to values."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from types import MappingProxyType

import numpy as np
import pytest
from msgspec.structs import replace
from tests.report.test_pages import checked, training

import astrarium as ar
from astrarium.cost.interval import Interval
from astrarium.planner.shortlist import Line
from astrarium.report.pages.html import row, signs
from astrarium.report.pages.intervals import interval_rows
from astrarium.report.pages.plan import plan_page
from astrarium.report.pages.validation import validation_page
from astrarium.report.svg.charts import Area, Mark, Ruler, ruler_line, strip
from astrarium.validate.designs import Candidate
from astrarium.validate.predict import Prediction, Value
from astrarium.validate.rows import Row
from astrarium.validate.score import errors_of, scored
from astrarium.validate.verdict import Validation

FIXED = {"cp": [1], "zero": [1], "virtual_stages": [1], "micro_batch": [1], "recompute": ["none"], "tp": [2, 4, 8]}
BAR = "#8fb0d0"


def drawn(text: str) -> list[ET.Element]:
    """Strips of a page, without rulers."""
    return [ET.fromstring(each) for each in re.findall(r'<svg width="100%"[^>]*aria-label.*?</svg>(?=</div>)', text)]


def marks(picture: ET.Element) -> list[float]:
    """Where the marks of a strip are, in % of its width."""
    return [float(each.attrib["x"].rstrip("%")) for each in picture.findall("svg")]


def bars(picture: ET.Element, colour: str) -> list[tuple[float, float]]:
    """(left, right) of boxes of a colour, in %."""
    boxes = [each for each in picture.findall("rect") if each.attrib["fill"] == colour]
    sides = [(float(each.attrib["x"].rstrip("%")), float(each.attrib["width"].rstrip("%"))) for each in boxes]
    return [(left, left + width) for left, width in sides]


@pytest.fixture(scope="module")
def found() -> ar.Shortlist:
    return ar.plan("llama3-8b", "h100_sxm", 16, seq=2048, global_batch=16, top=3, fixed=FIXED)


def unvalidated(line: Line) -> Line:
    """The same with simulated collectives, which nobody has measured a step with."""
    made = replace(line, design=ar.replace(line.design, "collective.model", "simulated"), tie=None)
    assert not made.within.validated
    return made


def test_a_row_per_design_in_proportion(found: ar.Shortlist) -> None:
    text = plan_page(found)
    checked(text)
    pictures = drawn(text)
    assert len(pictures) == len(found.lines) == 3
    times = [line.time for line in found.lines]
    places = [marks(each)[0] for each in pictures]
    scale = (places[2] - places[0]) / (times[2] - times[0])
    assert scale > 0
    for line, picture, place in zip(found.lines, pictures, places, strict=True):
        around = line.within.around(line.time)
        assert around is not None
        assert place == pytest.approx(places[0] + scale * (line.time - times[0]), abs=0.01)
        ends = [places[0] + scale * (end - times[0]) for end in around]
        assert bars(picture, BAR)[0] == pytest.approx(ends, abs=0.01)
        assert 0 <= ends[0] < place < ends[1] <= 100
        assert bars(picture, "#ececec") == [pytest.approx(bars(pictures[0], BAR)[0])]      # the best one's, behind all
    assert [("ties with 1" in each.attrib["aria-label"]) for each in pictures] == [
        bool(line.tie) for line in found.lines]
    assert "the fastest" in text
    assert text == plan_page(found)


def test_slower_and_unvalidated_designs_look_different(found: ar.Shortlist) -> None:
    best, second, third = found.lines
    slow = replace(second, time=3 * best.time, tie=False)
    lines = [("1", best), ("2", slow), ("now", replace(unvalidated(third), device="<b>"))]
    text = "".join(interval_rows(lines))
    pictures = drawn(text)
    assert [len(bars(each, BAR)) for each in pictures] == [1, 1, 0]
    assert ["unvalidated" in each.attrib["aria-label"] for each in pictures] == [False, False, True]
    paths = [each.find("svg/path") for each in pictures]
    assert len({(path.attrib["d"], path.attrib["fill"]) for path in paths if path is not None}) == 3
    assert "slower than the fastest" in text
    assert "ties with the fastest" not in text
    assert "<b>" not in text
    assert "now: &lt;b&gt;: " in text


def test_a_shortlist_without_intervals_has_dots_alone(found: ar.Shortlist) -> None:
    text = plan_page(replace(found, lines=tuple(map(unvalidated, found.lines))))
    checked(text)
    assert len(drawn(text)) == 3
    assert BAR not in text
    assert "lies in the grey" not in text
    assert len(re.findall(r"[0-9] m?s, unvalidated</span>", text)) == 3


def test_one_design_has_a_ruler_too(found: ar.Shortlist) -> None:
    text = "".join(interval_rows([("1", unvalidated(found.best))]))
    assert marks(drawn(text)[0]) == [pytest.approx(50, abs=0.01)]


def prediction(source: str, case: str, errors: dict[str, float], stated: bool = True) -> Prediction:
    """A row whose metrics were measured as 10 and predicted with these errors."""
    line = Row("rows.csv", 1, "training", MappingProxyType({"source": source, "case": case}))
    meant = Candidate(training(), "nemo", "h100_sxm", ("batch: 8",), stated)
    return Prediction(line, meant, 1.0, tuple(Value(name, 10.0, 10.0 * (1 + error)) for name, error in errors.items()))


def validation(*rows: tuple[Prediction, bool]) -> Validation:
    return Validation([each for each, _ in rows], [fitted for _, fitted in rows], {}, {}, {})


ERRORS = (0.01, -0.02, 0.05, 0.1, -0.3, 0.9, -0.7)


def test_a_dot_per_row_in_proportion() -> None:
    made = [prediction("A & <i>", f"case {place}", {"step_s": error, "tok_s_gpu": 0.2, "mem_GiB": 0.25})
            for place, error in enumerate(ERRORS)]
    text = validation_page(validation(*((each, False) for each in made)))
    checked(text)
    assert "<i>" not in text.replace("<i style", "")
    time, memory = drawn(text)                  # and none of tok_s_gpu: these rows are scored by step_s
    assert "scored by another metric" in text
    assert marks(time) == pytest.approx([50 + 100 * min(max(error, -0.5), 0.5) for error in ERRORS], abs=0.01)
    assert marks(memory) == pytest.approx([75.0] * len(ERRORS), abs=0.01)
    assert bars(time, "#ececec") == [pytest.approx((30, 70))]
    size = np.abs(errors_of(made))
    lines = sorted(float(each.attrib["x1"].rstrip("%")) for each in time.findall("line"))
    median = 100 * float(np.median(size))
    assert lines == pytest.approx([50 - median, 50, 50 + median], abs=0.01)     # p90 is beyond the edge
    assert f"7 rows: median {median:.1f} %, p90 {100 * np.quantile(size, 0.9):.1f} %, 2 beyond 50 % (-70.0 % to " \
        "+90.0 %)" in text
    titles = [each.text or "" for each in time.iter("title")]
    assert titles[5] == "case 5: step_s 10 measured, 19 predicted, +90.0 %"


def test_dots_of_equal_errors_do_not_cover_each_other() -> None:
    made = [prediction("A", str(place), {"step_s": 0.03}) for place in range(60)]
    (picture,) = drawn(validation_page(validation(*((each, False) for each in made))))
    height = float(picture.attrib["height"])
    places = {float(each.attrib["y"]) for each in picture.findall("svg")}
    assert len(places) == 60
    assert min(places) >= 4
    assert max(places) <= height - 4
    assert height <= 110


def test_median_and_p90_are_marked_on_both_sides() -> None:
    made = [prediction("A", "a", {"step_s": error}) for error in (0.0, 0.1, -0.2)]
    (picture,) = drawn(validation_page(validation(*((each, False) for each in made))))
    lines = {(float(each.attrib["x1"].rstrip("%")), each.attrib["stroke-dasharray"])
             for each in picture.findall("line")}
    assert lines == {(50, ""), (40, ""), (60, ""), (32, "4 3"), (68, "4 3")}


def test_kinds_of_rows_are_apart_and_rates_count_as_time() -> None:
    made = validation((prediction("A", "seen", {"step_s": 0.1}), True),
                      (prediction("A", "new", {"step_s": -0.1}), False),
                      (prediction("B", "open", {"tok_s_gpu": 0.25}, stated=False), False),
                      (prediction("B", "seen, open", {"step_s": 0.3}, stated=False), True))
    text = validation_page(made)
    checked(text)
    groups = re.findall(r"<section>.*?</section>", text, re.DOTALL)
    assert [re.findall("<h3>(.*?)</h3>", each)[0] for each in groups] == [
        "Rows that no fit has seen (1)", "Rows on which a stack was fitted (1)",
        "Rows that do not state everything (1)", "Rows that do not state everything (1)"]
    assert [marks(drawn(each)[0]) for each in groups] == [
        [pytest.approx(place, abs=0.01)] for place in (40, 60, 80, 30)]        # a rate 25 % too high: a time 20 % short
    assert [("assumed: batch: 8" in each) for each in groups] == [False, False, True, True]
    assert [("rate that is too low" in each) for each in groups] == [False, False, False, True]


def test_sources_beyond_the_colours_have_strips_of_their_own() -> None:
    made = [(prediction(f"source {place:02}", "a", {"step_s": 0.01 * place}), False) for place in range(12)]
    text = validation_page(validation(*made))
    assert len(drawn(text)) == 12
    assert "3 more sources (3)" in text


def test_a_row_is_scored_by_its_first_timed_metric() -> None:
    made = prediction("A", "a", {"mem_GiB": 0.5, "tok_s_gpu": 0.1, "step_s": 0.2})
    assert scored(made) is made.values[1]
    assert scored(made, "mem_GiB") is made.values[0]
    assert scored(prediction("A", "a", {"mem_GiB": 0.5})) is None


def test_strips_and_rulers_are_sound() -> None:
    ruler = Ruler(-2.0, 6.0)
    assert [ruler.at(value) for value in (-2.0, 0.0, 6.0, -9.0, 99.0)] == [
        "0.000%", "25.000%", "100.000%", "0.000%", "100.000%"]
    picture = ET.fromstring(strip(ruler, 'a "b" <c>', 20, [Area(-9.0, 2.0, "#111111", 8)],
                                  [Mark(4.0, "diamond", "#222", says="<x>")]))
    assert picture.attrib["aria-label"] == 'a "b" <c>'
    assert bars(picture, "#111111") == [(0.0, 50.0)]
    assert marks(picture) == [75.0]
    ticks = ET.fromstring(ruler_line(ruler, lambda value: f"{value:g} <s>"))
    said = [(float(each.attrib["x"].rstrip("%")), float((each.text or "").split()[0])) for each in ticks.iter("text")]
    assert len(said) >= 4
    assert all(place == pytest.approx(100 * (value + 2) / 8) for place, value in said)
    assert "&lt;x&gt;" in row("<x>", "<y>", "") + signs({"<x>": Mark(0, "dot", "#222")})


def test_the_interval_of_a_line_is_what_is_drawn(found: ar.Shortlist) -> None:
    """Not a constant of the picture: twice as wide where the record says so."""
    best = found.best
    within = best.within
    assert within.low is not None
    assert within.high is not None
    wide = replace(best)
    wide.__dict__["within"] = Interval(within.stack, within.device, within.rows, 1 - 2 * (1 - within.low),
                                       1 + 2 * (within.high - 1))
    (one, other) = drawn("".join(interval_rows([("1", best), ("2", wide)])))
    widths = [right - left for left, right in (bars(one, BAR)[0], bars(other, BAR)[0])]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.01)
