"""NeMo's configuration files, read: `trainer` and `model` of a Megatron GPT model.

Names and meanings: NVIDIA/NeMo at 8cfedd72 (2025-09-20), examples/nlp/language_modeling/conf/megatron_llama_config.yaml
and megatron_gpt_config.yaml (NeMo 1); below `model` they are Megatron core's, with activations_checkpoint_granularity,
_method and _num_layers for recompute_*. `optim.name` distributed_fused_adam shards the optimizer (ZeRO 1). NeMo 2 is
configured in Python: its recipes are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from astrarium.config.yamlfile import parse_yaml
from astrarium.planner.launch.given import Given, Launch
from astrarium.planner.launch.megatron import launch_of

__all__ = ["read_nemo"]

RENAMED = {"activations_checkpoint_granularity": "recompute_granularity",
           "activations_checkpoint_method": "recompute_method",
           "activations_checkpoint_num_layers": "recompute_num_layers", "num_moe_experts": "num_experts",
           "grad_sync_dtype": "reduced"}
HARMLESS = re.compile(
    r"(exp_manager|name|restore|trainer|mcore_gpt|init_method_std|use_scaled|layernorm|do_layer|pre_process|post_process|"
    r"persist|headscale|transformer_block_type|openai|normalize_attention|rotary|attention_type|overlap_p2p|batch_p2p|"
    r"tokenizer|native_amp|hysteresis|fp32_residual|fp16_lm|megatron_amp|grad_allreduce_chunk|grad_div|gradient_|bias_|"
    r"masked_|get_attention|apply_|seed|resume|use_cpu|onnx|apex|sync_batch|transformer_engine|fp8_|reduce_amax|use_emha|"
    r"data|nsys|max_position|kv_channels|ffn_dropout|num_micro_batches_with|deterministic|target|precision|gc_|"
    r"activations_checkpoint_layers)\w*")
_LINK = re.compile(r"\$\{(\.?)([\w.]{1,120})\}")
ON = {"rmsnorm": "RMSNorm", "layernorm1p": "LayerNorm", "layernorm": "LayerNorm"}


def read_nemo(text: str, where: str) -> Launch:
    """A job from a configuration of NeMo 1. Raises InputError for what matters and is not predicted."""
    data = parse_yaml(text, where).data
    model = data.get("model") if isinstance(data, dict) else None
    if not isinstance(model, dict):
        raise Given(where, {}, HARMLESS).fault("model", "is missing", "a NeMo 1 configuration with trainer and model")
    trainer = data.get("trainer") if isinstance(data.get("trainer"), dict) else {}
    values = {RENAMED.get(str(key), str(key)): _linked(value, model, data) for key, value in model.items()}
    optim = model.get("optim")
    values["use_distributed_optimizer"] = isinstance(optim, dict) and \
        str(optim.get("name")) in ("distributed_fused_adam", "mcore_distributed_optim")
    values.pop("optim", None)
    values |= _renamed(values, str((trainer or {}).get("precision", "")))
    given = Given(where, values, HARMLESS)
    return launch_of(given, "nemo", _npus(trainer or {}))


def _linked(value: Any, model: Mapping[str, Any], data: Mapping[str, Any], depth: int = 4) -> Any:
    """The value that `${.name}` or `${model.name}` stands for; itself where that is no plain link."""
    if value in ("True", "False"):
        return value == "True"
    match = _LINK.fullmatch(value) if isinstance(value, str) else None
    if match is None or not depth:
        return value
    found: Any = model if match[1] else data
    for name in match[2].split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return _linked(found, model, data, depth - 1)


def _renamed(values: dict[str, Any], precision: str) -> dict[str, Any]:
    """Megatron core's arguments for what NeMo says in other words."""
    activation = str(values.pop("activation", "gelu"))
    found: dict[str, Any] = {
        "swiglu": activation in ("swiglu", "fast-swiglu"), "fp16": precision.startswith("16"),
        "untie_embeddings_and_output_weights": values.pop("share_embeddings_and_output_weights", True) is False,
        "disable_bias_linear": values.pop("bias", True) is False,
        "normalization": ON.get(str(values.get("normalization", "layernorm")).lower(), "LayerNorm"),
        "grad_reduce_in_bf16": str(values.pop("reduced", "")).lower() in ("bf16", "bfloat16", "16"),
        "overlap_grad_reduce": bool(values.pop("overlap_grad_sync", False))}
    if not values.get("fp8"):
        values.pop("fp8", None)
    return found


def _npus(trainer: Mapping[str, Any]) -> int | None:
    nodes, devices = trainer.get("num_nodes"), trainer.get("devices")
    whole = all(isinstance(each, int) and not isinstance(each, bool) and 0 < each < 2**20 for each in (nodes, devices))
    return nodes * devices if whole and isinstance(nodes, int) and isinstance(devices, int) else None
