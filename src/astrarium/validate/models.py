"""The model of a row: by its sizes where the row states them, else by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from astrarium import catalog
from astrarium.errors import InputError, nearest
from astrarium.validate.rows import Row

__all__ = ["NAMES", "model_of"]

SIZES = ("layers", "hidden", "heads")
GPT: Mapping[str, Any] = MappingProxyType({
    "gated": False, "activation": "gelu", "positions": "learned", "norm": "layer", "tied_embeddings": True,
    "biases": ["qkv", "out", "mlp"]})
NEMOTRON: Mapping[str, Any] = MappingProxyType({"gated": False, "activation": "relu", "norm": "layer",
                                                "rotary_share": 0.5})
STYLES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    (r"nemotron", NEMOTRON), (r"gpt(?!-?oss)|megatron|bloom|opt", GPT), (r"llama|mistral|qwen|mixtral", {}))
"""Properties of a model that its name gives, in addition to sizes."""

NAMES: tuple[tuple[str, str], ...] = (
    (r"gpt-?3-?5b", "gpt3-5b"), (r"gpt-?3-?20b", "gpt3-20b"), (r"gpt-?3-?(175b)?", "megatron-175b"),
    (r"llama-?2-?7b", "llama2-7b"), (r"llama-?2-?13b", "llama2-13b"), (r"llama-?2-?34b", "codellama-34b"),
    (r"llama-?2-?70b", "llama2-70b"),
    (r"llama-?3([.-]1)?-?8b", "llama3-8b"), (r"llama-?3([.-][13])?-?70b", "llama3-70b"),
    (r"llama-?3([.-]1)?-?405b", "llama3-405b"), (r"codellama-?34b", "codellama-34b"),
    (r"llama-?4-?scout(-17b-16e)?", "llama4-scout"), (r"llama-?4-?maverick(-17b-128e)?", "llama4-maverick"),
    (r"mistral-?nemo(-12b)?", "mistral-nemo-12b"), (r"deepseek-?r1(-671b)?", "deepseek-r1"),
    (r"nemotron-?3?-?8b", "nemotron-8b"), (r"nemotron-?3?-?22b", "nemotron-22b"),
    (r"nemotron-?4?-?15b", "nemotron4-15b"), (r"nemotron-?4?-?340b.*", "nemotron4-340b"),
    (r"mixtral-?8x7b", "mixtral-8x7b"), (r"mixtral-?8x22b", "mixtral-8x22b"),
    (r"deepseek-?v3([.-]1)?(-?671b)?", "deepseek-v3"), (r"qwen3-?30b-?a3b", "qwen3-30b-a3b"),
    (r"qwen3-?235b-?a22b", "qwen3-235b-a22b"))
"""Names that sources print -> rows of the catalog."""

FORMATS = r"-(fp8|nvfp4|int4|awq|gptq)(-dyn(amic)?|-static(-pertensor)?)?$"
TUNED = r"(-(instruct|chat|base|hf|it|edge|v0\.\d+|\d{4}|99(\.9)?))+$"
"""What names of checkpoints add that changes no size: number formats, which a row states itself; what a checkpoint was
tuned for, its date or version, MLPerf's scenario and target of accuracy."""


def model_of(row: Row, assumed: list[str]) -> dict[str, Any]:
    """Plain data of the row's model; adds to `assumed` what the row does not state. Raises InputError where neither
    sizes nor a known name are there."""
    if all(row.count(column) for column in SIZES):
        return _by_sizes(row, assumed)
    found = dict(_named(row.text("model")))
    for column, field in (("layers", "layers"), ("hidden", "d_model"), ("heads", "heads"), ("kv_heads", "kv_heads"),
                          ("ffn", "ffn"), ("vocab", "vocab")):
        if row.count(column):
            found[field] = row.count(column)
    assumed.append(f"model: sizes of {row.text('model')} from the catalog")
    return found


def _named(name: str) -> Mapping[str, Any]:
    key = name.strip().lower().rpartition("/")[2].replace("_", "-").replace(" ", "-").removeprefix("meta-")
    key = re.sub(TUNED, "", re.sub(FORMATS, "", key))
    rows = catalog.load("models")
    for pattern, known in (*NAMES, *((re.escape(each), each) for each in rows)):
        if re.fullmatch(pattern, key):
            found: Mapping[str, Any] = rows[known]["model"]
            return found
    raise InputError("model", f"{name[:60]!r} states no sizes and is no model of the catalog",
                     expected="layers, hidden, heads, or a known name", did_you_mean=nearest(key, rows))


def _by_sizes(row: Row, assumed: list[str]) -> dict[str, Any]:
    hidden = row.count("hidden") or 0
    style = next((found for pattern, found in STYLES if re.search(pattern, row.text("model").lower())), None)
    if style is None:
        assumed.append("model: LLaMA's kind of layers")
        style = {}
    gated = style.get("gated", True)
    ffn = row.count("ffn")
    if ffn is None:
        ffn = (4 * hidden * 2 // 3 + 255) // 256 * 256 if gated else 4 * hidden
        assumed.append(f"ffn: {ffn}")
    vocab = row.count("vocab")
    if vocab is None:
        vocab = 51200
        assumed.append(f"vocab: {vocab}")
    found: dict[str, Any] = {"family": "decoder", "layers": row.count("layers"), "d_model": hidden,
                             "heads": row.count("heads"), "ffn": ffn, "vocab": vocab, **style}
    if row.count("kv_heads") and row.count("kv_heads") != row.count("heads"):
        found["kv_heads"] = row.count("kv_heads")
    if row.count("head_size"):
        found["head_size"] = row.count("head_size")
    if found.get("positions") == "learned":
        found["max_positions"] = row.count("seq") or 2048
    if "tied_embeddings" not in found and row.number("params_B"):
        found["tied_embeddings"] = _tied(found, row.number("params_B") or 0.0)
    return found


def _tied(model: Mapping[str, Any], stated: float) -> bool:
    """Whether the parameters that a row states (billions) count the vocabulary's matrix once rather than twice."""
    wide, head = model["d_model"], model["d_model"] / model["heads"]
    attention = 2 * wide * wide + 2 * wide * head * model.get("kv_heads", model["heads"])
    layers = model["layers"] * (attention + (3 if model.get("gated", True) else 2) * wide * model["ffn"])
    once = layers + model["vocab"] * wide
    return bool(abs(once / 1e9 - stated) < abs((once + model["vocab"] * wide) / 1e9 - stated))
