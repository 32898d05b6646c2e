"""Reading `quantization_config` of a config.json, or `hf_quant_config.json` beside it (NVIDIA's ModelOpt).

A checkpoint names modules one by one; here a format belongs to a kind of module: attention (with what stands in its
place), the dense FFNs with shared experts, routed experts. A kind has the format of most of its layers. Head,
embeddings, norms and routers are in 16 bits, as nearly all checkpoints have them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from astrarium.workload.model.checkpoint import Checkpoint, Stored

__all__ = ["quantised"]

KINDS = ("weights", "attention", "experts")     # fields of Checkpoint
EXCLUDED = ("modules_to_not_convert", "ignore", "exclude_modules")


class Scheme(NamedTuple):
    """A format of weights; `group`: weights of a 16-bit scale; `only`: products take activations of 16 bits."""

    format: Stored
    group: int | None = None
    only: bool = False


PLAIN = Scheme("bf16")
ALGORITHMS: Mapping[str, Scheme] = MappingProxyType({
    "FP8": Scheme("fp8"), "FP8_PER_CHANNEL_PER_TOKEN": Scheme("fp8"), "FP8_PB_WO": Scheme("fp8_block", None, True),
    "FP8_BLOCK": Scheme("fp8_block"), "MXFP8": Scheme("fp8"), "NVFP4": Scheme("nvfp4"),
    "W4A16_NVFP4": Scheme("nvfp4", None, True), "MXFP4": Scheme("mxfp4"), "W4A8_MXFP4_FP8": Scheme("mxfp4"),
    "W4A16_AWQ": Scheme("int4", 128), "INT4_AWQ": Scheme("int4", 128), "W8A16": Scheme("int8", None, True)})
"""ModelOpt's names."""

# Modules to which no format of ours belongs, and kinds by what checkpoints call their modules; the first found counts.
SKIPPED = (r"visi?on|visual|audio|projector|embed|mtp|norm|bias|conv1d|eh_proj|index|router|shared_expert_gate|"
           r"gate($|\.)|(^|\.)(lm_)?head")
NAMES = (("weights", r"shared_expert"), ("experts", r"experts"),
         ("attention", r"att(n|ention)|mixer\.(q|k|v|o|in|out)_proj"), ("weights", r"mlp|ffn|feed_forward"))


def quantised(plain: Mapping[str, Any], layers: int) -> tuple[Checkpoint | None, list[str]]:
    """(formats of the checkpoint that a config.json describes, None: 16 bits or not known; sentences about them)."""
    nested = plain.get("text_config")
    config = plain.get("quantization_config") or (
        nested.get("quantization_config") if isinstance(nested, Mapping) else None)
    if not config:
        return None, []
    if not isinstance(config, Mapping):
        return None, ["quantization_config is not read: it is no mapping"]
    found = _schemes(config, layers)
    method = str(config.get("quant_method") or config.get("quant_algo") or "unnamed")[:40]
    if found is None:
        return None, [f"quantization_config ({method}) is not read: inference takes workload.formats, or 16 bits"]
    experts = plain.get("expert_dtype")
    if experts == "fp4" and found["experts"].format != "nvfp4":     # DeepSeek-V4: a byte of scale for 32 weights
        found["experts"] = Scheme("mxfp4")
    return _checkpoint(found, _cache(config)), [_said(method, found, _cache(config)), *_coarse(config)]


def _checkpoint(found: Mapping[str, Scheme], cache: str | None) -> Checkpoint:
    weights, used = found["weights"], [scheme for scheme in found.values() if scheme != PLAIN]
    others: dict[str, Any] = {kind: found[kind].format for kind in KINDS[1:] if found[kind].format != weights.format}
    group = next((each.group for each in used if each.group), None)
    return Checkpoint(weights=weights.format, **others, scale_group=group,
                      weight_only=bool(used) and all(each.only for each in used),
                      cache="fp8" if cache == "fp8" else None)


def _said(method: str, found: Mapping[str, Scheme], cache: str | None) -> str:
    stated = ", ".join(f"{kind} {scheme.format}" for kind, scheme in found.items())
    return (f"quantization_config ({method}): {stated}, cache {cache or '16 bits'}; inference takes what "
            "workload.formats leaves out from here, training has workload.precision")


def _coarse(config: Mapping[str, Any]) -> Iterator[str]:
    """What our formats cannot tell apart."""
    layered = config.get("quantized_layers")
    algorithms = {str(each.get("quant_algo")) for each in layered.values() if isinstance(each, Mapping)} if isinstance(
        layered, Mapping) else {str(config.get("quant_algo"))}
    if "MXFP8" in algorithms:
        yield "mxfp8 is taken as fp8: its scales, a byte for 32 weights, are left out"
    if len(algorithms) > 1 and any(name in ALGORITHMS and ALGORITHMS[name].only for name in algorithms):
        yield ("weights that are unpacked to 16 bits beside others that are not: products take each format's own "
               "activations")


def _schemes(config: Mapping[str, Any], layers: int) -> dict[str, Scheme] | None:
    """The scheme of every kind of module; None for a method that is not known."""
    method, groups = config.get("quant_method"), config.get("config_groups")
    layered = config.get("quantized_layers")
    if isinstance(layered, Mapping):
        return _layered(layered, _base(config) if method == "fp8" else PLAIN, layers)
    if isinstance(groups, Mapping) and groups and config.get("quant_algo") is None:
        schemes = [_group(each) for each in groups.values() if isinstance(each, Mapping)]
        base = schemes[0] if len(schemes) == 1 else None
    elif method == "mxfp4":
        return {"weights": PLAIN, "attention": PLAIN, "experts": Scheme("mxfp4")}
    else:
        base = _base(config)
    if base is None:
        return None
    left = _left_out(config, layers)
    return {kind: PLAIN if kind in left else base for kind in KINDS}


def _base(config: Mapping[str, Any]) -> Scheme | None:
    """The scheme of all linear layers."""
    method = config.get("quant_method")
    if method in ("fp8", "fbgemm_fp8"):
        return Scheme("fp8_block" if config.get("weight_block_size") else "fp8")
    if method in ("awq", "gptq") and config.get("bits", 4) in (4, 8):
        return _integers(config.get("bits", 4), config.get("group_size"), None)
    found = ALGORITHMS.get(str(config.get("quant_algo")))
    group = config.get("group_size")
    return found._replace(group=group) if found and found.group and isinstance(group, int) and group > 0 else found


def _group(group: Mapping[str, Any]) -> Scheme | None:
    """A group of compressed-tensors."""
    weights, taken = group.get("weights"), group.get("input_activations")
    if not isinstance(weights, Mapping):
        return None
    bits, size = weights.get("num_bits"), weights.get("group_size")
    if weights.get("type") == "int":
        return _integers(bits, size, taken)
    if weights.get("type") != "float" or bits not in (4, 8):
        return None
    if bits == 8:
        block = weights.get("strategy") == "block" or bool(weights.get("block_structure"))
        return Scheme("fp8_block" if block else "fp8", None, taken is None)
    return Scheme("mxfp4" if size == 32 else "nvfp4", None, taken is None)


def _integers(bits: Any, size: Any, taken: Any) -> Scheme | None:
    """int4 or int8, whose products unpack the weights but for 8-bit activations."""
    if bits not in (4, 8) or (bits == 4 and taken is not None):
        return None
    return Scheme("int4" if bits == 4 else "int8", size if isinstance(size, int) and size > 0 else None, taken is None)


def _kind(entry: str) -> str | None:
    """The kind that a module's name or a pattern of names belongs to; `layer`: all kinds; None: no format of ours."""
    name = entry.lower().removeprefix("re:").replace("\\", "")
    if re.search(r"layers\.\d+[.*]*$", name):
        return "layer"
    if re.search(SKIPPED, name):
        return None
    return next((kind for kind, pattern in NAMES if re.search(pattern, name)), None)


def _cache(config: Mapping[str, Any]) -> str | None:
    """Format of the cache: fp8, one of whose name we know no more, or None: 16 bits."""
    scheme = config.get("kv_cache_scheme")
    if isinstance(scheme, Mapping):
        return "fp8" if (scheme.get("num_bits"), scheme.get("type")) == (8, "float") else "another format"
    named = scheme or config.get("kv_cache_quant_algo")
    return None if not named else "fp8" if named in ("FP8", "fp8", "fp8_e4m3") else "another format"


def _place(entry: str) -> int | None:
    """The layer of a module; None: of all layers."""
    found = re.search(r"layers\.(\d+)", entry)
    return int(found[1]) if found else None


def _left_out(config: Mapping[str, Any], layers: int) -> set[str]:
    """Kinds of which most layers stay in 16 bits."""
    seen: dict[str, set[int]] = {kind: set() for kind in KINDS}
    for entry in (each for key in EXCLUDED for each in config.get(key) or () if isinstance(each, str)):
        kind, place = _kind(entry), _place(entry)
        for each in KINDS if kind == "layer" else (kind,) if kind else ():
            seen[each] |= set(range(layers)) if place is None else {place} if place < layers else set()
    return {kind for kind, places in seen.items() if 2 * len(places) > layers}


def _layered(modules: Mapping[str, Any], base: Scheme | None, layers: int) -> dict[str, Scheme] | None:
    """Schemes of kinds where modules are listed with theirs."""
    if base is None:
        return None
    votes: dict[str, Counter[Scheme]] = {kind: Counter() for kind in KINDS}
    for name, each in modules.items():
        scheme = ALGORITHMS.get(str(each.get("quant_algo"))) if isinstance(each, Mapping) else None
        kind, place = _kind(name), _place(name)
        if scheme is None:
            return None
        if kind in votes and (place is None or place < layers):
            votes[kind][scheme] += 1
    return {kind: found.most_common(1)[0][0] if found else base for kind, found in votes.items()}
