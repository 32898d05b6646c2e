"""Read JSON files of measured steps of one GPU (PyTorch): training steps, and passes of inference.

A training step states sizes of the model, tokens, `step_s` (and `step_pipelined_s`: without a synchronisation after
each, which is what a run does), and `allocated` bytes of the allocator; everything is in bf16. A pass of inference
states `phase`, `batch`, `context` or `tokens`, and `ms`. Neither states the device: the key `gpu`, or the name of the
folder (`h100_pytorch`), does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from astrarium.errors import InputError

__all__ = ["PASS", "STEP", "columns_of", "read_steps"]

GIB = 2.0**30
STEP = ("layers", "hidden", "heads", "seq", "mbs", "step_s")
PASS = ("phase", "batch", "ms")
KINDS: Mapping[str, str] = MappingProxyType({"training": ", ".join(STEP), "pass": ", ".join(PASS)})
MODELS = ("llama", "gpt")
LONGEST = 1 << 10
STACKS = ("pytorch", "pytorch-compile")
SAME: Mapping[str, str] = MappingProxyType({
    "layers": "layers", "hidden": "hidden", "heads": "heads", "kv": "kv_heads", "head": "head_size", "ffn": "ffn",
    "vocab": "vocab", "seq": "seq", "mbs": "mbs", "batch": "batch_size", "context": "context", "tokens": "tokens"})
"""Key of a step -> column of a row."""
HELD_MIB: Mapping[str, int] = MappingProxyType(dict.fromkeys(("h100_pytorch", "h200_pytorch"), 1024))
"""Source -> what its program holds besides a step: 2^30 bytes beside what is counted on each of 18 steps of one H100,
whatever the model; the H200's were measured by the same program (its README)."""
POSITIONS: Mapping[str, str] = MappingProxyType(dict.fromkeys(HELD_MIB, "none"))
"""Source -> positions of the model in its passes of inference: a recorded step of that program (traces/h100, decoding)
launches no kernel that turns queries or keys."""


def read_steps(name: str, text: str) -> list[tuple[str, dict[str, Any]]]:
    """(kind, columns) of every step of a JSON file's text. Raises InputError with the file and the step's number."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{name}:{error.lineno}", f"is not JSON ({error.msg})", expected="a list of steps") from None
    except (ValueError, RecursionError) as error:
        raise InputError(name, f"is no readable JSON ({str(error)[:60]})", expected="a list of steps") from None
    if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
        raise InputError(name, "is not a list of steps", expected="[{...}, ...]; a log of requests needs --serving")
    folder = Path(name).resolve().parent.name
    return [columns_of(f"{name}: step {number}", step, folder) for number, step in enumerate(found, start=1)]


def columns_of(where: str, step: Mapping[str, Any], folder: str) -> tuple[str, dict[str, Any]]:
    """(kind, columns) of one step."""
    kind = "training" if set(STEP) <= set(step) else "pass" if set(PASS) <= set(step) else ""
    if not kind:
        raise InputError(where, "is no step", expected="; or ".join(f"{keys} ({kind})" for kind, keys in KINDS.items()))
    values: dict[str, Any] = {column: _whole(where, key, step[key]) for key, column in SAME.items()
                              if step.get(key) is not None}
    for key, value in step.items():
        if isinstance(value, str) and (len(value) > LONGEST or not value.isprintable()):
            raise InputError(f"{where}: {ascii(key)[1:-1]}", "is not readable text", expected="printable characters")
    values |= {"source": str(step.get("source", folder)), "gpu": str(step.get("gpu", folder)), "n_gpus": 1}
    return kind, values | (_training if kind == "training" else _pass)(where, step, values["source"])


def _training(where: str, step: Mapping[str, Any], source: str) -> dict[str, Any]:
    compiled, again = (_switch(where, key, step.get(key)) for key in ("compiled", "recompute"))
    kind, timed = step.get("kind", MODELS[0]), next(key for key in ("step_pipelined_s", "step_s") if key in step)
    if kind not in MODELS:
        raise InputError(f"{where}: kind", f"{str(kind)[:60]!r} is not known", expected="one of " + ", ".join(MODELS))
    words = [str(step.get("case", kind)), f"{step['seq']} x {step['mbs']}",
             *(["recompute"] if again else []), *(["compiled"] if compiled else [])]
    found = {"case": " ".join(words), "model": kind, "tp": 1, "pp": 1, "dp": 1,
             "gbs": _whole(where, "mbs", step["mbs"]), "recompute": "full" if again else "none", "precision": "bf16",
             "states": "bf16", "zero": "0", "stack": str(step.get("stack", STACKS[compiled])),
             "fused_qkv": int(kind == "gpt"),
             "step_s": _number(where, timed, step[timed])}
    if source in HELD_MIB:
        found["held_MiB"] = HELD_MIB[source]
    if "allocated" in step:
        found["mem_GiB"] = _number(where, "allocated", step["allocated"]) / GIB
    if "parameters" in step:
        found["params_B"] = _number(where, "parameters", step["parameters"]) / 1e9
    return found


def _pass(where: str, step: Mapping[str, Any], source: str) -> dict[str, Any]:
    length = step.get("context", step.get("tokens"))
    words = [str(step["phase"]), f"{step['batch']} x {length}", str(step.get("attention", ""))]
    return {"case": " ".join(filter(None, words)), "model": str(step.get("model", "llama3-8b")),
            "phase": str(step["phase"]), "attention": str(step.get("attention", "any")),
            "positions": POSITIONS.get(source, ""),
            "pass_ms": _number(where, "ms", step["ms"])}


def _switch(where: str, key: str, value: Any) -> bool:
    if value not in (None, False, True):
        raise InputError(f"{where}: {key}", f"{str(value)[:60]!r} is impossible", expected="true or false")
    return bool(value)


def _whole(where: str, key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**53:
        raise InputError(f"{where}: {key}", f"{str(value)[:60]!r} is impossible", expected="a whole number above 0")
    return value


def _number(where: str, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 2**53:
        raise InputError(f"{where}: {key}", f"{str(value)[:60]!r} is impossible", expected="a number above 0")
    return float(value)
