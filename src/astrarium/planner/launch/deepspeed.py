"""DeepSpeed's configuration files, read: batch, ZeRO, precision, sharding degrees.

Names and meanings: deepspeedai/DeepSpeed at edaa7221 (2026-08-22): deepspeed/runtime/constants.py,
deepspeed/runtime/zero/config.py (stage, overlap_comm, zero_hpz_partition_size, mics_shard_size, offload_*),
docs/_pages/config-json.md: train_batch_size = train_micro_batch_size_per_gpu * gradient_accumulation_steps * number of
GPUs. Pipeline stages and activation checkpointing are said in Python: `pipeline.stages` and
`tensor_parallel.autotp_size` are read where they stand; layers are then not computed again, and the output says so.
"""

from __future__ import annotations

import json
import re
from typing import Any

from astrarium.errors import InputError
from astrarium.planner.launch.given import Given, Launch

__all__ = ["read_deepspeed"]

HARMLESS = re.compile(
    r"(steps_per_print|wall_clock|dump_state|tensorboard|wandb|csv_monitor|comet|flops_profiler|comms_logger|scheduler|"
    r"gradient_clipping|prescale|gradient_predivide|sparse_gradients|amp|zero_allow|zero_force|checkpoint|data_types|"
    r"dataloader|memory_breakdown|checkpoint_parallel|aio|autotuning|elasticity|seed|disable_allgather|"
    r"communication_data_type|seq_parallel_comm|torch_autocast|loss_scale|log_level|monitor)\w*")
LEFT = ("contiguous_gradients", "reduce_scatter", "reduce_bucket_size", "allgather_partitions", "allgather_bucket_size",
        "sub_group_size", "round_robin_gradients", "ignore_unused_parameters", "stage3_", "gather_16bit", "elastic",
        "memory_efficient_linear", "load_from_fp32", "prefetch_bucket", "param_persistence", "max_live", "max_reuse")


def read_deepspeed(text: str, where: str) -> Launch:
    """A job from a DeepSpeed configuration, which says nothing about the model. Raises InputError."""
    data = _json(text, where)
    given = Given(where, data, HARMLESS)
    zero = given.raw("zero_optimization") or {}
    if not isinstance(zero, dict):
        raise given.fault("zero_optimization", "is no mapping")
    inner = Given(f"{where}: zero_optimization", zero, re.compile(rf"({'|'.join(LEFT)})\w*"))
    stage = inner.whole("stage", 0) if inner.raw("stage") != 0 else 0
    if stage > 3:
        raise inner.fault("stage", f"{stage}", "0 to 3")
    for name in ("offload_param", "offload_optimizer"):
        part = inner.raw(name)
        if isinstance(part, dict) and str(part.get("device", "none")) != "none":
            raise inner.fault(name, f"device {str(part.get('device'))[:40]!r} is not predicted", "device none")
    for name in ("zero_quantized_weights", "zero_quantized_gradients"):
        inner.refuse(name, (False,), "weights or gradients are sent as they are")
    shards = _shards(inner)
    micro = given.number("train_micro_batch_size_per_gpu")
    steps = given.number("gradient_accumulation_steps")
    whole = given.number("train_batch_size")
    pipeline, tensor = given.raw("pipeline"), given.raw("tensor_parallel")
    pp = _degree(given, "pipeline", pipeline, "stages")
    tp = _degree(given, "tensor_parallel", tensor, "autotp_size")
    assumed = [] if micro else ["micro-batches of 1 sample (train_micro_batch_size_per_gpu is not said)"]
    given.assumed += [*assumed, "no layer is computed again (DeepSpeed says that in Python)"]
    settings = _settings(given, inner, stage)
    unknown, ignored = given.rest()
    more, left = inner.rest()
    return Launch("deepspeed", {"tp": tp, "pp": pp, "zero": stage, "micro_batch": micro or 1}, None, None, None, whole,
                  settings, replica_batch=None if whole else (micro or 1) * (steps or 1), shards=shards,
                  assumed=(*unknown, *more), ignored=(*ignored, *left))


def _json(text: str, where: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(where, f"is no JSON ({str(error)[:80] or 'too deep'})") from None
    if not isinstance(data, dict):
        raise InputError(where, "is no JSON object", expected="a DeepSpeed configuration")
    return {str(key): None if value == "auto" else value for key, value in data.items()}


def _shards(inner: Given) -> int | None:
    """Ranks that weights are sharded over, where fewer than all (ZeRO++ hpZ, MiCS)."""
    mics, secondary = inner.raw("mics_shard_size"), inner.whole("zero_hpz_partition_size", 1)
    if secondary > 1:
        inner.assumed.append("weights are gathered from all ranks (zero_hpz_partition_size)")
    return mics if isinstance(mics, int) and not isinstance(mics, bool) and mics > 0 else None


def _degree(given: Given, name: str, part: Any, key: str) -> int:
    value = part.get(key) if isinstance(part, dict) else None
    if value is None or value in ("auto", -1):
        return 1
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**20:
        raise given.fault(f"{name}.{key}", f"{str(value)[:60]!r} is no whole number above 0")
    return value


def _settings(given: Given, inner: Given, stage: int) -> dict[str, Any]:
    formats = {}
    for name in ("bf16", "fp16"):
        part = given.raw(name)
        formats[name] = isinstance(part, dict) and bool(part.get("enabled"))
    half = "fp16" if formats["fp16"] and not formats["bf16"] else "bf16"
    if not any(formats.values()):
        given.assumed.append("bf16 (neither bf16 nor fp16 is enabled)")
    kind = given.raw("optimizer")
    name = str(kind.get("type", "adam")).lower() if isinstance(kind, dict) else "adam"
    if name not in ("adam", "adamw", "fusedadam", "sgd"):
        raise given.fault("optimizer", f"{name[:40]!r} is not predicted", "Adam, AdamW or SGD")
    overlap = inner.flag("overlap_comm", stage == 3)
    return {"precision": {"weights": half, "activations": half, "gradients": half}, "overlap": overlap,
            **({"optimizer": "sgd"} if name == "sgd" else {})}
