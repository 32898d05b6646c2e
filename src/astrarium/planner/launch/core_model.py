"""Megatron core's names of a model's sizes, as fields of a Decoder."""

from __future__ import annotations

import re
from typing import Any

from astrarium.planner.launch.given import Given

__all__ = ["core_model"]

POSITIONS = {"rope": "rotary", "yarn": "rotary", "learned_absolute": "learned", "none": "none"}
SIZES = ("num_layers", "hidden_size", "num_attention_heads", "vocab_size")
_TERM = r"\[[01](?:,[01]){0,400}\](?:\*[0-9]{1,3})?"
_PATTERN = re.compile(rf"\(?({_TERM}(?:\+{_TERM}){{0,20}})\)?(?:\*([0-9]{{1,3}}))?")
"""A list of layers, 1 for those with experts, as Python writes it: `[0]*3+[1]*58`, `([0,1]*24)`."""
MOST_LAYERS = 10_000


def core_model(given: Given, experts: int | None, switched: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """(fields of a Decoder, some of them where sizes are left out; those sizes). `switched`: num_query_groups counts
    only under group_query_attention. Raises InputError for models that are not predicted."""
    width, heads = given.number("hidden_size"), given.number("num_attention_heads")
    layers, vocab = given.number("num_layers"), given.number("padded_vocab_size", given.number("vocab_size"))
    ffn, plain = given.number("ffn_hidden_size"), given.flag("disable_bias_linear")
    gated = given.flags("swiglu", "gated_linear_unit", "quick_geglu")
    positions, longest = _positions(given)
    sinks = given.choice("softmax_type", {"vanilla": "", "learnable": "learnable"}, "vanilla")
    parts = {**_attention(given, heads, width, switched), **_window(given), **_predicted(given),
             **({"sinks": True} if sinks == "learnable" else {})}
    moe = _experts(given, experts, ffn)
    missing = tuple(name for name, size in zip(SIZES, (layers, width, heads, vocab), strict=True) if size is None)
    found: dict[str, Any] = {
        "gated": gated, "tied_embeddings": not given.flag("untie_embeddings_and_output_weights"),
        "norm": "rms" if str(given.raw("normalization")).lower() == "rmsnorm" else "layer",
        "activation": _activation(given, gated), "positions": positions,
        "biases": _biases(plain, given.flag("add_qkv_bias"), "mla" in parts), **parts}
    if layers is None or width is None or heads is None or vocab is None:
        sizes = {"layers": layers, "d_model": width, "heads": heads, "ffn": ffn}
        return {name: size for name, size in sizes.items() if size is not None}, missing
    inner = ffn or (int(4 * width * 2 / 3 / 64) * 64 if gated else 4 * width)
    found |= {"layers": layers, "d_model": width, "heads": heads, "vocab": vocab, "ffn": inner}
    found |= {"max_positions": longest} if positions == "learned" else {}
    if moe is not None:
        each = moe["expert_ffn"] or inner
        shared = moe.pop("shared")
        if shared % each:
            raise given.fault("moe_shared_expert_intermediate_size", f"{shared} is no multiple of an expert's {each}")
        found["moe"] = {**moe, "expert_ffn": each, "shared_experts": shared // each}
    return found, ()


def _positions(given: Given) -> tuple[str, int | None]:
    """How tokens know their place, and the length of a learned table."""
    named = given.raw("position_embedding_type")
    old = given.flag("use_rotary_position_embeddings")
    kind = str("learned_absolute" if named is None and not old else named or "rope").lower()
    if kind not in POSITIONS:
        raise given.fault("position_embedding_type", f"{str(named)[:60]!r} is not predicted",
                          "one of rope, yarn, learned_absolute, none")
    return POSITIONS[kind], given.number("max_position_embeddings")


def _biases(plain: bool, qkv: bool, latent: bool) -> list[str]:
    """Linear layers with an offset."""
    if plain:
        return ["qkv"] if qkv and not latent else []
    return ["out", "mlp"] if latent else ["qkv", "out", "mlp"]


def _activation(given: Given, gated: bool) -> str:
    if given.flag("squared_relu"):
        return "relu"
    return "silu" if gated and not given.flag("quick_geglu") else "gelu"


def _attention(given: Given, heads: int | None, width: int | None, switched: bool) -> dict[str, Any]:
    """Heads, ordinary or latent."""
    groups, head = given.number("num_query_groups"), given.number("kv_channels")
    grouped, normed = given.flag("group_query_attention", not switched), given.flag("qk_layernorm")
    query, keys = given.number("q_lora_rank"), given.whole("kv_lora_rank", 512)
    sizes = [given.whole(name, usual) for name, usual in
             (("qk_head_dim", 128), ("qk_pos_emb_head_dim", 64), ("v_head_dim", 128))]
    if given.flag("multi_latent_attention"):
        return {"mla": {"q_rank": query, "kv_rank": keys, "nope_size": sizes[0], "rope_size": sizes[1],
                        "v_size": sizes[2]}}
    found: dict[str, Any] = {"kv_heads": groups} if groups is not None and grouped else {}
    if head is not None and (heads is None or head * heads != width):
        found["head_size"] = head
    return {**found, **({"qk_norm": True} if normed else {})}


def _window(given: Given) -> dict[str, Any]:
    """A sliding window: Megatron counts the tokens before a token, here the token counts, too."""
    said, often = given.raw("window_size"), given.raw("window_attn_skip_freq")
    if said in (None, False):
        return {}
    numbers = re.findall(r"-?[0-9]{1,9}", str(said))
    if len(numbers) != 2 or int(numbers[1]) not in (0, -1) or int(numbers[0]) < -1:
        raise given.fault("window_size", f"{str(said)[:60]!r} is not predicted", "LEFT,0: tokens before a token")
    if numbers[0] == "-1":
        return {}
    if often is not None and not str(often).isdecimal():
        raise given.fault("window_attn_skip_freq", f"{str(often)[:60]!r} is not predicted",
                          "N: every N-th layer looks at all tokens")
    return {"window": int(numbers[0]) + 1, "full_every": 0 if often is None else int(str(often))}


def _predicted(given: Given) -> dict[str, Any]:
    """Modules for multi-token prediction."""
    modules = given.number("mtp_num_layers", 0, 0)
    return {"mtp": modules} if modules else {}


def _experts(given: Given, experts: int | None, ffn: int | None) -> dict[str, Any] | None:
    """Fields of Experts, with the inner size of all shared ones as `shared`; None without experts."""
    found: dict[str, Any] = {
        "experts": experts, "top_k": given.whole("moe_router_topk", 2),
        "expert_ffn": given.number("moe_ffn_hidden_size", ffn),
        "shared": given.whole("moe_shared_expert_intermediate_size", 0, 0),
        "shared_gate": given.flag("moe_shared_expert_gate"),
        "router": given.choice("moe_router_score_function", {"softmax": "softmax", "sigmoid": "sigmoid"}, "softmax"),
        "router_bias": given.flag("moe_router_enable_expert_bias")}
    often, room = given.raw("moe_layer_freq"), given.raw("moe_expert_capacity_factor")
    if not experts:
        for name in given.values:
            if name.startswith("moe_"):
                given.raw(name)
        return None
    if room is not None and given.real("moe_expert_capacity_factor", 0) > 0:
        if not given.flag("moe_pad_expert_input_to_capacity"):
            given.assumed.append("experts compute all of their room (moe_expert_capacity_factor)")
        found["capacity_factor"] = given.real("moe_expert_capacity_factor", 0)
    if often is None or str(often) == "1":
        return found
    if str(often).isdecimal():
        return {**found, "every": int(str(often))}
    return {**found, **_layers_with_experts(given, str(often).replace(" ", "").strip("'\""))}


def _layers_with_experts(given: Given, often: str) -> dict[str, int]:
    """`dense_layers` and `every` of Experts that give the same list. Raises InputError where none do."""
    match = _PATTERN.fullmatch(often)
    terms = [term.partition("*") for term in match[1].split("+")] if match else []
    outer = int(match[2] or 1) if match else 0
    layers: list[int] = []
    if sum(len(each) * int(times or 1) for each, _, times in terms) * outer <= MOST_LAYERS:
        layers = [int(one) for each, _, times in terms for one in re.findall("[01]", each) * int(times or 1)] * outer
    ones = [place for place, one in enumerate(layers) if one]
    every = ones[1] - ones[0] if len(ones) > 1 else 1
    front = max(0, ones[0] - every + 1) if ones else 0
    if ones and layers == [int(place >= front and (place - front + 1) % every == 0) for place in range(len(layers))]:
        return {"dense_layers": front, "every": every}
    raise given.fault("moe_layer_freq", f"{often[:60]!r} is not predicted",
                      "N, or a list such as [0]*3+[1]*58: layers without experts in front, then every N-th with them")
