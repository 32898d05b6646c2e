"""torchtitan's configuration files (TOML), read.

Names and meanings: pytorch/torchtitan at 238fa995 (2026-02-23), torchtitan/config/job_config.py: `training`
(local_batch_size: samples of a data-parallel rank and step; global_batch_size -1: no accumulation; mixed_precision_*),
`parallelism` (data_parallel_replicate_degree, data_parallel_shard_degree -1: all that is left;
fsdp_reshard_after_forward default: not under pipeline stages; pipeline_parallel_schedule,
pipeline_parallel_microbatch_size), `activation_checkpoint`. Later versions configure in Python and are not read.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from typing import Any

from astrarium.errors import InputError
from astrarium.planner.launch.given import Given, Launch

__all__ = ["read_torchtitan"]

HARMLESS = re.compile(
    r"(job|profiling|metrics|optimizer|lr_scheduler|checkpoint|comm|validation|fault_tolerance|memory_estimation|"
    r"experimental|debug|model\.(hf_assets_path|tokenizer_path|print_after_conversion)|compile\.components|"
    r"training\.(dataset|dataset_path|max_norm|steps|seed|deterministic|gc_freq|gc_debug|dataloader|debug_moe\w*)|"
    r"activation_checkpoint\.(early_stop|determinism_check|debug|preserve_rng_state|memory_budget|visualize\w*|per_op\w*)|"
    r"parallelism\.(disable_loss_parallel|pipeline_parallel_expert\w*)|quantize)(\.[\w.]*)?")
FLAVOURS = {("llama3", "8B"): "llama3-8b", ("llama3", "70B"): "llama3-70b", ("llama3", "405B"): "llama3-405b",
            ("deepseek_v3", "671B"): "deepseek-v3", ("qwen3", "8B"): "qwen3-8b", ("qwen3", "32B"): "qwen3-32b",
            ("qwen3", "30B-A3B"): "qwen3-30b-a3b", ("qwen3", "235B-A22B"): "qwen3-235b-a22b"}
SCHEDULES = {"1f1b": 1, "gpipe": 1, "interleaved1f1b": 2}


def read_torchtitan(text: str, where: str) -> Launch:
    """A job from a torchtitan configuration. Raises InputError for what matters and is not predicted."""
    given = Given(where, _flat(_toml(text, where)), HARMLESS)
    tp, cp, pp, ep = (given.whole(f"parallelism.{name}_parallel_degree", 1)
                      for name in ("tensor", "context", "pipeline", "expert"))
    replicas = given.whole("parallelism.data_parallel_replicate_degree", 1)
    shard = given.number("parallelism.data_parallel_shard_degree", -1, -1)
    given.refuse("parallelism.enable_async_tensor_parallel", (False,), "products are not split to overlap them")
    given.refuse("parallelism.expert_tensor_parallel_degree", (1, tp), "experts are divided over tp as others are")
    given.refuse("training.enable_cpu_offload", (False,), "weights on the host")
    given.refuse("parallelism.module_fqns_per_model_part", ([],), "stages of its own")
    given.refuse("parallelism.pipeline_parallel_schedule_csv", ("",), "a schedule of its own")
    kept = str(given.raw("parallelism.fsdp_reshard_after_forward") or "default")
    zero = 0 if shard == 1 else 3 if kept == "always" or (kept == "default" and pp == 1) else 2
    local = given.whole("training.local_batch_size", 8)
    micro = given.whole("parallelism.pipeline_parallel_microbatch_size", 1) if pp > 1 else local
    whole = given.number("training.global_batch_size", -1, -1)
    layout = {"tp": tp, "pp": pp, "cp": cp, "ep": ep, "zero": zero, "micro_batch": micro,
              "recompute": _recompute(given), "virtual_stages": _virtual(given, pp), "tp_sequence": tp > 1}
    name, flavour = str(given.raw("model.name") or ""), str(given.raw("model.flavor") or "")
    settings = _settings(given)
    npus = replicas * shard * tp * cp * pp if shard is not None and shard > 0 else None
    if pp > 1 and zero >= 2:
        given.assumed.append("gradients are reduced once for every micro-batch")
    seq = given.number("training.seq_len", 2048)
    assumed, ignored = given.rest()
    return Launch("torchtitan", layout, None, FLAVOURS.get((name, flavour)), seq,
                  whole if whole is not None and whole > 0 else None, settings, npus,
                  replica_batch=None if whole is not None and whole > 0 else local,
                  shards=shard if replicas > 1 and shard is not None and shard > 1 else None, assumed=assumed,
                  ignored=ignored)


def _toml(text: str, where: str) -> Mapping[str, Any]:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        found: Mapping[str, Any] = toml.loads(text)
    except (toml.TOMLDecodeError, RecursionError) as error:
        raise InputError(where, f"is no TOML ({str(error)[:80] or 'too deep'})") from None
    return found


def _flat(data: Mapping[str, Any]) -> dict[str, Any]:
    """`training.seq_len` -> value: one level of tables."""
    found: dict[str, Any] = {}
    for table, fields in data.items():
        found |= {f"{table}.{name}": value for name, value in fields.items()} if isinstance(fields, Mapping) else \
            {table: fields}
    return found


def _recompute(given: Given) -> str:
    mode = given.choice("activation_checkpoint.mode", {"none": "none", "full": "full", "selective": "selective",
                                                       "memory_budget": "memory"}, "selective")
    option = str(given.raw("activation_checkpoint.selective_ac_option") or "2")
    if mode == "memory":
        raise given.fault("activation_checkpoint.mode", "memory_budget is not predicted", "none, selective or full")
    if mode == "selective":
        given.assumed.append(f"selective recomputation is that of attention's core (selective_ac_option {option[:20]})")
    return str(mode)


def _virtual(given: Given, pp: int) -> int:
    schedule = str(given.raw("parallelism.pipeline_parallel_schedule") or "1F1B").lower()
    each = given.number("parallelism.pipeline_parallel_layers_per_stage")
    for end in ("first", "last"):
        given.raw(f"parallelism.pipeline_parallel_{end}_stage_less_layers")
    if pp == 1:
        return 1
    if schedule not in SCHEDULES:
        raise given.fault("parallelism.pipeline_parallel_schedule", f"{schedule[:40]!r} is not predicted",
                          "1F1B, GPipe or Interleaved1F1B")
    if each is not None:
        given.assumed.append(f"{SCHEDULES[schedule]} parts of a stage (pipeline_parallel_layers_per_stage {each})")
    if schedule == "gpipe":
        given.assumed.append("1F1B in place of GPipe: the same bubble")
    return SCHEDULES[schedule]


def _settings(given: Given) -> dict[str, Any]:
    half = given.choice("training.mixed_precision_param", {"bfloat16": "bf16", "float32": "fp32"}, "bfloat16")
    reduced = given.choice("training.mixed_precision_reduce", {"float32": "fp32", "bfloat16": "bf16"}, "float32")
    given.raw("training.dtype")
    converters = given.raw("model.converters")
    fp8 = any("float8" in str(each) for each in (converters if isinstance(converters, list) else []))
    given.raw("compile.enable")
    return {"precision": {"weights": half, "activations": half, "gradients": reduced, "master": None
                          if half == "fp32" else "fp32", **({"products": "fp8"} if fp8 else {})}}
