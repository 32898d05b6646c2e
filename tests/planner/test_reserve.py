"""Head room: by the stack, by the caller, and what it leaves out."""

from __future__ import annotations

import csv
import statistics

import pytest
from tests.loading import ROOT
from tests.planner.spaces import DENSE

import astrarium as ar
from astrarium import catalog
from astrarium.planner.reserve import reserve_of

FIX = {"cp": [1], "micro_batch": [1], "recompute": ["none"], "virtual_stages": [1]}


def test_that_of_megatron_core_is_the_median_of_its_rows() -> None:
    text = (ROOT / "tests/published/memory/simumax.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    above = [float(row["max_reserved_MiB"]) / float(row["max_allocated_MiB"]) - 1 for row in rows]
    assert reserve_of(None, "megatron-core").share == pytest.approx(statistics.median(above), abs=5e-4)
    assert reserve_of(None, "nemo").share == reserve_of(None, None).share == reserve_of(None, "megatron-core").share
    assert "stack nemo has no rows of it" in reserve_of(None, "nemo").text
    assert "(measured with megatron-core, as there is no stack; to change" in reserve_of(None, None).text


def test_a_stack_with_a_reserve_says_where_it_is_from() -> None:
    rows = {name: row for name, row in catalog.load("stacks").items() if "reserve" in row}
    assert set(rows) == {"megatron-core", "fsdp", "fsdp-1", "pytorch", "pytorch-compile", "ddp", "fsdp2", "torchtitan",
                         "hf-trainer", "hf-fsdp2", "deepspeed", "deepspeed-3"}
    assert all(row["reserve_source"] for row in rows.values())


@pytest.mark.parametrize(("given", "room"), [("5%", 100 / 1.05), ("5 %", 100 / 1.05), ("10 B", 90), (0, 100),
                                             ("0", 100), ("200 B", 0)])
def test_what_a_caller_may_say(given: str | float, room: float) -> None:
    assert reserve_of(given, "nemo").room(100) == pytest.approx(room)


@pytest.mark.parametrize("given", ["5", "-5 %", "all", "2 GB/s", "", "nan %"])
def test_what_is_no_reserve(given: str) -> None:
    with pytest.raises(ar.InputError, match=r"reserve: .*expected a share such as '5 %', bytes such as '2 GB', or 0"):
        reserve_of(given, None)


def test_no_line_needs_what_is_left_free() -> None:
    asked = {"seq": 2048, "global_batch": 16, "top": 3, "fixed": FIX}
    usual = ar.plan(DENSE, "h100_sxm", 16, **asked)  # type: ignore[arg-type]
    assert any("5.2 % of what a layout needs is left free" in text for text in usual.assumed)
    needs = usual.best.memory
    tight = ar.plan(DENSE, "h100_sxm", 16, reserve=f"{usual.best.capacity - 0.9 * needs:.0f} B",
                    **asked)  # type: ignore[arg-type]
    assert all(line.memory <= line.room == pytest.approx(0.9 * needs) for line in tight.lines)
    assert tight.best.time >= usual.best.time
    assert tight.too_large > usual.too_large
