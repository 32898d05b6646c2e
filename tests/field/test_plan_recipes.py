"""Plans beside what people run. Source: users' report, issue 35 lines 1 and 7; the recipe is NVIDIA's of Llama 3 405B
(dgxc-benchmarking, https://github.com/NVIDIA/dgxc-benchmarking), measured at 19.84 s on 1,024 H100."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.commands import Run
from tests.loading import ROOT, module_of

import astrarium as ar
from astrarium.planner.shortlist import reason
from astrarium.report.tables.shortlist import shortlist_tables
from astrarium.report.tables.table import text_of
from astrarium.validate.rows import read_rows

RECIPE = Path(__file__).parent / "nemo_405b_recipe.sh"
NVIDIA = ar.Layout(tp=8, cp=2, pp=8, dp=8, zero=1, virtual_stages=8, tp_sequence=True)
MEASURED = 19.84e9


def test_the_recipe_of_405b_is_a_line() -> None:
    """22.44 s was called the fastest, and `--fix tp=8 --fix cp=2` was refused."""
    found = ar.plan("llama3-405b", "h100_sxm", 1024, global_batch=512, stack="nemo", top=2,
                    fixed={"tp": [8], "cp": [2], "zero": [1], "micro_batch": [1], "recompute": ["none"]})
    assert found.best.layout == NVIDIA
    assert found.best.time == pytest.approx(MEASURED, rel=0.01)
    assert found.best.memory * 1.05 < found.best.capacity
    assert all(line.memory <= line.room for line in found.lines)


def test_today_says_by_how_much_it_is_faster_and_which_rule_hides_it() -> None:
    """`now  nothing: as fast` stood on a line that is 12 % faster."""
    found = ar.plan_from(str(RECIPE), "h100_sxm", stack="nemo", top=1, fixed={
        "tp": [8], "cp": [1], "pp": [16], "micro_batch": [1], "zero": [1], "virtual_stages": [1],
        "recompute": ["none"]}, reserve=0)
    assert found.today is not None
    assert found.today.layout == NVIDIA
    assert found.today.lost == "nothing: its step is 12.8 % shorter"
    assert reason(found.best, found.best) == "nothing: as fast"


def test_today_beyond_a_rule_names_it(tmp_path: Path) -> None:
    path = tmp_path / "today.sh"
    path.write_text("torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py --num-layers 8 --hidden-size 2048 --swiglu "
                    "--num-attention-heads 16 --vocab-size 32000 --seq-length 2048 --micro-batch-size 32 --bf16 "
                    "--global-batch-size 256 --position-embedding-type rope --hidden-dropout 0 --attention-dropout 0")
    found = ar.plan_from(str(path), "h100_sxm", top=1, fixed={"pp": [8], "tp": [1], "micro_batch": [8, 4]})
    assert found.broken(found.best) == ()
    assert found.today is not None
    assert found.today.time < found.best.time
    free = ar.plan_from(str(path), "h100_sxm", top=1, lift=["micro_batch"], fixed={"pp": [1], "tp": [1], "cp": [1]})
    assert free.today is not None
    assert free.best.time <= free.today.time
    kept = ar.plan_from(str(path), "h100_sxm", top=1, fixed={"pp": [8], "tp": [1]})
    assert kept.broken(kept.today or kept.best) == ("micro_batch",)
    assert "left out by micro_batch: see the rules" in "\n".join(map(text_of, shortlist_tables(kept)))


def test_the_command_line_lifts_what_is_fixed(run: Run) -> None:
    said = run("plan", "llama3-8b", "--device", "h100_sxm", "--gpus", "16", "--global-batch", "16", "--top", "1",
               "--fix", "tp=1", "--fix", "pp=2", "--fix", "zero=3", "--fix", "micro_batch=1", "--reserve", "2 GB")
    assert said.code == 0, said.err
    assert "lifted: zero (--fix)" in said.out
    assert "2 GB of every NPU is left free" in said.out


@pytest.mark.parametrize("case", ["mpt-7b-2048-8-h100", *[pytest.param(case, marks=pytest.mark.exam) for case in (
    "mpt-13b-2048-32-h100", "mpt-30b-2048-16-h100")]])
def test_measured_recipes(case: str) -> None:
    """One row each; benchmarks/plan_recipes.py has all."""
    recipes = module_of(ROOT / "benchmarks/plan_recipes.py", "plan_recipes")
    rows = [row for path in recipes.files() if "shared" not in str(path) for row in read_rows(path) if row.case == case]
    (row, one, step), = recipes.fastest(rows)
    found = recipes.judged(one, row.case, step, top=5)
    assert found.passes or case in recipes.REASONS
