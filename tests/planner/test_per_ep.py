"""The table of the best layout of each ep, which costs no simulation."""

from __future__ import annotations

import math

import pytest
from tests.planner.spaces import SPARSE

import astrarium as ar
from astrarium.planner.layout import layouts
from astrarium.report.tables.shortlist import shortlist_tables
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
    assert [row.split()[1] for row in text.strip().splitlines()[1:]] == ["1", "2", "4", "8"]
    unknown = sum(math.isnan(each.value) for each in found.per_ep)
    assert sum("at least" in row for row in text.splitlines()[2:]) == unknown
    assert [each["ep"] for each in found.plain["per_ep"]] == [1, 2, 4, 8]
    one = ar.plan(SPARSE, "h100_sxm", 16, seq=2048, global_batch=32, top=1, fixed={**FIXED, "ep": [8]})
    assert one.per_ep == ()
    assert not any("the best of each ep" in text_of(table) for table in shortlist_tables(one))
