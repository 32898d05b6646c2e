"""Software stacks: settings where a design says nothing."""

from __future__ import annotations

import pickle

import pytest

import astrarium as ar
from astrarium import catalog, config
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.search import Space

PLAIN = {"stack": "megatron-lm", "compute": "a100_sxm_80gb", "memory": {"bandwidth": "2 TB/s"},
         "network": {"dims": [{"shape": "switch", "npus": 8, "bandwidth": "300 GB/s", "latency": "1 us"}]},
         "workload": {"source": "transformer", "model": "megatron-22b", "tp": 8, "global_batch": 4}}


def changed(**workload: object) -> Design:
    return config.decode(Design, {**PLAIN, "workload": {**PLAIN["workload"], **workload}})


def test_settings_apply_where_the_design_says_nothing() -> None:
    design = config.decode(Design, PLAIN)
    assert design.workload.attention == "unfused"
    assert design.workload.precision.gradients == "fp32"
    assert design.system.comm_streams == 3


def test_what_the_design_states_stays_even_where_it_is_the_default() -> None:
    assert changed(attention="flash").workload.attention == "flash"
    assert changed(precision={"gradients": "bf16"}).workload.precision.gradients == "bf16"


def test_a_stack_has_settings_of_devices() -> None:
    """vLLM's FlashAttention 2 on A100 is that of prompts beside decoding sequences; Hopper has version 3."""
    found = [config.decode(Design, {
        "stack": "vllm", "compute": device, "memory": device, "network": PLAIN["network"],
        "workload": {"source": "inference", "model": "llama3-8b", "tp": 8, "prompt": 64, "generated": 8}})
        for device in ("a100_sxm_80gb", "h100_sxm")]
    assert [each.workload.attention for each in found] == ["flash_2", "flash"]


@pytest.mark.parametrize(("model", "fusion"), [("llama3-70b", "engine_norms"), ("qwen3-32b", "engine")])
def test_a_stack_has_settings_of_models(model: str, fusion: str) -> None:
    """TensorRT-LLM's modeling_llama.py has norms in all_reduces, modeling_qwen3.py has not."""
    design = config.decode(Design, {**PLAIN, "stack": "trt-llm", "compute": "h100_sxm", "memory": "h100_sxm",
                                    "workload": {"source": "inference", "model": model, "tp": 8, "phase": "decode",
                                                 "context": 8}})
    assert design.workload.fusion == fusion


@pytest.mark.parametrize(("stack", "operators", "launch"), [
    ("pytorch", "eager", 40_200), ("pytorch-compile", "compiled", 0), ("fsdp2", "eager", 40_200),
    ("torchtitan", "compiled", 0)])
def test_a_stack_of_training_runs_inference_alike(stack: str, operators: str, launch: float) -> None:
    """What PyTorch launches, and what its host takes."""
    work = {"source": "inference", "model": "llama3-8b", "tp": 8, "phase": "decode", "context": 8}
    found = config.decode(Design, {**PLAIN, "stack": stack, "workload": work}).workload
    assert (found.operators, float(found.host_launch)) == (operators, launch)
    trained = config.decode(Design, {**PLAIN, "stack": stack}).workload.software
    assert (trained.operators, float(trained.host_launch)) == (operators, launch)


def test_a_design_with_a_stack_reads_back_equal() -> None:
    design = changed(attention="flash")
    assert config.loads(Design, config.dumps(design)) == design
    assert ar.replace(design, "workload.tp", 8) == design


def test_an_unknown_stack_names_the_nearest() -> None:
    with pytest.raises(ar.InputError, match="megatron-lm"):
        config.decode(Design, {**PLAIN, "stack": "megatronlm"})


def test_settings_of_another_kind_of_section_do_not_apply() -> None:
    plain = {**PLAIN, "workload": {"source": "collective", "op": "all_reduce", "payload": "1 MB"}}
    assert config.decode(Design, plain).stack == "megatron-lm"


TEXT = """
workload: {source: transformer, model: llama3-8b, tp: 8, dp: 2, global_batch: 16, micro_batch: 1}
compute: {model: measured, device: h100_sxm}
memory: {capacity: 80 GB}
collective: {model: measured}
network:
  dims: [{like: dgx_h100_nvswitch, npus: 8, latency: 1 us}, {like: infiniband_ndr, npus: 2, latency: 3 us}]
"""


def test_a_stack_that_is_set_means_what_it_means_in_a_file() -> None:
    plain = config.loads(Design, TEXT)
    for name in catalog.load("stacks"):
        assert config.replace(plain, "stack", name) == config.loads(Design, f"stack: {name}\n{TEXT}")
    beside = config.replace_all(plain, {"workload.overlap": False, "stack": "nemo"})
    assert beside == config.loads(Design, f"stack: nemo\n{TEXT.replace('tp: 8,', 'tp: 8, overlap: false,')}")
    assert config.replace(beside, "stack", "nemo") == beside


def test_a_second_stack_is_refused() -> None:
    nemo = config.loads(Design, f"stack: nemo\n{TEXT}")
    for other in ("nanotron", None):
        with pytest.raises(InputError, match="stack: is nemo, whose settings are in the design and would stay"):
            config.replace(nemo, "stack", other)


def test_a_design_in_the_name_of_a_stack_without_its_settings_is_refused() -> None:
    plain = config.loads(Design, TEXT)
    parts = {name: getattr(plain, name) for name in ("workload", "compute", "memory", "collective", "network")}
    with pytest.raises(InputError, match="is nemo, and none of its settings is in the design; expected a design file"):
        Design(**parts, stack="nemo")
    nemo = config.replace(plain, "stack", "nemo")
    assert pickle.loads(pickle.dumps(nemo)) == nemo
    assert config.loads(Design, config.dumps(nemo)) == nemo


def test_a_clock_that_a_stack_s_factor_stands_for_is_refused() -> None:
    """nanotron's products take 1.215 of a short run's; nemo's on H100 take what the clock leaves."""
    plain = {"compute": {"like": "h100_sxm", "clock": "sustained"}, "memory": "h100_sxm", "network": PLAIN["network"],
             "workload": {"source": "transformer", "model": "llama3-8b", "tp": 8, "global_batch": 4}}
    with pytest.raises(InputError, match=r"compute\.clock: sustained: in_situ\.gemm 1\.215 of stack nanotron"):
        config.decode(Design, {**plain, "stack": "nanotron"})
    design = config.decode(Design, {**plain, "stack": "nemo"})
    assert design.compute.in_situ.gemm == 1
    given = {**plain, "stack": "nanotron", "compute": {**plain["compute"], "in_situ": {"gemm": 1}}}
    assert config.decode(Design, given).compute.in_situ.vector > 3


def test_a_search_over_stacks_applies_them() -> None:
    space = Space(config.loads(Design, TEXT), {"stack": ["nemo", "nanotron"], "workload.zero": [0, 1]})
    for point in space.points():
        design = space.design(point)
        zero = getattr(design.workload, "zero", None)
        text = TEXT.replace("tp: 8,", f"tp: 8, zero: {zero},")
        assert design == config.loads(Design, f"stack: {design.stack}\n{text}")
    assert {space.design(point).stack for point in space.points()} == {"nemo", "nanotron"}


def test_pools_have_the_settings_of_an_engine() -> None:
    """Fields of inference that are a pool's where phases are apart; what a pool states stays."""
    pools = {"prefill": {"tp": 4, "exchange": "all_to_all"}, "decode": {"tp": 4}}
    found = config.decode(Design, {
        "stack": "vllm", "compute": "h100_sxm", "memory": "h100_sxm", "network": PLAIN["network"],
        "workload": {"source": "disaggregated", "model": "llama3-8b", "prompt": 64, "generated": 8, **pools}}).workload
    assert (found.fusion, found.prefill.exchange, found.decode.exchange) == ("engine", "all_to_all", "all_gather")
