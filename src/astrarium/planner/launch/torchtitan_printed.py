"""What runs of torchtitan print of their configuration (JSON), and its command lines: as the keys of its TOML files.

pytorch/torchtitan at b5bcd76c (2026-08-21) and its history:

- torchtitan/trainer.py: `Running with configs:` of --debug.print_config, debug.save_config_file; `Running with args:`
  and job.* until 2026-02; since its pull request 4810 of 2026-09-22 `model` in place of `model_spec`;
- torchtitan/config/configs.py: since 2026-08-20 batches are tokens (num_tokens_per_microbatch_per_dp_rank,
  num_tokens_per_train_step, max_context_length, num_pp_microbatches);
- torchtitan/distributed/activation_checkpoint.py: since 2026-06-15 a policy's fields instead of a mode;
- torchtitan/components/quantization: since 2026-04-27 formats of products are classes of the model, which the JSON
  leaves out;
- torchtitan/models/common/attention.py (GQAttention); run_train.sh (CONFIG_FILE, NGPU).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from astrarium.errors import InputError

__all__ = ["as_toml", "is_printed", "printed_config", "sizes_of", "torchtitan_line"]

_MARK = re.compile(r"Running with (?:configs|args): *(?=\{)")
_PREFIX = re.compile(r"^(?:\[[^\]\n]{0,40}\]:|\d+:)[ \t]?", re.MULTILINE)     # of torchrun and srun, before every line
_CONFIG = re.compile(r"(?:--job[.]config[-_]file(?:[ \t]+|=)|\bCONFIG_FILE=)[\"']?(?:\$\{CONFIG_FILE:-)?([^\s\"'}]+)")
_NGPU = re.compile(r"\bNGPU=[\"']?(?:\$\{NGPU:-)?(\d{1,6})\b")
SECTIONS = ("model", "training", "parallelism", "activation_checkpoint", "compile", "optimizer", "float8", "quantize",
            "mx", "comm", "debug", "metrics", "profiling", "checkpoint", "lr_scheduler", "experimental",
            "fault_tolerance", "validation", "memory_estimation")
RECIPES = ("rowwise", "rowwise_with_gw_hp", "tensorwise")      # of its float8 converters
FORMATS = "products in bf16: torchtitan's JSON does not say their format since 2026-04-27 (to change: --precision fp8)"
BUDGET, SELECTIVE = "memory_budget", "force_recompute_mm_shapes_by_fqns"


def printed_config(text: str, where: str) -> Mapping[str, Any] | None:
    """The configuration in a log of torchtitan; None for other text. Raises InputError if it is cut off."""
    mark = _MARK.search(text)
    if mark is None:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(_PREFIX.sub("", text[mark.end():]))
    except (ValueError, RecursionError) as error:
        raise InputError(where, f"the configuration behind {mark[0].strip()!r} is no JSON ({str(error)[:60]})",
                         expected="the whole of it, from { to }, of one rank") from None
    return found if is_printed(found) else None


def is_printed(data: Any) -> bool:
    """Whether JSON is a configuration of torchtitan."""
    return isinstance(data, Mapping) and ("model_spec" in data or {"parallelism", "training"} <= data.keys())


def as_toml(data: Mapping[str, Any], where: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """(the sections as of a TOML file, sentences on what is assumed). Raises InputError for a section that is not an
    object, and for a number of tokens that is not a whole number of samples."""
    for name in ("model_spec", "training", "parallelism", "optimizer", "compile"):
        if not isinstance(data.get(name) or {}, Mapping):
            raise InputError(f"{where}: {name}", "is no object", expected="a section of torchtitan's configuration")
    found = {name: dict(value) if isinstance(value, Mapping) else value for name, value in data.items()}
    spec, said = _spec(data), list[str]()
    found.pop("model_spec", None)
    if spec is not None:
        found["model"] = {"name": spec.get("name"), "flavor": spec.get("flavor")}
        converters = (found.pop("model_converters", None) or {"converters": None}).get("converters")
        if converters is None:
            said.append(FORMATS)
        found["model"]["converters"] = [_format_of(each) for each in converters or ()]
        found["activation_checkpoint"] = _checkpointing(data.get("activation_checkpoint"))
    elif not (found.get("model") or {}).get("converters"):      # sections that the run did not use
        for name in ("quantize", "float8", "mx"):
            found.pop(name, None)
    (found.get("optimizer") or {}).pop("optimizer_factories", None)
    groups = (found.get("optimizer") or {}).pop("param_groups", None)
    if isinstance(groups, Sequence) and groups:
        names = {str(each.get("optimizer_name")) for each in groups if isinstance(each, Mapping)}
        found["optimizer"]["name"] = next((name for name in names if name not in ("Adam", "AdamW")), "AdamW")
    _tokens(found.get("training") or {}, found.get("parallelism") or {}, where)
    return found, tuple(said)


def _spec(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the model is, of a run of 2026-02-23 and later."""
    spec, model = data.get("model_spec"), data.get("model")
    if isinstance(spec, Mapping):
        return spec
    return {"model": model} if isinstance(model, Mapping) and "layers" in model else None


def _format_of(converter: Any) -> str:
    """The name that TOML files had for a converter."""
    recipe = converter.get("recipe_name") if isinstance(converter, Mapping) else converter
    return "float8" if recipe in RECIPES or (isinstance(converter, Mapping) and "enable_fsdp_float8_all_gather" in
                                             converter) else str(recipe)


def _checkpointing(said: Any) -> dict[str, Any]:
    """With a mode, and `op` as the option where there is no choice of one."""
    if not isinstance(said, Mapping):
        return {"mode": "none"}
    found = dict(said)
    if SELECTIVE in found:
        found[f"per_op_sac_{SELECTIVE}"] = found.pop(SELECTIVE)
        found.setdefault("mode", "selective")
    found.setdefault("mode", BUDGET if BUDGET in found else "full")
    if found["mode"] == "selective":
        found.setdefault("selective_ac_option", "op")
    return found


def _tokens(training: dict[str, Any], parallel: dict[str, Any], where: str) -> None:
    """Samples in place of tokens."""
    length = training.pop("max_context_length", None)
    if length is None:
        return
    training["seq_len"] = length
    for name, new in (("num_tokens_per_microbatch_per_dp_rank", "local_batch_size"),
                      ("num_tokens_per_train_step", "global_batch_size")):
        value = training.pop(name, -1)
        if not isinstance(length, int) or length < 1 or not isinstance(value, int) or (value > 0 and value % length):
            raise InputError(f"{where}: training.{name}", f"{str(value)[:40]} tokens are no whole number of samples of "
                             f"{str(length)[:40]} (max_context_length)", expected="a multiple")
        training[new] = -1 if value < 0 else value // length
    batches = parallel.pop("num_pp_microbatches", 1)
    if parallel.get("pipeline_parallel_degree", 1) != 1 and isinstance(batches, int):
        parallel["pipeline_parallel_microbatch_size"] = training["local_batch_size"]
        training["local_batch_size"] *= batches


def sizes_of(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Fields of a Decoder for a printed dense model of Llama's kind; None for another one."""
    spec = _spec(data) or {}
    try:
        model, layers = spec["model"], spec["model"]["layers"]
        first = layers[0]
        attention, inner = first["attention"], first["feed_forward"]["w1"]["out_features"]
        if spec.get("name", "llama3") not in ("llama3", "qwen3") or any(each.get("moe") for each in layers):
            return None
        return {"layers": len(layers), "d_model": model["dim"], "heads": attention["n_heads"],
                "kv_heads": attention["n_kv_heads"] or attention["n_heads"], "head_size": attention["head_dim"],
                "ffn": inner, "vocab": model["vocab_size"], "qk_norm": attention["qk_norm"] is not None,
                "tied_embeddings": model["enable_weight_tying"], "seq": None}
    except (AttributeError, IndexError, KeyError, TypeError):
        return None


def torchtitan_line(text: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any], int | None] | None:
    """(the TOML file that a command line of torchtitan names, its overrides by key, GPUs where it says them); None for
    another command line, or one without a file."""
    config = _CONFIG.search(text)
    if config is None or "$" in config[1]:
        return None
    found = dict[str, Any]()
    for name, value in arguments.items():
        section, _, key = name.partition(".")
        if section in SECTIONS and key:
            off = value is True and key.rpartition(".")[2].startswith("no_")
            found[f"{section}.{key.replace('no_', '', 1)}" if off else name] = not off if value is True else value
    nodes, each = str(arguments.get("nnodes", 1)), str(arguments.get("nproc_per_node"))
    plain = nodes.isdecimal() and each.isdecimal() and len(nodes + each) < 10
    alone = _NGPU.search(text)
    return config[1], found, int(nodes) * int(each) if plain else int(alone[1]) if alone else None
