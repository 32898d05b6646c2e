"""DeepSpeed's configuration files, read: batch, ZeRO, precision, sharding degrees.

Names and meanings: deepspeedai/DeepSpeed at edaa7221 (2026-08-22): deepspeed/runtime/constants.py,
deepspeed/runtime/zero/config.py (stage, overlap_comm, zero_hpz_partition_size, mics_shard_size, offload_*),
docs/_pages/config-json.md: train_batch_size = train_micro_batch_size_per_gpu * gradient_accumulation_steps * number of
GPUs. Pipeline stages and activation checkpointing are said in Python: `pipeline.stages` and
`tensor_parallel.autotp_size` are read in place; layers are then not computed again, and the output says so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from astrarium.config.yamlfile import once
from astrarium.errors import InputError
from astrarium.planner.launch.given import Given, Launch, without
from astrarium.planner.launch.known import known_keys

__all__ = ["deepspeed_launch", "json_object"]

FORMATS = {"fp32": "fp32", "float32": "fp32", "torch.float32": "fp32", "fp16": "fp16", "float16": "fp16",
           "torch.float16": "fp16", "bf16": "bf16", "bfloat16": "bf16", "bfp16": "bf16", "torch.bfloat16": "bf16",
           "none": None}
ADAM = ("adam", "adamw", "fusedadam", "torchadam", "deepspeedcpuadam")


def deepspeed_launch(data: dict[str, Any], where: str, ignore: Sequence[str] = ()) -> Launch:
    """A job from a DeepSpeed configuration, which says nothing about the model. Raises InputError."""
    if not isinstance(data.get("zero_optimization", {}), dict):
        raise InputError(f"{where}: zero_optimization", "is no mapping")
    values, left_out = without(_flat(data), ignore, where)
    given = Given(where, values, known_keys("deepspeed"))
    given.assumed += [f"as without {', '.join(left_out)} (--ignore)"] if left_out else []
    stage = given.whole("zero_optimization.stage", 0, 0)
    if stage > 3:
        raise given.fault("zero_optimization.stage", f"{stage}", "0 to 3")
    for name in ("zero_optimization.offload_param", "zero_optimization.offload_optimizer"):
        part = given.raw(name)
        if isinstance(part, dict) and str(part.get("device", "none")) != "none":
            raise given.fault(name, f"device {str(part.get('device'))[:40]!r} is not predicted",
                              f"device none, or --ignore {name} to predict as without it")
    micro, steps = given.number("train_micro_batch_size_per_gpu"), given.number("gradient_accumulation_steps")
    whole = given.number("train_batch_size")
    tp, pp = _degree(given, "tensor_parallel.autotp_size"), _degree(given, "pipeline.stages")
    given.assumed += [] if micro else ["micro-batches of 1 sample (train_micro_batch_size_per_gpu is not said)"]
    given.assumed.append("no layer is computed again (DeepSpeed says that in Python)")
    given.refuse("sequence_parallel_size", (1,), "Ulysses")
    settings, shards = _settings(given, stage), _shards(given)
    assumed, ignored = given.rest()
    replica = micro * (steps or 1) if micro and (steps or not whole) else None
    return Launch("deepspeed", {"tp": tp, "pp": pp, "zero": stage, "micro_batch": micro or 1}, None, None, None, whole,
                  settings, replica_batch=replica, shards=shards,
                  assumed=assumed, ignored=ignored)


def json_object(text: str, where: str) -> dict[str, Any]:
    """The JSON object of a file. Raises InputError."""
    try:
        data = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise InputError(where, f"is no JSON ({str(error)[:80] or 'too deep'})") from None
    if not isinstance(data, dict):
        raise InputError(where, "is no JSON object", expected="DeepSpeed's configuration, or what torchtitan prints")
    return data


def _flat(data: dict[str, Any]) -> dict[str, Any]:
    """`zero_optimization.stage` -> value, "auto" as if it was not there. Of a section that is not enabled nothing
    counts."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        inner = value if isinstance(value, dict) else {}
        if inner and inner.get("enabled") in (False, None) and "enabled" in inner:
            continue
        found |= {f"{key}.{name}": each for name, each in inner.items()}
        found |= {} if isinstance(value, dict) else {str(key): value}
    return {key: None if value == "auto" else value for key, value in found.items()}


def _shards(given: Given) -> int | None:
    """Ranks that weights are sharded over, where fewer than all (ZeRO++ hpZ, MiCS)."""
    mics, secondary = given.raw("zero_optimization.mics_shard_size"), \
        given.whole("zero_optimization.zero_hpz_partition_size", 1)
    if secondary > 1:
        given.assumed.append("weights are gathered from all ranks (zero_hpz_partition_size)")
    return mics if isinstance(mics, int) and not isinstance(mics, bool) and mics > 0 else None


def _degree(given: Given, name: str) -> int:
    value = given.raw(name)
    if value in (None, -1, 0):
        return 1
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**20:
        raise given.fault(name, f"{str(value)[:60]!r} is no whole number above 0")
    return value


def _settings(given: Given, stage: int) -> dict[str, Any]:
    formats = {name: given.flag(f"{name}.enabled") for name in ("bf16", "fp16")}
    if all(formats.values()):
        raise given.fault("fp16.enabled", "bf16 and fp16 are both enabled", "one of them")
    half = "fp16" if formats["fp16"] and not formats["bf16"] else "bf16"
    if not any(formats.values()):
        given.assumed.append("bf16 (neither bf16 nor fp16 is enabled)")
    name = str(given.raw("optimizer.type") or "adam").lower()
    if name not in (*ADAM, "sgd"):
        raise given.fault("optimizer.type", f"{name[:40]!r} is not predicted", "Adam, AdamW or SGD")
    summed = given.choice("data_types.grad_accum_dtype", FORMATS, "none") or half
    sent = given.choice("communication_data_type", FORMATS, "none")
    precision = {"weights": half, "activations": half, "gradients": summed, **({"reduction": sent} if sent else {})}
    whole = [given.flag(f"{kind}.{kind}_master_weights_and_grads") for kind in ("bf16", "fp16")]
    if any(whole):
        precision |= {"master": None, "gradients": half}
    if given.flag("bf16.bf16_optimizer_states"):
        precision["moments"] = "bf16"
    return {"precision": precision, "overlap": given.flag("zero_optimization.overlap_comm", stage == 3),
            **({"optimizer": "sgd"} if name == "sgd" else {})}
