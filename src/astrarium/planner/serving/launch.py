"""Launch arguments of serving engines, written for an engine of a plan and read back: `vllm serve`, SGLang's
launch_server, the YAML of `trtllm-serve`. Nothing in a file is run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from astrarium.config.yamlfile import parse_yaml, read_text
from astrarium.errors import InputError
from astrarium.planner.launch.given import Given, without
from astrarium.planner.launch.known import known_keys
from astrarium.planner.launch.words import arguments_of
from astrarium.planner.serving.engine import CHECKPOINT, Engine
from astrarium.serving.layout import Layout
from astrarium.serving.policy import Policy

__all__ = ["LAUNCHES", "Launched", "launch_text", "read_launched"]

CACHES: Mapping[str, str] = MappingProxyType({"auto": "bf16", "bf16": "bf16", "bfloat16": "bf16", "fp8": "fp8",
                                              "fp8_e4m3": "fp8"})
WEIGHTS: Mapping[str, str] = MappingProxyType({"none": CHECKPOINT, "fp8": "fp8"})
QUANTISED: Mapping[str, str] = MappingProxyType({"none": CHECKPOINT, "fp8": "fp8", "fp8_block_scales": "fp8",
                                                 "nvfp4": "nvfp4"})
STARTS = re.compile(r"vllm\s+serve(?:\s+([^\s-]\S*))?|vllm-openai(?:[:@]\S+)?\s|(sglang)(?:\.launch_server|\s+serve)")
SHORT = re.compile(r"(?<=\s)-(tp|pp|dp)(?=[\s=])")
LONG: Mapping[str, str] = MappingProxyType({"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size",
                                            "dp": "data-parallel-size"})
SAME: Mapping[str, str] = MappingProxyType({         # SGLang's other names
    "tp": "tp_size", "tensor_parallel_size": "tp_size", "dp": "dp_size", "data_parallel_size": "dp_size",
    "ep": "ep_size", "expert_parallel_size": "ep_size", "pipeline_parallel_size": "pp_size"})


class Launched(Struct, frozen=True):
    """What runs today: the `stack`, one `engine`, and how many of it (`engines`, replicas of a model without experts).
    `model`: its name in the file, where it is there; `assumed`, `ignored`: for the answer."""

    stack: str
    engine: Engine
    engines: int = 1
    model: str | None = None
    assumed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


class Launch(Struct, frozen=True):
    """How a serving engine is launched: its stack, the text of an engine, and the engine of a file's values."""

    stack: str
    write: Callable[[str, Engine, Policy], str]
    read: Callable[[Given, bool], tuple[Engine, int]]


def launch_text(name: str, model: str, engine: Engine, policy: Policy) -> str:
    """The launch arguments of an engine with a policy. Raises InputError for a layout that the engine does not have."""
    if engine.prefill:
        raise InputError("launch", f"pools are not launched ({engine.words})", expected="--line of an engine that does "
                         "both")
    return LAUNCHES[name].write(model, engine, policy)


def read_launched(path: str, experts: Callable[[str | None], bool], ignore: Sequence[str] = ()) -> Launched:
    """The launch in a file: .yaml of trtllm-serve, or a script or text with `vllm serve` or `sglang.launch_server`.

    Args:
        path: The file. Of the keys that `ignore` names (or patterns of them) nothing counts.
        experts: Whether the model of that name in the file (or None) has experts: where it has none, dp are replicas.

    Raises:
        InputError: It cannot be read, is not known, or matters and is not predicted.
    """
    text, name = read_text(path), ""
    if os.path.splitext(path)[1].lower() in (".yaml", ".yml"):
        data = parse_yaml(text, path).data
        if not isinstance(data, dict):
            raise InputError(path, "is no mapping", expected="fields of trtllm-serve's configuration")
        name, values, model = "trtllm", dict(_flat(data)), data.get("model")
    else:
        found = STARTS.search(text)
        if found is None:
            raise InputError(path, "launches no known engine", expected="vllm serve, docker run ... vllm/vllm-openai, "
                             "python -m sglang.launch_server, or the .yaml of trtllm-serve")
        name = "sglang" if found[2] else "vllm"
        values = arguments_of(SHORT.sub(lambda match: f"--{LONG[match[1]]}", text), path)
        model = found[1] or values.get("model") or values.get("model_path")
    if name == "sglang":
        values = {SAME.get(key, key): value for key, value in values.items()}
    values, left_out = without(values, ignore, path)
    given = Given(path, values, known_keys(name))
    engine, engines = LAUNCHES[name].read(given, experts(model if isinstance(model, str) else None))
    assumed, ignored = given.rest()
    assumed = (f"read from {os.path.basename(path)} ({name})", *assumed,
               *([f"as without {', '.join(left_out)} (--ignore)"] if left_out else []))
    return Launched(LAUNCHES[name].stack, engine, engines, model if isinstance(model, str) else None, assumed, ignored)


def _flat(data: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """`kv_cache_config: {dtype: fp8}` as kv_cache_config.dtype."""
    found: list[tuple[str, Any]] = []
    for key, value in data.items():
        found += _flat(value, f"{before}{key}.") if isinstance(value, dict) else [(f"{before}{key}", value)]
    return found


def _script(first: str, flags: Mapping[str, object]) -> str:
    """A command with its flags, one a line; True: a switch, None: not there."""
    lines = [f"--{name}" + ("" if value is True else f" {value}") for name, value in flags.items() if value is not None]
    return " \\\n    ".join([first, *lines])


def _more(value: int) -> int | None:
    return value if value > 1 else None


def _quantised(engine: Engine, known: Mapping[str, str], where: str) -> str | None:
    """The engine's word for the format of weights."""
    words = [word for word, meaning in known.items() if meaning == engine.weights]
    if engine.weights in (CHECKPOINT, "bf16", "published"):
        return None
    if not words:
        raise InputError("launch", f"{where} is not launched with weights in {engine.weights}",
                         expected=f"{', '.join(known)}, or a checkpoint of that format")
    return words[0]


def _write_vllm(model: str, engine: Engine, policy: Policy) -> str:
    layout = engine.layout
    return _script(f"vllm serve {model}", {
        "tensor-parallel-size": layout.tp, "data-parallel-size": _more(layout.dp),
        "pipeline-parallel-size": _more(layout.pp), "enable-expert-parallel": True if layout.ep > 1 else None,
        "quantization": _quantised(engine, WEIGHTS, "vLLM"),
        "kv-cache-dtype": "fp8" if engine.cache == "fp8" else "auto", "max-num-batched-tokens": policy.max_tokens,
        "max-num-seqs": policy.max_batch, "gpu-memory-utilization": policy.memory_share})


def _read_vllm(given: Given, experts: bool) -> tuple[Engine, int]:
    tp, dp, pp = (given.whole(f"{name}_parallel_size", 1) for name in ("tensor", "data", "pipeline"))
    spread = given.flag("enable_expert_parallel")
    if spread and not experts:
        raise given.fault("enable_expert_parallel", "has no effect: the model has no experts", "no such argument")
    layout = Layout(tp, dp if experts else 1, pp, tp * dp if spread else 1)
    return _engine(given, layout, given.choice("quantization", WEIGHTS, "none"),
                   given.choice("kv_cache_dtype", CACHES, "auto"), "max_num_batched_tokens", "max_num_seqs",
                   given.real("gpu_memory_utilization", 0.0)), 1 if experts else dp


def _write_sglang(model: str, engine: Engine, policy: Policy) -> str:
    layout = engine.layout
    return _script(f"python -m sglang.launch_server --model-path {model}", {
        "tp-size": layout.tp * layout.dp, "dp-size": _more(layout.dp), "pp-size": _more(layout.pp),
        "enable-dp-attention": True if layout.dp > 1 else None, "ep-size": _more(layout.ep),
        "quantization": _quantised(engine, WEIGHTS, "SGLang"),
        "kv-cache-dtype": "fp8_e4m3" if engine.cache == "fp8" else "auto", "chunked-prefill-size": policy.max_tokens,
        "max-running-requests": policy.max_batch, "mem-fraction-static": policy.memory_share})


def _read_sglang(given: Given, experts: bool) -> tuple[Engine, int]:
    tp, dp, pp, ep = (given.whole(f"{name}_size", 1) for name in ("tp", "dp", "pp", "ep"))
    if given.flag("enable_dp_attention"):
        if not experts or tp % dp:
            raise given.fault("enable_dp_attention", f"dp_size {dp} of tp_size {tp}" if experts else
                              "is for models with experts", "dp_size that divides tp_size, of a model with experts")
        layout, engines = Layout(tp // dp, dp, pp, ep), 1
    else:
        layout, engines = Layout(tp, 1, pp, ep), dp
    return _engine(given, layout, given.choice("quantization", WEIGHTS, "none"),
                   given.choice("kv_cache_dtype", CACHES, "auto"), "chunked_prefill_size", "max_running_requests",
                   given.real("mem_fraction_static", 0.0)), engines


def _write_trtllm(_model: str, engine: Engine, policy: Policy) -> str:
    layout = engine.layout
    if layout.dp > 1 and layout.tp > 1:
        raise InputError("launch", f"TensorRT-LLM's attention-DP has no tp inside ({layout})", expected="--fix tp=1")
    lines = {"tensor_parallel_size": layout.tp * layout.dp, "pipeline_parallel_size": _more(layout.pp),
             "moe_expert_parallel_size": _more(layout.ep), "enable_attention_dp": "true" if layout.dp > 1 else None,
             "max_num_tokens": policy.max_tokens, "max_batch_size": policy.max_batch}
    text = [f"{name}: {value}" for name, value in lines.items() if value is not None]
    quantised = _quantised(engine, QUANTISED, "TensorRT-LLM")
    text += [f"quant_config: {{quant_algo: {quantised.upper()}}}"] if quantised else []
    return "\n".join([*text, f"kv_cache_config: {{dtype: {'fp8' if engine.cache == 'fp8' else 'auto'}}}"])


def _read_trtllm(given: Given, experts: bool) -> tuple[Engine, int]:
    tp, pp = given.whole("tensor_parallel_size", 1), given.whole("pipeline_parallel_size", 1)
    spread = given.flag("enable_attention_dp")
    if spread and not experts:
        raise given.fault("enable_attention_dp", "is for models with experts", "no such key")
    layout = Layout(1 if spread else tp, tp if spread else 1, pp, given.whole("moe_expert_parallel_size", 1))
    return _engine(given, layout, given.choice("quant_config.quant_algo", QUANTISED, "none"),
                   given.choice("kv_cache_config.dtype", CACHES, "auto"), "max_num_tokens", "max_batch_size", 0.0), 1


def _engine(given: Given, layout: Layout, weights: str, cache: str, tokens: str, batch: str, share: float) -> Engine:
    return Engine(layout, weights, cache, given.whole(tokens, 0), given.whole(batch, 0), share)


LAUNCHES: Mapping[str, Launch] = MappingProxyType({
    "vllm": Launch("vllm", _write_vllm, _read_vllm), "sglang": Launch("sglang", _write_sglang, _read_sglang),
    "trtllm": Launch("trt-llm", _write_trtllm, _read_trtllm)})
"""Name for --launch -> how its engine is launched."""
