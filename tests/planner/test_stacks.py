"""Which software stack a plan takes that names none."""

from __future__ import annotations

import pytest

import astrarium as ar
from astrarium import catalog
from astrarium.cost.support import Support
from astrarium.planner.job import job_of
from astrarium.planner.stacks import limited, needs_of, usual_stack
from astrarium.report.tables.shortlist import shortlist_tables
from astrarium.report.tables.table import text_of
from astrarium.stack import Stacks

CURRENT = {"nemo", "nanotron", "fsdp", "megatron-core"}


def needs(model: str = "llama3-8b", zero: tuple[int, ...] | None = None, products: str | None = None) -> Support:
    more = {} if products is None else {"precision": {"products": products}}
    return needs_of(job_of(model, **more), {} if zero is None else {"zero": zero})


def test_stacks_that_others_came_after_are_no_default() -> None:
    rows = catalog.load("stacks")
    assert {name for name, row in rows.items() if "not_default" not in row} == CURRENT
    for name, row in rows.items():
        assert set(row.get("runs", {})) <= {"model", "precision", "zero"}
        if "zero" in row.get("workload", {}) and name not in ("megatron-core", "deepspeed"):    # which prefer it
            assert row["runs"]["zero"] == (row["workload"]["zero"],)
    assert set(rows) == set(Stacks().names())


@pytest.mark.parametrize(("device", "wanted", "stack", "said"), [
    ("h100_sxm", needs(), "nemo", "the best validated on h100_sxm of the current stacks that run the job (19 unseen "
                                  "measured rows)"),
    ("a100_sxm_80gb", needs(), "nemo", "the nearest of the current stacks that run the job; not validated on "
                                       "a100_sxm_80gb (0 unseen measured rows)"),
    ("h200_sxm", needs(), "nemo", "the nearest of the current stacks that run the job; not validated on h200_sxm (2 "
                                  "unseen measured rows)"),
    ("h100_sxm", needs(zero=(3,)), "fsdp", "the best validated on h100_sxm of the current stacks that run the job (25 "
                                           "unseen measured rows)"),
    ("a100_sxm_80gb", needs(zero=(3,)), "fsdp", "the nearest of the current stacks that run the job; not validated on "
                                                "a100_sxm_80gb (3 unseen"),
    ("h100_sxm", needs(zero=(3,), products="fp8"), "nemo", "(19 unseen measured rows, not with dense, fp8, ZeRO 3)"),
    ("h100_sxm", needs(zero=(0,)), "nanotron", "the best validated on h100_sxm of the current stacks that run the job "
                                               "(117 unseen"),
    ("h100_sxm", needs("mixtral-8x7b"), "nemo", "(19 unseen measured rows, not with MoE, bf16)")])
def test_the_default_is_current_runs_the_job_and_says_why(device: str, wanted: Support, stack: str, said: str) -> None:
    found = usual_stack([device], None, None, wanted)
    assert found.stack == stack
    assert said in found.why
    assert found.stack in CURRENT


def test_without_measured_times_there_is_none() -> None:
    assert usual_stack(["mi300x"], None, None).stack is None
    assert usual_stack(["h100_sxm"], "roofline", None).stack is None
    assert usual_stack(["h100_sxm"], None, "simulated").stack is None
    assert usual_stack(["mi300x", "h100_sxm"], None, None).stack == "nemo"


def test_a_plan_prints_the_choice() -> None:
    fixed = {"tp": [8], "pp": [1], "cp": [1], "micro_batch": [1], "recompute": ["none"], "zero": [1]}
    found = ar.plan("llama3-8b", "h100_sxm", 16, seq=4096, global_batch=64, fixed=fixed, top=1)
    assert ("stack: nemo, the best validated on h100_sxm of the current stacks that run the job "
            "(19 unseen measured rows)") in found.assumed
    named = ar.plan("llama3-8b", "h100_sxm", 16, seq=4096, global_batch=64, fixed=fixed, top=1, stack="nemo")
    assert not any(text.startswith("stack: ") for text in named.assumed)
    assert named.best.time == found.best.time


def test_a_stack_that_a_fixed_stage_of_zero_changes_is_noted() -> None:
    """One layout took 8 s as a line of a plan, and 11 s with its own values fixed: under another stack."""
    def planned(**more: object) -> ar.Shortlist:
        fixed = {"tp": [1], "pp": [1], "cp": [1], "micro_batch": [1], "recompute": ["none"], **more.pop("fixed", {})}
        return ar.plan("llama3-8b", "h100_sxm", 16, seq=4096, global_batch=64, fixed=fixed, top=1, **more)

    found = planned(fixed={"zero": [3]})
    assert found.notes == ("stack fsdp, as its measured rows are the nearest to --fix zero=3; without that it is nemo, "
                           "under which the same layouts take other times: --stack nemo keeps it",)
    assert text_of(next(iter(shortlist_tables(found)))).splitlines()[2] == f"note: {found.notes[0]}"
    kept, free = planned(fixed={"zero": [3]}, stack="nemo"), planned()
    assert kept.notes == free.notes == ()
    assert kept.best.layout == free.best.layout == found.best.layout
    assert kept.best.time == free.best.time != found.best.time


def test_a_stack_that_is_named_has_only_its_layouts() -> None:
    """`--stack hf-trainer` proposed tp, pp and ZeRO 1."""
    assert limited("fsdp", None) == ({"zero": (3,)}, "stack fsdp has zero 3 (to change: --fix)")
    parts, why = limited("hf-trainer", {"recompute": ["full"]})
    assert parts == {"zero": (0,), "tp": (1,), "pp": (1,), "cp": (1,), "recompute": ["full"]}
    assert why == "stack hf-trainer has zero 0, tp 1, pp 1, cp 1 (to change: --fix)"
    assert limited("nemo", {"zero": [1]}) == ({"zero": [1]}, "")
    assert limited(None, None) == ({}, "")


def test_a_plan_with_eager_pytorch() -> None:
    """The stack's operators, which inference has elsewhere, were a field that training does not have."""
    found = ar.plan("llama3-8b", "h100_sxm", 8, seq=8192, global_batch=8, stack="deepspeed-3", top=1,
                    fixed={"recompute": ["full"], "micro_batch": [1]})
    work = found.best.design.workload
    assert isinstance(work, ar.Transformer)
    assert (work.software.operators, work.zero, work.tp) == ("eager", 3, 1)
    assert any("stack deepspeed-3 has zero 3, tp 1, pp 1, cp 1" in text for text in found.assumed)
