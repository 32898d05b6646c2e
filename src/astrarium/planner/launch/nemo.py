"""NeMo's configuration files, read: `trainer` and `model` of a Megatron GPT model.

Names and meanings: NVIDIA/NeMo at 8cfedd72 (2025-09-20), examples/nlp/language_modeling/conf/megatron_llama_config.yaml
and megatron_gpt_config.yaml (NeMo 1); below `model` they are Megatron core's, with activations_checkpoint_granularity,
_method and _num_layers for recompute_*. `optim.name` distributed_fused_adam shards the optimizer (ZeRO 1);
`megatron_amp_O2`, off where it is left out (megatron_gpt_model.py), keeps weights in 16 bits. NeMo 2 is configured in
Python: its recipes are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from astrarium.config.yamlfile import parse_yaml
from astrarium.errors import InputError
from astrarium.planner.launch.foreign import of_yaml
from astrarium.planner.launch.given import Given, Launch, without
from astrarium.planner.launch.known import known_keys
from astrarium.planner.launch.megatron import launch_of

__all__ = ["read_nemo"]

RENAMED = {"activations_checkpoint_granularity": "recompute_granularity",
           "activations_checkpoint_method": "recompute_method",
           "activations_checkpoint_num_layers": "recompute_num_layers", "num_moe_experts": "num_experts",
           "encoder_seq_length": "seq_length", "grad_sync_dtype": "reduced", "optim.grad_sync_dtype": "reduced",
           "overlap_grad_sync": "overlapped", "optim.overlap_grad_sync": "overlapped", "fsdp": "use_megatron_fsdp",
           "fsdp_sharding_strategy": "sharded", "transformer_block_type": "block_type", "qkv_bias": "add_qkv_bias",
           "override_vocab_size": "vocab_size"}
SHARDING = {"full": "optim_grads_params", "hybrid": "optim_grads_params", "grad": "optim_grads"}
ACTIVATIONS = {"gelu": {}, "swiglu": {"swiglu": True}, "fast-swiglu": {"swiglu": True}, "geglu": {"quick_geglu": True},
               "fast-geglu": {"quick_geglu": True}, "squared-relu": {"squared_relu": True}}
SHARDED = ("distributed_fused_adam", "mcore_distributed_optim")
OPTIMIZERS = (*SHARDED, "fused_adam", "adam", "adamw", "megatron_fused_adam")
_LINK = re.compile(r"\$\{(\.?)([\w.]{1,120})\}")
ON = {"rmsnorm": "RMSNorm", "layernorm1p": "LayerNorm", "layernorm": "LayerNorm"}


def read_nemo(text: str, where: str, ignore: Sequence[str] = ()) -> Launch:
    """A job from a configuration of NeMo 1. Raises InputError for what matters and is not predicted."""
    data = parse_yaml(text, where).data
    model = data.get("model") if isinstance(data, dict) else None
    other = None if isinstance(model, dict) else of_yaml(text)
    if other is not None:
        raise InputError(where, f"is {other[0]}", expected=other[1])
    if not isinstance(model, dict):
        raise InputError(f"{where}: model", "is missing", expected="a NeMo 1 configuration with trainer and model")
    values, left_out = without(_flat(data, model), ignore, where)
    assumed = [f"as without {', '.join(left_out)} (--ignore)"] if left_out else []
    precision, whole = str(values.get("trainer.precision", "")), values.pop("megatron_amp_O2", None) is not True
    values |= _renamed(values, precision, where)
    nodes, devices = values.pop("trainer.num_nodes", None), values.pop("trainer.devices", None)
    values.pop("trainer.precision", None)
    if values.get("trainer.accumulate_grad_batches") == 1:
        del values["trainer.accumulate_grad_batches"]
    launch = launch_of(Given(where, values, known_keys("nemo", "megatron"), assumed=assumed), "nemo",
                       _npus(nodes, devices))
    if launch.layout["zero"] <= 1:
        launch = replace(launch, fixed={"zero": (0, 1)})        # it shards the optimizer at most
    return _autocast(launch) if whole else launch


def _flat(data: Mapping[str, Any], model: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of the model by their names, those of its optimizer and of the trainer as `optim.lr`, `trainer.devices`."""
    inner = ("model", "trainer", "defaults")
    found: dict[str, Any] = {str(key): each for key, each in data.items() if key not in inner}
    for prefix, part in (("trainer.", data.get("trainer")), ("", model), ("optim.", model.get("optim"))):
        if isinstance(part, Mapping):
            found |= {prefix + str(key): _linked(value, model, data) for key, value in part.items() if key != "optim"}
    return found


def _linked(value: Any, model: Mapping[str, Any], data: Mapping[str, Any], depth: int = 4) -> Any:
    """The value that `${.name}` or `${model.name}` names; itself if it is not a plain link."""
    if value in ("True", "False"):
        return value == "True"
    match = _LINK.fullmatch(value) if isinstance(value, str) else None
    if match is None or not depth:
        return value
    found: Any = model if match[1] else data
    for name in match[2].split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return _linked(found, model, data, depth - 1)


def _renamed(values: dict[str, Any], precision: str, where: str) -> dict[str, Any]:
    """Megatron core's arguments for what NeMo says in other words; those words are taken out of `values`."""
    said = {RENAMED[name]: values.pop(name) for name in RENAMED if name in values}
    reduced, sharded = str(said.pop("reduced", "")).lower(), str(said.pop("sharded", "full"))
    overlapped = said.pop("overlapped", False) is True
    activation, name = str(values.pop("activation", "gelu")), str(values.get("optim.name", "fused_adam"))
    if activation not in ACTIVATIONS:
        raise InputError(f"{where}: model.activation", f"{activation[:60]!r} is not predicted",
                         expected="one of " + ", ".join(ACTIVATIONS))
    if name not in OPTIMIZERS:
        raise InputError(f"{where}: model.optim.name", f"{name[:60]!r} is not predicted",
                         expected="one of " + ", ".join(OPTIMIZERS))
    if said.pop("block_type", "pre_ln") != "pre_ln":
        raise InputError(f"{where}: model.transformer_block_type", "is not predicted", expected="pre_ln")
    if values.get("fp8") in (None, False):
        values.pop("fp8", None)
    if "16" not in precision:
        raise InputError(f"{where}: trainer.precision", f"{precision[:20]!r} is not predicted", expected="bf16 or 16")
    return {**said, **ACTIVATIONS[activation], "fp16": precision.startswith("16"), "bf16": precision.startswith("bf16"),
            "use_distributed_optimizer": name in SHARDED,
            "untie_embeddings_and_output_weights": values.pop("share_embeddings_and_output_weights", True) is False,
            "disable_bias_linear": values.pop("bias", True) is False,
            "normalization": ON.get(str(values.get("normalization", "layernorm")).lower(), "LayerNorm"),
            "grad_reduce_in_bf16": reduced in ("bf16", "bfloat16", "16"), "overlap_grad_reduce": overlapped,
            "data_parallel_sharding_strategy": SHARDING.get(sharded),
            "no_gradient_accumulation_fusion": values.pop("gradient_accumulation_fusion", None) is False}


def _autocast(launch: Launch) -> Launch:
    """The job with weights in fp32, which every product casts."""
    half = launch.settings["precision"]["activations"]
    formats = {"products": half, **launch.settings["precision"], "weights": "fp32", "gradients": "fp32", "master": None}
    said = f"weights in fp32, products in {formats['products']} (megatron_amp_O2 is not on)"
    return replace(launch, settings={**launch.settings, "precision": formats}, assumed=(*launch.assumed, said))


def _npus(nodes: Any, devices: Any) -> int | None:
    whole = all(isinstance(each, int) and not isinstance(each, bool) and 0 < each < 2**20 for each in (nodes, devices))
    return nodes * devices if whole and isinstance(nodes, int) and isinstance(devices, int) else None
