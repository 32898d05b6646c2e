"""`plan` and its command line: a shortlist, the reasons, and the design that reproduces a line."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from tests.commands import Run
from tests.planner.spaces import DENSE

import astrarium as ar
from astrarium import catalog
from astrarium.cost import figures
from astrarium.planner.breakdown import PARTS, breakdown_of
from astrarium.planner.machine import machine_of
from astrarium.planner.timeline import units_of
from astrarium.report.pages.plan import plan_page
from astrarium.report.tables.shortlist import shortlist_tables
from astrarium.report.tables.table import text_of
from astrarium.units import format_bytes, format_time

FIX = {"cp": [1], "micro_batch": [1], "zero": [1], "virtual_stages": [1]}
FEW = {**FIX, "recompute": ["none", "full"], "tp_sequence": [True]}


@pytest.fixture(scope="module")
def found() -> ar.Shortlist:
    return ar.plan(DENSE, ["h100_sxm", "a100_sxm_80gb"], 16, seq=2048, global_batch=16, top=4, fixed=FIX)


def test_lines_are_ranked_and_say_why_they_lost(found: ar.Shortlist) -> None:
    times = [line.time for line in found.lines]
    assert times == sorted(times)
    assert len(times) == 4
    assert found.proved
    assert not found.best.lost
    assert all("+" in line.lost or line.time == found.best.time for line in found.lines[1:])
    for line in found.lines[1:]:
        net, *parts = (float(each) for each in re.findall(r"([-+][0-9.]+) %", line.lost) or ["0"])
        assert net == pytest.approx(100 * (line.time / found.best.time - 1), abs=0.06)
        assert sum(parts) == pytest.approx(net, abs=0.06 * (len(parts) + 1) + 0.05 * 9), "gains are parts, too"
    assert found.best.device == "h100_sxm"
    assert found.best.tokens == pytest.approx(16 * 2048 / 16 / (found.best.time * 1e-9))
    assert 0 < found.best.mfu < 1


def test_lines_within_the_interval_tie_and_others_say_that_they_are_unvalidated() -> None:
    more = {"compute": "measured", "collectives": "measured", "stack": "nemo"}
    shown = ar.plan("llama3-8b", "h100_sxm", 16, seq=4096, global_batch=64, top=8,
                    fixed={**FIX, "recompute": ["none"]}, **more)
    assert shown.best.tie is None
    for line in shown.lines:
        low, high = line.within.around(line.time) or (0.0, 0.0)
        assert low < line.time < high
    row = catalog.load("intervals")["nemo"]["h100_sxm"]
    assert [line.tie for line in shown.lines[1:]] == [
        line.time <= shown.best.time * row["high"] or line.time * row["low"] <= shown.best.time
        for line in shown.lines[1:]]
    assert {line.tie for line in shown.lines[1:]} == {True, False}
    text = [text_of(table) for table in shortlist_tables(shown)]
    assert f"80 % of {row['rows']} unseen measured rows of stack nemo on h100_sxm" in text[1]
    inside = [line.tie and line.time <= shown.best.time * row["high"] for line in shown.lines]
    assert text[1].count("within the interval of 1") == sum(map(bool, inside))
    ties = sum(bool(line.tie) for line in shown.lines)
    assert text[1].count("1 is within its interval") == ties - sum(map(bool, inside))
    assert text[0].count(" ~ ") == ties > 0
    both = ar.plan(DENSE, ["h100_sxm", "h200_sxm"], 16, seq=2048, global_batch=16, top=2, fixed=FIX, **more)
    assert all(bool(line.within.extrapolated) is (line.device == "h200_sxm") for line in both.lines)
    assert any("unvalidated" in text_of(table) for table in shortlist_tables(both))


def test_parts_add_up_to_the_step(found: ar.Shortlist) -> None:
    for line in found.lines:
        for stage in line.breakdown.stages:
            assert set(stage) == set(PARTS)
            assert min(stage.values()) >= -1
            assert sum(stage.values()) == pytest.approx(line.time)


def test_parts_of_a_folded_run_are_those_of_every_rank(found: ar.Shortlist) -> None:
    for line in found.lines[:2]:
        workload, machine = line.design.workload, machine_of(line.device, 16)
        assert isinstance(workload, ar.Transformer)
        assert breakdown_of(ar.simulate(line.design, fold="off"), machine, workload) == line.breakdown


def test_recomputation_and_bubble_are_seen() -> None:
    fixed = {**FIX, "recompute": ["full"], "pp": [4], "tp": [2]}
    line = ar.plan(DENSE, "h100_sxm", 16, seq=2048, global_batch=16, fixed=fixed).best
    mean = line.breakdown.mean
    assert mean["recompute"] == pytest.approx(mean["compute"] / 3, rel=0.2)
    assert mean["bubble"] > 0.1 * line.time
    assert mean["tp"] > 0


def test_a_design_reproduces_its_line(found: ar.Shortlist, tmp_path: Path) -> None:
    path = tmp_path / "best.yaml"
    ar.dump_design(found.best.design, path)
    again = ar.simulate(ar.load_design(path))
    assert float(again.makespan) == found.best.time
    assert float(again.peak_memory or 0) == pytest.approx(found.best.memory)


def test_memory_of_what_overlaps_is_that_of_the_run() -> None:
    """`run` of a plan's design held more than the plan said: gradients wait for their reduction."""
    fixed = {"cp": [1], "micro_batch": [1], "tp": [1], "pp": [1], "zero": [3], "recompute": ["full"]}
    found = ar.plan(DENSE, "h100_sxm", 16, seq=1024, global_batch=32, fixed=fixed, top=1)
    line = found.best
    assert line.peak == float(ar.simulate(line.design).peak_memory or 0) > line.memory
    said = f"with those that overlap, as simulated (and in astrarium run): line 1 {format_bytes(line.peak)}"
    assert any(said in text_of(table) for table in shortlist_tables(found))
    assert found.plain["lines"][0]["peak_memory_bytes"] == line.peak


def test_a_missing_device_names_an_example(run: Run) -> None:
    said = run("plan", "--from", "today.sh")
    assert said.code == 2
    assert "expected --device D, such as --device h100 (all: astrarium list device)" in said.err


def test_what_does_not_fit_is_said() -> None:
    said = (r"none of [\d,]+ layouts fits 8 x h100_sxm: each needs at least [0-9.]+ GB, and [0-9.]+ GB are left to it "
            r"\([0-9.]+ GB are missing\); expected more NPUs \(about 88 if all memory is sharded\)")
    with pytest.raises(ar.InputError, match=said):
        ar.plan("llama3-405b", "h100_sxm", 8, fixed={"micro_batch": [1]})


@pytest.mark.parametrize(("more", "message"), [
    ({"device": "h1000"}, "did you mean 'h100_"),
    ({"gpus": 12}, "not whole hosts of 8; expected 8 or 16"), ({"stack": "megatron"}, "did you mean 'megatron-lm'"),
    ({"device": "tpu_v4"}, "the catalog has no host of tpu_v4"), ({"top": 0}, "top: 0"),
    ({"compute": "measured", "device": "mi300x"}, "'mi300x' has no measured model"),
    ({"collectives": "guessed"}, "guessed"),
    ({"network": "dgx_h100_nvswitch"}, "dgx_h100_nvswitch have 8 NPUs; expected 16"),
    ({"compute": "magic"}, "compute: 'magic' is not known"),
    ({"network": "infiniband_xdr,infiniband_ndr"}, "infiniband_xdr: does not say how many NPUs"),
    ({"model": "llama9"}, "llama9")])
def test_wrong_questions_are_refused(more: dict[str, object], message: str) -> None:
    asked: dict[str, object] = {"model": "llama3-8b", "device": "h100_sxm", "gpus": 16, **more}
    with pytest.raises(ar.InputError, match=message):
        ar.plan(**asked)  # type: ignore[arg-type]


def test_a_config_json_is_a_model(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "intermediate_size": 2816,
        "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 32000,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False}))
    best = ar.plan(str(path), "h100_sxm", 8, seq=2048, global_batch=8, fixed=FIX, top=1).best
    assert best.job.layers == 4
    with pytest.raises(ar.InputError, match="seq: is missing, and the model does not say"):
        ar.plan(str(path), "h100_sxm", 8)


TODAY = ("torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py --num-layers 8 --hidden-size 2048 --swiglu "
         "--num-attention-heads 16 --vocab-size 32000 --seq-length 2048 --micro-batch-size 1 --bf16 "
         "--position-embedding-type rope --hidden-dropout 0 --attention-dropout 0 --lr 1 ")


def test_what_runs_today_is_predicted_and_improved(tmp_path: Path) -> None:
    path = tmp_path / "today.sh"
    path.write_text(TODAY + "--global-batch-size 16 --tensor-model-parallel-size 8 --recompute-granularity full")
    found = ar.plan_from(str(path), "h100_sxm", top=1, fixed=FEW)
    assert found.today is not None
    assert found.today.layout == ar.Layout(tp=8, dp=2, recompute="full")
    assert found.today.time > found.best.time
    assert "recomputation" in found.today.lost
    measured = ar.plan_from(str(path), "h100_sxm", top=1, fixed=FEW, measured=f"{found.today.time / 5e8:.17g} s")
    assert measured.factor == pytest.approx(2)
    gains = [each.line.value for each in measured.changes]
    assert gains == sorted(gains)
    assert gains[-1] < found.today.value
    changes = {(each.part, each.before, each.after): each for each in measured.changes}
    assert {"recompute", "tp"} <= {part for part, _, _ in changes}
    other = changes["recompute", "full", "none"]
    text = path.read_text()
    path.write_text(text.replace("--recompute-granularity full", ""))
    so = ar.plan_from(str(path), "h100_sxm", top=1, fixed=FEW).today
    assert so is not None
    assert (so.layout, so.time, so.memory) == (other.line.layout, other.line.time, other.line.memory)
    path.write_text(text)
    said = str(measured)
    assert "(-50.0 %)" in said
    first = said.partition("layout   ")[0]
    assert "something costs time that the launch does not say" in first
    assert re.search(r"Of the changes of one part, .* brings most: predicted [0-9.]+ % faster", first)
    assert f"Line 1, {measured.best.label}: predicted" in first
    assert "Megatron FSDP" not in first
    assert said.count("scaled to the measured step") == 1
    low, high = measured.best.within.around(measured.best.time) or (0.0, 0.0)
    shown = f"{format_time(2 * low).partition(' ')[0]} to {format_time(2 * high)}"
    assert shown in said
    why = {(each.part, each.after): each.why for each in measured.no_gain}
    assert re.match(r"-[0-9.]+ %, step \+[0-9.]+ %: ", why["pp", "2"])
    assert "bubble" in why["pp", "2"]
    gained = {(each.part, each.after) for each in measured.changes}
    assert not gained & why.keys()
    assert all(f"  {each.why}\n" in said for each in measured.no_gain)
    by_mfu = ar.plan_from(str(path), "h100_sxm", top=1, fixed=FEW, measured=f"{50 * found.today.mfu}%")
    assert by_mfu.measured == pytest.approx(measured.measured)
    for wrong in ("fast", "0%", "-1s", "1e999s"):
        with pytest.raises(ar.InputError, match=r"measured: .*expected the time of a step such as 21\.3s, or MFU"):
            ar.plan_from(str(path), "h100_sxm", top=1, fixed=FEW, measured=wrong)


def test_the_command_of_what_runs_today(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "today.sh"
    path.write_text(TODAY + "--global-batch-size 16 --tensor-model-parallel-size 8 --recompute-granularity full "
                    "--frobnicate 3")
    words = ("plan", "--from", path, "--device", "h100_sxm", "--top", "1", "--launch", "megatron", "--fix", "cp=1",
             "--fix", "zero=1", "--fix", "virtual_stages=1")
    unknown = run(*words)
    assert unknown.code == 1
    assert "frobnicate: is not known here; expected --ignore frobnicate" in unknown.err
    assert run("plan", "llama3-8b", "--gpus", "8", "--device", "h100_sxm", "--ignore", "lr").code == 2
    said = run(*words, "--ignore", "frobnicate")
    assert said.code == 0
    assert "as without frobnicate (--ignore)" in said.out
    assert said.out.startswith("Line 1, ")
    assert "line 1 against today's layout: predicted " in said.out
    assert "--tensor-model-parallel-size" in said.out
    assert run("plan", "--device", "h100_sxm").code == 2


@pytest.mark.parametrize(("device", "models"), [
    ("h100_sxm", "measured kernels, measured collectives, stack nemo"),
    ("a100_sxm_80gb", "measured kernels, measured collectives, stack nemo"),
    ("h200_sxm", "measured kernels, measured collectives, stack nemo"),
    ("mi300x", "analytic kernels, simulated collectives, stack none")])
def test_what_is_left_out_is_what_was_measured(device: str, models: str) -> None:
    found = ar.plan(DENSE, device, 16, seq=2048, global_batch=16, fixed=FIX, top=1)
    assert found.models == (models,)
    compute, collectives, stack = (text.split()[0 if place < 2 else 1] for place, text in enumerate(models.split(", ")))
    asked = ar.plan(DENSE, device, 16, seq=2048, global_batch=16, fixed=FIX, top=1, compute=compute,
                    collectives=collectives, stack=stack)
    assert asked.best.time == found.best.time
    assert f"with {models} (to change: --compute" in text_of(next(iter(shortlist_tables(found))))


def test_kernels_that_nobody_measured_name_the_model_that_has_them() -> None:
    with pytest.raises(ar.InputError, match=r"no peak at 'fp4' is known; expected --compute analytic"):
        ar.plan(DENSE, "h100_sxm", 16, seq=4096, global_batch=16, fixed=FIX, top=1, precision={"products": "fp4"})


def test_several_devices_have_one_stack_and_say_what_differs() -> None:
    found = ar.plan(DENSE, ["b200", "gb200", "mi300x"], 16, seq=2048, global_batch=16, fixed=FIX, top=1)
    assert found.models == ("b200: measured kernels, measured collectives, stack nemo",
                            "gb200: measured kernels, measured collectives, stack nemo",
                            "mi300x: analytic kernels, simulated collectives, stack nemo")


def test_a_stack_is_what_the_job_leaves_open() -> None:
    fixed = {**FIX, "recompute": ["none"]}
    asked = {"stack": "nemo", "compute": "measured", "collectives": "measured", "fixed": fixed, "top": 1}
    peak = {"stack": "none", "compute": "roofline", "collectives": "simulated", "fixed": fixed, "top": 1}
    plain = ar.plan(DENSE, "h100_sxm", 16, seq=2048, global_batch=16, **peak).best  # type: ignore[arg-type]
    best = ar.plan(DENSE, "h100_sxm", 16, seq=2048, global_batch=16, **asked).best  # type: ignore[arg-type]
    workload = best.design.workload
    assert isinstance(workload, ar.Transformer)
    assert workload.mask == "skip"
    assert workload.overlap
    assert workload.software.casts
    assert best.design.stack == "nemo"
    assert best.time > plain.time       # a roofline at the peak is the fastest there can be
    mine = ar.plan(DENSE, "h100_sxm", 16, seq=2048, global_batch=16, mask="full", **asked).best  # type: ignore[arg-type]
    assert isinstance(mine.design.workload, ar.Transformer)
    assert mine.design.workload.mask == "full"


def test_long_sequences_say_that_mfu_counts_masked_scores(found: ar.Shortlist) -> None:
    assert "HFU" not in str(found)
    long = ar.plan(DENSE, "h100_sxm", 8, seq=65536, global_batch=8, top=1, fixed={"recompute": ["none"], "cp": [4]})
    hfu = figures(long.best.design, ar.simulate(long.best.design))["hfu"]
    assert hfu < 0.9 * long.best.mfu
    assert (f"MFU counts all scores of attention; HFU leaves out those that are masked and skipped (of line 1: "
            f"{100 * hfu:.1f} %)") in str(long)


@pytest.mark.parametrize(("device", "said"), [
    ("h200_sxm", "dgx_h100_nvswitch in a host of h200_sxm: NVLink 4 and NVSwitch of a DGX H100 or H200 (NVIDIA DGX "
                 "H100/H200 User Guide"), ("h100_sxm", ""), ("b200", "")])
def test_a_network_named_after_another_device_has_a_reason(device: str, said: str) -> None:
    assumed = machine_of(device, 16, None).assumed
    found = next((each for each in assumed if " in a host of " in each), "")
    assert found.startswith(said)
    assert bool(found) is bool(said)


def test_command_line(run: Run, tmp_path: Path) -> None:
    design = tmp_path / "d.yaml"
    fix = [f"--fix={name}={','.join(map(str, values))}" for name, values in {**FIX, "recompute": ["none"]}.items()]
    said = run("plan", "llama3-8b", "--device", "h100_sxm", "--gpus", "16", "--seq", "4096", "--global-batch", "32",
               "--top", "2", "-o", design, *fix)
    assert said.code == 0, said.err
    assert "llama3-8b on 16 x h100_sxm: 131,072 tokens a step" in said.out
    assert "slower than 1 by" in said.out
    assert "network: dgx_h100_nvswitch (8), infiniband_ndr (2)" in said.out
    assert run("run", design).code == 0
    said = run("plan", "llama3-8b", "--device", "h100_sxm", "--gpus", "16", "--seq", "4096", "--global-batch", "32",
               "--json", *fix)
    plain = json.loads(said.out)
    assert plain["proved"]
    assert plain["lines"][0]["step_ns"] == pytest.approx(float(ar.simulate(ar.load_design(design)).makespan))


def test_a_tie_is_no_advice(tmp_path: Path) -> None:
    """A layout within the interval of today's is said to tie, and what it needs beyond the launch is named."""
    path = tmp_path / "today.sh"
    path.write_text(TODAY + "--global-batch-size 64 --use-distributed-optimizer")
    fixed = {name: value for name, value in FIX.items() if name != "zero"} | {"zero": [3], "tp": [1], "pp": [1]}
    found = ar.plan_from(str(path), "h100_sxm", top=1, fixed=fixed | {"micro_batch": [2]}, measured="30%")
    assert found.today is not None
    (said,) = [line for line in str(found).splitlines() if line.startswith("Line 1, ")]
    assert "; one is within the interval of the other: measure it before you rely on it; extrapolated (" in said
    assert "ZeRO 3, rows have ZeRO 1" in said
    assert "; it needs Megatron FSDP (--use-megatron-fsdp" in said
    assert "line 1 against today's layout: " in str(found)
    assert "; one is within the interval of the other" in str(found)


def test_top_of_a_wider_search_is_the_same() -> None:
    narrow = ar.plan(DENSE, "h100_sxm", 16, seq=2048, global_batch=16, top=1, fixed=FEW)
    wide = ar.plan(DENSE, "h100_sxm", 16, seq=2048, global_batch=16, top=6, fixed=FEW, jobs=2)
    assert narrow.best.time == wide.best.time


def test_one_page() -> None:
    fixed = {**FIX, "recompute": ["full"], "pp": [4], "tp": [2]}
    found = ar.plan(DENSE, "h100_sxm", 16, seq=2048, global_batch=16, fixed=fixed, top=2)
    text = plan_page(found)
    for line in found.lines:
        assert line.label in text
        assert format_time(line.time) in text
    assert re.findall(r">save</a>", text) == [">save</a>"] * len(found.lines)
    for words in ("The fastest layout: ", "Predicted step times and their intervals", "Pipeline",
                  "Memory when it is fullest"):
        assert words in text


def test_units_of_a_pipeline_follow_each_other() -> None:
    fixed = {**FIX, "recompute": ["none"], "pp": [4], "tp": [2]}
    line = ar.plan(DENSE, "h100_sxm", 16, seq=2048, global_batch=16, fixed=fixed, top=1).best
    workload = line.design.workload
    assert isinstance(workload, ar.Transformer)
    stages = units_of(ar.simulate(line.design), workload)
    assert len(stages) == 4
    for stage in stages:
        assert all(before.end <= after.start + 1e-6 for before, after in pairwise(stage))
        assert [unit.batch for unit in stage if unit.way == "forward"] == list(range(workload.micro_batches))
    first = [stage[0].start for stage in stages]
    assert first == sorted(first)
    assert first[-1] > 0
