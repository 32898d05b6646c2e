"""torchtitan's configurations, read: TOML files, also with overrides of a command line, and what runs print.

Names and meanings: pytorch/torchtitan at 238fa995 (2026-02-23), torchtitan/config/job_config.py: `training`
(local_batch_size: samples of a data-parallel rank and step; global_batch_size -1: no accumulation; mixed_precision_*),
`parallelism` (data_parallel_replicate_degree, data_parallel_shard_degree -1: all that is left;
fsdp_reshard_after_forward default: not under pipeline stages; pipeline_parallel_schedule,
pipeline_parallel_microbatch_size), `activation_checkpoint` (selective_ac_option: `op`, or N: every N-th layer). Names
of 2024 and 2025 (torchtitan/config_manager.py) are read as today's. Later versions configure in Python, which is not
run: what they print is read (torchtitan_printed.py).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from astrarium.errors import InputError
from astrarium.planner.launch.given import NOTHING, Given, Launch, without
from astrarium.planner.launch.known import is_off, known_keys
from astrarium.planner.launch.torchtitan_printed import as_toml, sizes_of

__all__ = ["read_printed", "read_torchtitan"]

_PARALLEL = ("data_parallel_replicate_degree", "data_parallel_shard_degree", "tensor_parallel_degree",
             "pipeline_parallel_degree", "context_parallel_degree", "context_parallel_rotate_method",
             "enable_async_tensor_parallel", "enable_compiled_autograd", "pipeline_parallel_schedule",
             "pipeline_parallel_schedule_csv", "pipeline_parallel_split_points", "pipeline_parallel_split_mode",
             "pipeline_parallel_microbatches", "fsdp_reshard_after_forward", "disable_loss_parallel")
RENAMED: Mapping[str, str] = MappingProxyType({
    **{f"{section}.{name}": f"parallelism.{name}" for section in ("training", "experimental") for name in _PARALLEL},
    "training.data_parallel_degree": "parallelism.data_parallel_shard_degree",
    "training.batch_size": "training.local_batch_size", "training.compile": "compile.enable",
    "compile.enable_async_tensor_parallel": "parallelism.enable_async_tensor_parallel"})
"""Older names -> today's."""
FP8 = ("float8.enable_float8_linear", "training.enable_float8_linear", "training.enable_fp8_linear",
       "training.fp8_linear")
CONVERTERS = ("float8", *(f"quantize.{kind}.float8" for kind in ("linear", "dense", "grouped_mm", "moe")))
FLAVOURS = {("llama3", "8B"): "llama3-8b", ("llama3", "70B"): "llama3-70b", ("llama3", "405B"): "llama3-405b",
            ("deepseek_v3", "671B"): "deepseek-v3", ("qwen3", "8B"): "qwen3-8b", ("qwen3", "32B"): "qwen3-32b",
            ("qwen3", "30B-A3B"): "qwen3-30b-a3b", ("qwen3", "235B-A22B"): "qwen3-235b-a22b"}
FSDP2: Mapping[str, Any] = MappingProxyType({"gather": "copied", "reduce": "group", "ends": "together", "pools": True})
HALF_STATES = "fused_opt_states_bf16"
SCHEDULES = {"1f1b": 1, "gpipe": 1, "interleaved1f1b": 2}
STEPS = {"fused": "fused", "foreach": "foreach", HALF_STATES: "fused"}
FIXED: Mapping[str, Sequence[Any]] = MappingProxyType({"recompute": ("none", "operators", "full")})
"""What torchtitan has of a layout: its own checkpointing."""


def read_torchtitan(text: str, where: str, ignore: Sequence[str] = (), overrides: Mapping[str, Any] = NOTHING
                    ) -> Launch:
    """A job from a TOML file of torchtitan; `overrides` (key -> value) of a command line win over it. Raises InputError
    for what matters and is not predicted."""
    values = {**_renamed(_flat(_toml(text, where)), where), **_renamed(overrides, where)}
    return _launch(Given(where, {}, known_keys("torchtitan")), values, ignore)


def read_printed(data: Mapping[str, Any], where: str, ignore: Sequence[str] = ()) -> Launch:
    """A job from a configuration that torchtitan printed. Raises InputError as `read_torchtitan`."""
    sections, said = as_toml(data, where)
    given = Given(where, {}, known_keys("torchtitan"), printed=True, assumed=list(said))
    return _launch(given, _renamed(_flat(sections), where), ignore, sizes_of(data))


def _launch(given: Given, said: Mapping[str, Any], ignore: Sequence[str], model: Mapping[str, Any] | None = None
            ) -> Launch:
    """The job of these keys. `model`: sizes for a flavour that the catalog does not have."""
    given.values, left_out = without(said, [RENAMED.get(name, name) for name in ignore], given.where)
    given.assumed += [f"as without {', '.join(left_out)} (--ignore)"] if left_out else []
    tp, cp, pp, ep = (given.whole(f"parallelism.{name}_parallel_degree", 1)
                      for name in ("tensor", "context", "pipeline", "expert"))
    replicas = given.whole("parallelism.data_parallel_replicate_degree", 1)
    shard = given.whole("parallelism.data_parallel_shard_degree", -1, -1)
    _refused(given, tp)
    local = given.whole("training.local_batch_size", 8)
    whole = given.whole("training.global_batch_size", -1, -1)
    recompute, fields = _recompute(given)
    layout = {"tp": tp, "pp": pp, "cp": cp, "ep": ep, "zero": _zero(given, shard, pp),
              "micro_batch": _micro_batch(given, local, pp), "recompute": recompute,
              "virtual_stages": _virtual(given, pp),
              "tp_sequence": given.flag("parallelism.enable_sequence_parallel", True) and tp > 1}
    name, flavour = str(given.raw("model.name") or ""), str(given.raw("model.flavor") or "")
    settings = _settings(given)
    seq = given.number("training.seq_len", 2048)
    assumed, ignored = given.rest()
    known = FLAVOURS.get((name, flavour))
    return Launch("torchtitan", layout, None if known else model, known, seq, whole if whole > 0 else None,
                  settings, None, degrees=replicas * shard * tp * cp * pp if shard > 0 else None,
                  replica_batch=None if whole > 0 else local, fields=fields, fixed=FIXED,
                  shards=shard if replicas > 1 and shard > 1 else None,
                  missing=() if model else (f"the sizes of {name} {flavour}",),
                  copies=replicas if shard < 0 else 1, assumed=assumed, ignored=ignored)


def _toml(text: str, where: str) -> Mapping[str, Any]:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        found: Mapping[str, Any] = toml.loads(text)
    except (toml.TOMLDecodeError, RecursionError) as error:
        raise InputError(where, f"is no TOML ({str(error)[:80] or 'too deep'})") from None
    return found


def _flat(data: Mapping[str, Any], prefix: str = "", depth: int = 4) -> dict[str, Any]:
    """`training.seq_len`, `quantize.linear.float8.filter_fqns` -> value."""
    found: dict[str, Any] = {}
    for name, value in data.items():
        inner = depth and isinstance(value, Mapping) and f"{prefix}{name}" != "training.dataloader"
        found |= _flat(value, f"{prefix}{name}.", depth - 1) if inner else {f"{prefix}{name}": value}
    return found


def _renamed(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Keys by today's names. Raises InputError if an older name and today's have different values."""
    found = {name: value for name, value in values.items() if name not in RENAMED}
    for old, new in RENAMED.items():
        if old in values and found.setdefault(new, values[old]) != values[old]:
            raise InputError(f"{where}: {old}", f"is {str(values[old])[:40]}, and {new} is {str(found[new])[:40]}",
                             expected="one of them")
    if "training.batch_size" in values:     # of 2024
        found.setdefault("model.norm_type", "rmsnorm")
        if found.get("compile.enable"):     # the loss was compiled later
            found.setdefault("compile.components", ["model"])
    return found


def _refused(given: Given, tp: int) -> None:
    """What changes time and is not predicted."""
    given.refuse("parallelism.expert_tensor_parallel_degree", (1, tp), "experts are divided over tp as others are")
    given.refuse("parallelism.expert_parallel_comm_backend", ("standard",), "tokens go to experts by all_to_all")
    given.refuse("comm.mode", ("default", "torchcomms"), "a run without communication")
    given.refuse("optimizer.name", ("Adam", "AdamW"), "another optimizer")
    given.refuse("model.norm_type", ("rmsnorm", "fused_rmsnorm", "compiled_rmsnorm"), "another norm")


def _zero(given: Given, shard: int, pp: int) -> int:
    """0 where weights are replicated, 3 where they are sharded, 2 where they stay together after the forward pass; 1
    where gradients stay together, too, until a stage's last micro-batch (PyTorch's pipelines)."""
    kept = str(given.raw("parallelism.fsdp_reshard_after_forward") or "default")
    kind = given.choice("training.data_parallel_type", {"fsdp": True, "ddp": False}, "fsdp")
    if shard == 1 or not kind:
        return 0
    if kept == "always":
        given.assumed += ["gradients are reduced once for every micro-batch"] if pp > 1 else []
        return 3
    return 1 if pp > 1 else 3 if kept == "default" else 2


def _micro_batch(given: Given, local: int, pp: int) -> int:
    """Samples of a micro-batch: with stages as one of two keys says, else all of a rank."""
    count, size = given.number("parallelism.pipeline_parallel_microbatches"), \
        given.whole("parallelism.pipeline_parallel_microbatch_size", 1)
    if pp == 1:
        return local
    if count is not None and local % count:
        raise given.fault("parallelism.pipeline_parallel_microbatches", f"{count} do not divide {local} samples")
    return size if count is None else local // count


def _recompute(given: Given) -> tuple[str, dict[str, Any]]:
    """(none, operators or full; fields that say which layers)."""
    mode = given.choice("activation_checkpoint.mode", {"none": "none", "full": "full", "selective": "selective",
                                                       "memory_budget": "memory"}, "selective")
    option = str(given.raw("activation_checkpoint.selective_ac_option") or "2").lower()
    if mode == "memory":
        raise given.fault("activation_checkpoint.mode", "memory_budget is not predicted", "none, selective or full")
    if mode != "selective":
        return str(mode), {}
    if option == "op":
        return "operators", {}
    if not option.isdecimal() or not 0 < int(option) < 10_000:
        raise given.fault("activation_checkpoint.selective_ac_option", f"{option[:40]!r} is not known",
                          "op, or N: every N-th layer")
    if int(option) == 1:
        return "full", {}
    every = int(option)
    ending = {1: "st", 2: "nd", 3: "rd"}.get(every % 10 if every // 10 % 10 != 1 else 0, "th")
    given.assumed.append(f"recompute full for every {every}{ending} layer only (selective_ac_option)")
    return "full", {"recompute_every": every}


def _virtual(given: Given, pp: int) -> int:
    schedule = str(given.raw("parallelism.pipeline_parallel_schedule") or "1F1B").lower()
    each = given.number("parallelism.pipeline_parallel_layers_per_stage")
    less = [given.whole(f"parallelism.pipeline_parallel_{end}_stage_less_layers", 1, 0) for end in ("first", "last")]
    if pp == 1:
        return 1
    if schedule not in SCHEDULES:
        raise given.fault("parallelism.pipeline_parallel_schedule", f"{schedule[:40]!r} is not predicted",
                          "1F1B, GPipe or Interleaved1F1B")
    if each is not None:
        given.assumed.append(f"{SCHEDULES[schedule]} parts of a stage (pipeline_parallel_layers_per_stage {each})")
    if any(less):
        given.assumed.append("stages have equally many layers; the first and the last have no fewer")
    if schedule == "gpipe":
        given.assumed.append("1F1B in place of GPipe: the same bubble")
    return SCHEDULES[schedule]


def _settings(given: Given) -> dict[str, Any]:
    half = given.choice("training.mixed_precision_param", {"bfloat16": "bf16", "float32": "fp32"}, "bfloat16")
    reduced = given.choice("training.mixed_precision_reduce", {"float32": "fp32", "bfloat16": "bf16"}, "float32")
    kept = given.choice("training.dtype", {"bfloat16": "bf16", "float32": "fp32"}, "float32")
    said = given.raw("model.converters")
    converters = said if isinstance(said, list) else str(said or "").split(",")
    unknown = next((each for each in converters if str(each).strip() not in CONVERTERS and not is_off(each)), None)
    if unknown is not None:
        raise given.fault("model.converters", f"{str(unknown)[:60]!r} is not predicted", "float8")
    flags = [given.flag(name) for name in FP8]
    fp8 = any(flags) or any(not is_off(each) for each in converters)
    precision = {"weights": half, "activations": half, "gradients": reduced,
                 "master": None if half == "fp32" else "fp32", **({"products": "fp8"} if fp8 else {})}
    if kept == "bf16":
        precision |= {"gradients": "bf16", "reduction": reduced, "master": None, "moments": "bf16"}
    if given.raw("optimizer.implementation") == HALF_STATES:
        precision["moments"] = "bf16"
    rotated = given.choice("parallelism.context_parallel_rotate_method", {"allgather": "gather", "alltoall": "ring"},
                           "allgather")
    return {"precision": {**precision, "shards": "master"}, "cp_attention": rotated, "software": _software(given),
            "buffers": dict(FSDP2), **_compiled(given)}


def _software(given: Given) -> dict[str, str]:
    """How the program writes its operators: a file that names `rmsnorm`, or could have, is of a torchtitan whose norm
    was operators of its own (torchtitan/models/norms.py); later ones have torch.nn.RMSNorm."""
    norms = "operators" if given.raw("model.norm_type") == "rmsnorm" else "kernel"
    steps = given.choice("optimizer.implementation", STEPS, "fused")
    return {"rms_norm": norms, "rotary": "complex", "step": str(steps), "clip": "scaled"}


def _compiled(given: Given) -> dict[str, Any]:
    """What torch.compile makes of layers and of the loss."""
    parts, on = given.raw("compile.components"), given.flag("compile.enable")
    return {"fusion": on and (parts is None or "model" in parts),
            "cross_entropy": "compiled" if on and (parts is None or "loss" in parts) else "eager"}
