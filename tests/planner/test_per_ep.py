"""The table of the best layout of each ep, which costs no simulation."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace
from tests.planner.spaces import SPARSE

import astrarium as ar
from astrarium.planner.layout import layouts
from astrarium.planner.shortlist import Line
from astrarium.report.tables.shortlist import ep_verdict, shortlist_tables
from astrarium.report.tables.table import text_of

FIXED = {"cp": [1], "micro_batch": [2], "tp": [1], "recompute": ["none"], "pp": [1]}


@pytest.fixture(scope="module")
def found() -> ar.Shortlist:
    return ar.plan(SPARSE, "h100_sxm", 16, seq=2048, global_batch=32, top=1, fixed=FIXED)


def test_every_ep_has_a_row_that_holds(found: ar.Shortlist) -> None:
    line = found.best
    assert [each.ep for each in found.per_ep] == [1, 2, 4, 8]
    simulated = [each for each in found.per_ep if not math.isnan(each.value)]
    assert len(simulated) <= found.simulated < len(list(layouts(line.job, 16, 8, FIXED)))
    assert line.layout == min(simulated, key=lambda each: each.value).layout
    for each in found.per_ep:       # the bound and the value enclose what a plan of that ep alone finds
        best = ar.plan(SPARSE, "h100_sxm", 16, seq=2048, global_batch=32, top=1,
                       fixed={**FIXED, "ep": [each.ep]}).best
        assert each.least <= best.time
        assert math.isnan(each.value) or best.time <= each.value
        assert each.value != each.least or best.layout == each.layout


def test_the_answer_has_a_table_of_them(found: ar.Shortlist) -> None:
    text = next(text for table in shortlist_tables(found) if "the best of each ep" in (text := text_of(table)))
    assert [row.split()[1] for row in text.strip().splitlines()[2:]] == ["1", "2", "4", "8"]
    unknown = sum(math.isnan(each.value) for each in found.per_ep)
    assert sum("at least" in row for row in text.strip().splitlines()[2:]) == unknown
    assert [each["ep"] for each in found.plain["per_ep"]] == [1, 2, 4, 8]
    one = ar.plan(SPARSE, "h100_sxm", 16, seq=2048, global_batch=32, top=1, fixed={**FIXED, "ep": [8]})
    assert one.per_ep == ()
    assert not any("the best of each ep" in text_of(table) for table in shortlist_tables(one))


def test_a_sentence_says_whether_the_best_ep_is_decided(found: ar.Shortlist) -> None:
    """By the lower bounds of the others, and by the interval of line 1 where there is one."""
    ep = found.best.layout.ep
    others = [each for each in found.per_ep if each.ep != ep]
    least = min(others, key=lambda each: each.least)
    said = ep_verdict(found)
    assert said.startswith(f"ep {ep} is predicted the best; the next, ep {least.ep}, is ")
    assert f"{100 * (least.least / found.best.value - 1):.1f} % slower" in said

    def known(low: float | None, high: float | None) -> Line:
        within = replace(found.best.within, low=low, high=high, extrapolated=(), beyond=0.0)
        line = replace(found.best)
        line.__dict__["within"] = within
        return line

    ratio = least.least / found.best.value
    middle = (1 + ratio) / 2
    wide, below, narrow = (replace(found, lines=(known(*ends),)) for ends in (
        (0.9, ratio * 1.01), (0.99 / ratio, middle), (1 / middle, middle)))
    assert ep_verdict(wide).endswith(": undecided, as that is within the interval of line 1")
    assert ep_verdict(below).endswith(": undecided, as line 1 is within the same interval around that")
    assert ep_verdict(narrow).endswith(": decided, as neither is within such an interval of the other")
    assert ep_verdict(replace(found, lines=(known(None, None),))).endswith(" (without an interval, so not decided by "
                                                                           "measurements)")
    near = replace(least, value=math.nan, least=found.best.value / 2)
    assert ep_verdict(replace(found, per_ep=(*found.per_ep, near))) == \
        f"undecided: ep {least.ep} may be better than ep {ep}, as its lower bound is below line 1"
    alone = tuple(each if each.ep == ep else replace(each, layout=None) for each in found.per_ep)
    assert ep_verdict(replace(found, per_ep=alone)) == f"only ep {ep} fits"
