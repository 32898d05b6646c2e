"""Rows of the silicon table: what each states, by the conventions of its sources."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from astrarium.errors import InputError
from astrarium.validate.rows import Row
from astrarium.validate.serving.deployment import Layout, Lengths
from astrarium.validate.serving.designs import design_of, policy_of
from astrarium.validate.serving.silicon import deployment_of, distinct, judges

DUMP = "source_file=2026-04-06.csv; silicon_concurrency=64; image=x"


def row(**values: str | int | float) -> Row:
    """A row of a dump, with `values`."""
    base: Mapping[str, str | int | float] = {
        "id": "a", "silicon_data_source": DUMP, "backend": "sglang", "backend_version": "0.5.9", "mode": "agg",
        "model_path": "deepseek-ai/DeepSeek-R1", "system": "b200_sxm", "precision": "fp8", "isl": 1024, "osl": 1024,
        "batch_size": 64, "tp_size": "8", "pp_size": "1", "attention_dp_size": "1", "moe_tp_size": "8",
        "moe_ep_size": "1", "silicon_ttft_ms": 100.0, "silicon_tpot_ms": 10.0}
    return Row("silicon.csv", 2, "silicon", {**base, **values})


@pytest.mark.parametrize(("tp", "dp", "moe", "ep", "layout"), [
    ("8", "1", "8", "1", Layout(8)), ("8", "1", "1", "8", Layout(8, ep=8)), ("1", "8", "1", "8", Layout(1, 8, ep=8)),
    ("64", "1", "8", "8", Layout(8, ep=8)), ("16", "1", "4", "4", Layout(4, ep=4)),
    ("1", "64", "8", "8", Layout(1, 8, ep=8)), ("4", "4", "1", "16", Layout(4, ep=4)),
    ("1", "4", "4", "1", Layout(4)),
    ("1", "32", "32", "1", Layout(1, 32, ep=32))])
def test_layouts_of_dumps(tp: str, dp: str, moe: str, ep: str, layout: Layout) -> None:
    found = deployment_of(row(tp_size=tp, attention_dp_size=dp, moe_tp_size=moe, moe_ep_size=ep))
    assert found.layout == layout
    assert found.concurrency == 64


def test_lengths_of_the_client_and_of_others() -> None:
    found = deployment_of(row())
    assert (found.prompt.low, found.prompt.high) == (819, 1024)
    other = deployment_of(row(silicon_data_source="source_file=/x/Qwen.csv; silicon_concurrency=64",
                              model_path="Qwen/Qwen3-32B", precision=""))
    assert (other.prompt.low, other.prompt.high) == (1024, 1024)
    assert other.formats == {"weights": "bf16", "cache": "bf16"}


def test_formats_of_checkpoints_and_recipes() -> None:
    assert deployment_of(row()).formats == {"weights": "fp8_block", "cache": "fp8"}
    found = deployment_of(row(precision="fp4"))
    assert found.formats == {"weights": "nvfp4", "attention": "bf16", "cache": "fp8"}
    found = deployment_of(row(precision="fp4", model_path="MiniMaxAI/MiniMax-M2.5", backend="vllm"))
    assert found.formats == {"weights": "bf16", "experts": "nvfp4", "cache": "fp8"}
    found = deployment_of(row())
    assert (found.tokens, found.poll) == (32768, 30)
    assert not found.stated         # rows of this model mix multi-token prediction on and off


def test_experts_of_tensorrt_llm_on_hopper_are_whole() -> None:
    """InferenceX starts it with --ep_size=$TP; its dump of 2025-11 writes moe_tp."""
    stated = {"model_path": "openai/gpt-oss-120b", "system": "h200_sxm", "precision": "fp4"}
    assert deployment_of(row(backend="trtllm", **stated)).layout == Layout(8, ep=8)
    assert deployment_of(row(backend="vllm", **stated)).layout == Layout(8)


def test_a_script_that_always_asked_for_512_states_no_batch() -> None:
    stated = {"model_path": "openai/gpt-oss-120b", "backend": "vllm", "precision": "fp4", "batch_size": 512,
              "silicon_data_source": DUMP.replace("64", "512")}
    with pytest.raises(InputError, match="always asked for"):
        deployment_of(row(system="h100_sxm", **stated))
    assert deployment_of(row(system="h200_sxm", **stated)).concurrency == 512


def test_prompts_of_a_pool_come_from_the_cache() -> None:
    path = "source_file=/x/{}/0.12.0/nvidia_Llama-3.1-8B-Instruct-FP8.csv; silicon_concurrency=64"
    stated = {"model_path": "nvidia/Llama-3.1-8B-Instruct-FP8", "system": "h200_sxm"}
    found, plain = (deployment_of(row(backend=each, silicon_data_source=path.format(each), **stated))
                    for each in ("vllm", "sglang"))
    assert (found.prefix, found.groups, found.prompt) == (1008, 100, Lengths(16, 16))
    assert (plain.prefix, plain.prompt) == (0, Lengths(1024, 1024))


def test_engines_of_generated_benchmarks() -> None:
    """Rules of aiconfigurator's generator: a step has the batch, a prompt and 1,500 tokens; SGLang mixes prompts in."""
    path = "source_file=/x/aic-auto-gap-analysis/data/Qwen.csv; silicon_concurrency=64"
    stated = {"model_path": "Qwen/Qwen3-32B", "system": "h100_sxm", "precision": "", "silicon_data_source": path}
    assert deployment_of(row(backend="vllm", backend_version="0.12.0", **stated)).tokens == 64 + 1024 + 1500
    assert deployment_of(row(backend="trtllm", backend_version="1.0.0rc3", **stated)).tokens == 2592    # 81 pages of 32
    mixed, apart = (deployment_of(row(backend_version=each, **stated)) for each in ("0.5.6.post2", "0.5.1.post1"))
    assert (mixed.mixed, apart.mixed) == (True, False)
    assert policy_of(mixed, design_of(mixed)).schedule == "chunked"


def test_only_whole_prompts_lengthen_a_step() -> None:
    """TensorRT-LLM's max_num_tokens holds with enable_chunked_context."""
    cut = replace(deployment_of(row(backend="trtllm", backend_version="1.0.0rc3")), tokens=256, mixed=True)
    whole = replace(cut, mixed=False)
    assert policy_of(cut, design_of(cut)).max_tokens == 256
    assert policy_of(whole, design_of(whole)).max_tokens == whole.prompt.high + whole.output.high > 256


def test_missing_batches_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="decode_batch_size"):
        deployment_of(row(mode="disagg"))
    with pytest.raises(InputError, match="batch_size"):
        deployment_of(row(batch_size=16, silicon_data_source="source_file=/x/a.csv; silicon_concurrency=64"))


def test_pools_that_are_summed_are_refused() -> None:
    with pytest.raises(InputError, match="tp_size: 72 NPUs are those of pools"):
        deployment_of(row(system="gb200", tp_size="72", moe_tp_size="72"))


def test_prompts_wait_as_the_recipe_says() -> None:
    apart = {"backend": "trtllm", "tp_size": "1", "attention_dp_size": "8", "moe_tp_size": "1", "moe_ep_size": "8"}
    assert deployment_of(row(**apart)).wait_steps == 60
    found = deployment_of(row(backend="trtllm"))
    assert (found.wait_steps, found.wait_share) == (40, 0.8)
    assert deployment_of(row(backend="trtllm", isl=8192)).wait_steps == 0


def test_repeats_count_once() -> None:
    rows = [row(), row(id="b"), row(id="c", silicon_tpot_ms=11.0)]
    assert [each.text("id") for each in distinct(rows)] == ["a", "c"]
    assert judges(row(id="a")) is True      # sha256 of "a" ends in b
