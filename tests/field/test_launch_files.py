"""Launch files of users. Source of reports: issue 35, lines 3 and 4; of measured rows: torchtitan's own benchmarks
(https://github.com/pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, tables 1 and 3, on H100 with HBM2e
at 500 W, and benchmarks/llama3-8b_h200_202506_trainy-whitefiber.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from astrarium.errors import InputError
from astrarium.planner import Shortlist, plan_from
from astrarium.report.tables.shortlist import row_of

FILES = Path(__file__).parent / "launch"
ONE = {name: [1] for name in ("tp", "cp", "pp")}
TITAN = """
[model]
name = "llama3"
flavor = "8B"
converters = [{converters}]
[training]
{batch} = 2
seq_len = 8192
compile = true
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
"""


def planned(path: Path, device: str, **more: Any) -> Shortlist:
    return plan_from(str(path), device, **{"top": 1, "fixed": ONE, **more})


@pytest.mark.parametrize(("device", "gpus", "fp8", "compiled", "batch", "tokens", "reserved"), [
    ("h100_sxm", 8, False, True, "batch_size", 6667, 77.0), ("h100_sxm", 8, True, True, "batch_size", 8532, 76.8),
    ("h100_sxm", 8, False, False, "batch_size", 5762, 82.4), ("h100_sxm", 128, False, True, "batch_size", 6514, 62.0),
    ("h200_sxm", 64, True, True, "local_batch_size", 10753, 46.97)])
def test_measured_jobs_of_torchtitan(tmp_path: Path, device: str, gpus: int, fp8: bool, compiled: bool, batch: str,
                                     tokens: float, reserved: float) -> None:
    """Line 3: with NeMo's stack and without the memory that checkpointing saves, the first came out at 10,955 tokens/s
    and did not fit. Without torch.compile it was 27 % too fast. Reserved memory is more than what is allocated."""
    path = tmp_path / "llama3_8b.toml"
    path.write_text(TITAN.format(converters='"float8"' if fp8 else "", batch=batch).replace(
        "compile = true", f"compile = {str(compiled).lower()}"))
    fixed = {**ONE, "zero": [3], "recompute": ["operators"], "micro_batch": [2]}
    found = planned(path, device, gpus=gpus, reserve=0, fixed=fixed,
                    cost={"compute.power": "500 W"} if device == "h100_sxm" else None)
    now = found.today
    assert now is not None
    assert now.design.stack == "fsdp"
    assert any("stack fsdp, as the file is torchtitan's" in text for text in found.assumed)
    assert now.tokens == pytest.approx(tokens, rel=0.05 if device == "h100_sxm" else 0.11)
    assert 0.92 < now.memory / 2**30 / reserved < 0.95
    if device == "h100_sxm":
        low, high = now.within.around(now.tokens, -1) or (0, 0)
        assert low < tokens < high


def test_the_stack_is_the_framework_s(tmp_path: Path) -> None:
    path = tmp_path / "today.toml"
    path.write_text(TITAN.format(converters="", batch="local_batch_size"))
    fixed = {**ONE, "zero": [3], "recompute": ["operators"], "micro_batch": [2]}
    other = planned(path, "h100_sxm", gpus=8, stack="nemo", fixed=fixed)
    assert other.lines[0].design.stack == "nemo"
    assert not any("as the file is" in text for text in other.assumed)
    model = FILES / "megatron_args_dump.txt"
    found = planned(model, "h100_sxm", model="mixtral-8x7b", fixed={
        "tp": [1], "cp": [1], "pp": [2], "ep": [8], "zero": [1], "micro_batch": [1], "recompute": ["full"]})
    assert found.lines[0].design.stack == "nemo"
    assert any("stack nemo, as the file is megatron-lm's: Megatron core" in text for text in found.assumed)


def test_the_table_says_which_layers_compute_again(tmp_path: Path) -> None:
    """`selective_ac_option = "2"` was "recompute full" in the table."""
    path = tmp_path / "every_second.toml"
    path.write_text(TITAN.format(converters="", batch="local_batch_size").replace('"op"', '"2"'))
    fixed = {**ONE, "zero": [3], "recompute": ["full"], "micro_batch": [2]}
    found = planned(path, "h100_sxm", gpus=8, fixed=fixed)
    assert found.today is not None
    assert found.today.label == "dp 8, mb 2, zero 3, recompute full (1 of 2 layers)"
    assert found.today.label in row_of("", found.today, several=False)


def test_older_names_count() -> None:
    """Line 4: `training.tensor_parallel_degree = 8` and `batch_size` had no effect."""
    found = planned(FILES / "torchtitan_2024_70b.toml", "h100_sxm", gpus=64, fixed={
        "tp": [8], "cp": [1], "pp": [1], "zero": [3], "micro_batch": [1], "recompute": ["full"]})
    assert found.today is not None
    assert str(found.today.layout) == "tp 8 sp, dp 8, mb 8, zero 3, recompute full"
    assert found.today.design.workload.global_batch == 64       # type: ignore[attr-defined]


def test_a_job_of_nemo() -> None:
    fixed = {"tp": [4], "cp": [1], "pp": [1], "micro_batch": [1], "recompute": ["none"]}
    found = planned(FILES / "nemo_job.yaml", "h100_sxm", fixed=fixed)
    assert found.lines[0].design.stack == "nemo"
    assert found.lines[0].layout.zero == 1
    assert any("zero 0, 1: what nemo has (to change: --fix zero=...)" in text for text in found.assumed)
    assert any("weights in fp32, products in bf16 (megatron_amp_O2 is not on)" in text for text in found.assumed)


@pytest.mark.parametrize(("name", "more", "message"), [
    ("megatron_args_dump.txt", {}, "does not say the model: it lacks vocab_size"),
    ("nemo_hydra.sh", {}, "holds Hydra overrides of a NeMo 1 configuration"),
    ("simai_workload.txt", {}, "holds a workload of SimAI"),
    ("ds_auto.json", {"model": "llama2-7b", "gpus": 8}, "does not say how many samples a step has")])
def test_one_clear_refusal(name: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        planned(FILES / name, "h100_sxm", **more)
    assert len(str(raised.value).splitlines()) == 1
