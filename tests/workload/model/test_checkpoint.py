"""Number formats of published checkpoints: what `quantization_config` says of each kind of module, and who takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from astrarium.errors import InputError
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.formats import Formats, numbers_of, resolved, taken, widths_of
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.model.checkpoint import Checkpoint
from astrarium.workload.model.hugging_face import from_mapping, read_config

from .common import sample

LAYERS = range(3)       # of every sample
BLOCK = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
GROUP = {"quant_method": "compressed-tensors", "format": "pack-quantized"}


def weights(bits: int, kind: str, group: int | None, taken: object = None) -> Mapping[str, Any]:
    """One group of compressed-tensors, for all linear layers."""
    return {"group_0": {"targets": ["Linear"], "input_activations": taken, "weights": {
        "num_bits": bits, "type": kind, "group_size": group, "strategy": "group" if group else "channel"}}}


@pytest.mark.parametrize(("config", "expected"), [
    (BLOCK, {"weights": "fp8_block"}),                                              # DeepSeek-V3
    ({"quant_method": "fp8", "activation_scheme": "static"}, {"weights": "fp8"}),
    ({"quant_method": "mxfp4"}, {"experts": "mxfp4"}),                              # gpt-oss
    ({"quant_method": "awq", "bits": 4, "group_size": 128},
     {"weights": "int4", "scale_group": 128, "weight_only": True}),
    ({"quant_method": "gptq", "bits": 8, "group_size": -1}, {"weights": "int8", "weight_only": True}),
    ({**GROUP, "config_groups": weights(4, "int", 32), "ignore": [                  # Kimi-K2.5
        "lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]},
     {"experts": "int4", "scale_group": 32, "weight_only": True}),
    ({**GROUP, "config_groups": weights(8, "float", None, {"num_bits": 8, "type": "float"}), "ignore": ["lm_head"]},
     {"weights": "fp8"}),
    ({**GROUP, "config_groups": weights(4, "float", 32), "ignore": ["re:.*self_attn.*"]},
     {"weights": "mxfp4", "attention": "bf16", "weight_only": True}),
    ({**NVFP4, "kv_cache_scheme": {"num_bits": 8, "type": "float"}, "ignore": ["lm_head", "model.layers.0*", *(
        f"model.layers.{layer}.self_attn*" for layer in LAYERS)]},
     {"weights": "nvfp4", "attention": "bf16", "cache": "fp8"}),                    # one whole layer of three
    ({**NVFP4, "kv_cache_quant_algo": "FP8", "exclude_modules": [                   # norms, routers, offsets, MTP
        f"model.layers.{layer}.{name}" for layer in range(5) for name in
        ("input_layernorm", "mlp.gate", "mlp.gate.e_score_correction_bias", "self_attn.indexers_proj", "eh_proj")]},
     {"weights": "nvfp4", "cache": "fp8"}),
    ({**NVFP4, "quant_algo": "MIXED_PRECISION", "quantized_layers": {               # Qwen3.6
        f"model.layers.{layer}.{name}": {"quant_algo": algorithm} for layer in LAYERS for name, algorithm in (
            ("mlp.experts", "NVFP4"), ("mlp.shared_expert.up_proj", "NVFP4"), ("self_attn.q_proj", "FP8"))}},
     {"weights": "nvfp4", "attention": "fp8"}),
    ({**BLOCK, "quant_algo": "MIXED_PRECISION", "ignore": ["*.attn.*"], "quantized_layers": {     # DeepSeek-V4
        f"layers.{layer}.ffn.experts": {"quant_algo": "NVFP4", "group_size": 16} for layer in LAYERS}},
     {"weights": "fp8_block", "experts": "nvfp4"}),
])
def test_what_a_checkpoint_says(config: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    model = from_mapping(sample("deepseek_v3", quantization_config=config))
    assert model.checkpoint == Checkpoint(**expected)
    assert any("quantization_config" in note and "workload.formats leaves out" in note for note in model.notes)


@pytest.mark.parametrize("config", [
    {"quant_method": "gguf"}, {"quant_method": "awq", "bits": 3}, {**NVFP4, "quant_algo": "W2"}, {"bits": 4}, [4],
    {**GROUP, "config_groups": weights(4, "int", 32, {"num_bits": 8})}, {**GROUP, "config_groups": {"a": 3}},
])
def test_what_nobody_knows_is_said_and_left_to_the_run(config: object) -> None:
    model = from_mapping(sample("llama", quantization_config=config))
    assert model.checkpoint is None
    assert any("is not read" in note for note in model.notes)


@pytest.mark.parametrize(("name", "beside"), [("config.json", "hf_quant_config.json"),
                                              ("a--b_config.json", "a--b_hf_quant_config.json")])
def test_formats_in_a_file_beside(tmp_path: Path, name: str, beside: str) -> None:
    (tmp_path / name).write_text(json.dumps(sample("llama")))
    assert read_config(tmp_path / name).checkpoint is None
    (tmp_path / beside).write_text(json.dumps({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}))
    assert read_config(tmp_path / name).checkpoint == Checkpoint(weights="fp8", cache="fp8")
    (tmp_path / beside).write_text("[")
    with pytest.raises(InputError, match=r"hf_quant_config\.json: is not JSON"):
        read_config(tmp_path / name)


def test_inference_takes_what_its_formats_leave_out() -> None:
    published = Checkpoint(weights="nvfp4", attention="bf16", cache="fp8")
    assert resolved(Formats(), published) == Formats(weights="nvfp4", attention="bf16", cache="fp8")
    assert resolved(Formats(cache="bf16"), published).cache == "bf16"
    assert resolved(Formats(weights="fp8"), published) == Formats(weights="fp8", cache="fp8")   # requantised, all of it
    assert resolved(Formats(), None) == Formats(weights="bf16", cache="bf16")
    assert list(taken(Formats(cache="fp8"), published)) == [
        "left out, so as the published checkpoint has them: weights nvfp4, attention bf16"]
    assert not list(taken(Formats(weights="bf16", cache="bf16"), published))
    only = resolved(Formats(), Checkpoint(experts="int4", scale_group=32, weight_only=True))
    assert (only.activations, numbers_of(only).experts) == ("bf16", "bf16")
    assert (widths_of(only)["experts"], widths_of(only)["weights"]) == (0.5 + 2 / 32, 2.0)      # no scales of 16 bits


def test_weights_take_the_bytes_of_their_kind() -> None:
    """Two layers by hand: attention of 4 d^2 in 16 bits, an FFN of 3 d ffn in half a byte and scales."""
    plain = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
             "intermediate_size": 128, "vocab_size": 1000}
    ignored = {**NVFP4, "ignore": ["model.layers.0.self_attn*", "model.layers.1.self_attn*"]}
    bf16, nvfp4 = (replica_of(Inference(from_mapping(each), batch=1, prompt=4, generated=1)).weight_bytes(0)
                   for each in (plain, {**plain, "quantization_config": ignored}))
    assert bf16 - nvfp4 == 2 * 3 * 64 * 128 * (2 - 0.5 - 1 / 16)


def test_formats_that_do_not_fit_the_checkpoint() -> None:
    model = from_mapping(sample("llama", quantization_config=BLOCK))
    with pytest.raises(InputError, match=r"formats\.activations: nvfp4 is narrower than weights in fp8_block"):
        Inference(model, batch=1, prompt=4, generated=1, formats={"activations": "nvfp4"})  # type: ignore[arg-type]
