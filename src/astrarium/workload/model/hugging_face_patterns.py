"""Decoders of Hugging Face whose layers are of several kinds, one function per `model_type`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from astrarium.config.coerce import shown
from astrarium.errors import UnsupportedError
from astrarium.workload.model.compressed import Compressed
from astrarium.workload.model.decoder_shape import FullHeads
from astrarium.workload.model.experts import Experts
from astrarium.workload.model.hugging_face_decoders import common, grouped
from astrarium.workload.model.hugging_face_experts import state_format, within
from astrarium.workload.model.hugging_face_keys import Fields, Keys, Readers
from astrarium.workload.model.indexer import Indexer
from astrarium.workload.model.mamba_mixer import MambaMixer

__all__ = ["PATTERNS"]

BLOCKS: Mapping[str, str] = MappingProxyType({
    "M": "mamba", "*": "full", "E": "experts", "-": "ffn",
    "mamba": "mamba", "attention": "full", "moe": "experts", "mlp": "ffn"})
"""Kinds of a Nemotron-H's layers, by letter and by name."""
SIGHTS: Mapping[str, str] = MappingProxyType({"full_attention": "full", "sliding_attention": "window"})


def _kinds(keys: Keys, key: str, found: Sequence[Any], known: Mapping[Any, str], layers: int) -> tuple[str, ...]:
    """Our kinds for those of a file. Raises UnsupportedError for others, or another number of layers."""
    odd = next((each for each in found if not isinstance(each, (str, int)) or each not in known), None)
    if odd is not None or len(found) != layers:
        what = shown(odd) if odd is not None else f"{len(found)} kinds of {layers} layers"
        raise UnsupportedError(f"{keys.name}: {key}", f"{what} has no model here",
                               expected=f"{layers} of " + ", ".join(map(str, known)))
    return tuple(known[each] for each in found)


def _with(keys: Keys, more: Mapping[str, Any], **instead: Any) -> Keys:
    """The file with values for keys that it lacks, and others instead of its own."""
    given = {key: value for key, value in keys.plain.items() if value is not None}
    return Keys({**more, **given, **instead}, keys.name, keys.seen, keys.notes, keys.assumed)


def _nemotron_h(keys: Keys) -> Fields:
    """Layers of one kind each: a Mamba mixer, attention without positions, experts (in a latent space) or an FFN."""
    listed = keys.listed("layers_block_type")
    found = grouped(_with(keys, {"hidden_act": "relu", "num_hidden_layers": len(listed), "intermediate_size": 1}))
    keys.only("mlp_hidden_act", "relu2")
    for key in ("attention_bias", "mlp_bias", "use_bias", "mamba_proj_bias"):
        keys.only(key, False)
    keys.only("use_conv_bias", True)
    keys.only("mamba_hidden_act", "silu")
    keys.only("sliding_window", None)
    key = "layers_block_type" if listed else "hybrid_override_pattern"
    pattern = _kinds(keys, key, listed or keys.text(key), BLOCKS, found["layers"])
    if keys.has("attention_head_dim"):
        found["head_size"] = keys.whole("attention_head_dim")
    mixer = MambaMixer(heads=keys.whole("mamba_num_heads"), head_size=keys.whole("mamba_head_dim"),
                       state=keys.whole("ssm_state_size"), groups=keys.whole("n_groups"),
                       convolution=keys.whole("conv_kernel", 4), chunk=keys.whole("chunk_size", 128),
                       state_format=state_format(keys))
    keys.unused("expand", "residual_in_fp32", "rescale_prenorm_residual", "num_logits_to_keep", "use_mamba_kernels",
                "moe_shared_expert_overlap", "mtp_hybrid_override_pattern", "mtp_layers_block_type", "time_step_floor",
                "time_step_limit", "time_step_max", "time_step_min", "time_step_rank")
    _no_prediction(keys)
    moe = _latent_experts(keys) if "experts" in pattern else None
    return {**found, "gated": False, "activation": "relu2", "positions": "none", "pattern": pattern, "mamba": mixer,
            "moe": moe}


def _no_prediction(keys: Keys) -> None:
    if keys.whole("num_nextn_predict_layers", 0):
        keys.notes.append("num_nextn_predict_layers: modules for prediction, whose layers are of another kind than the "
                          "last one, are left out")


def _latent_experts(keys: Keys) -> Experts:
    return Experts(experts=keys.whole("n_routed_experts"), top_k=keys.whole("num_experts_per_tok"), router="sigmoid",
                   expert_ffn=keys.whole("moe_intermediate_size"), router_bias=True,
                   shared_experts=keys.whole("n_shared_experts"), latent=keys.maybe("moe_latent_size"),
                   shared_ffn=keys.whole("moe_shared_expert_intermediate_size"))


def _nemotron_nas(keys: Keys) -> Fields:
    """Llama whose search left attention out of some layers and gave every FFN a size (Llama-3.3-Nemotron-Super)."""
    for key in ("attention_bias", "mlp_bias"):
        keys.only(key, False)
    blocks, heads, width = keys.listed("block_configs"), keys.whole("num_attention_heads"), keys.whole("hidden_size")
    pattern, sizes, groups = [], [], set[int]()
    for number, each in enumerate(blocks):
        block = Keys(each if isinstance(each, dict) else {}, f"{keys.name}: block_configs[{number}]")
        attention, ffn = block.inner("attention"), block.inner("ffn")
        for part in (attention, ffn):
            part.only("replace_with_linear", False)
            part.only("sparsify", None)
        attention.only("window_length", None)
        ffn.only("no_op", False)
        mixes = not attention.flag("no_op", False)
        if mixes:
            groups.add(heads // max(1, attention.whole("n_heads_in_group")))
        pattern.append("full+ffn" if mixes else "ffn")
        multiple = ffn.plain.get("ffn_mult")
        if not isinstance(multiple, (int, float)) or not 0 < multiple < 1000:
            raise UnsupportedError(f"{ffn.name}: ffn_mult", f"{shown(multiple)} has no model here",
                                   expected="a factor above 0")
        sizes.append(-(-int(2 * multiple * width / 3) // 256) * 256)
    if len(groups) != 1:
        raise UnsupportedError(f"{keys.name}: block_configs", "layers with several numbers of key and value heads have "
                               "no model here", expected="one number")
    inner = _with(keys, {"intermediate_size": max(sizes), "num_key_value_heads": groups.pop()})
    return {**grouped(inner), "pattern": tuple(pattern), "ffns": tuple(sizes)}


def _mimo_v2(keys: Keys) -> Fields:
    """Windows with their own heads and sinks, full attention in between; one dense layer, then experts."""
    found, marks, routed = grouped(keys), keys.listed("hybrid_layer_pattern"), keys.listed("moe_layer_freq")
    keys.only("attention_bias", False)
    keys.only("scoring_func", "sigmoid")
    keys.only("n_shared_experts", None, 0)
    for key, other in (("swa_head_dim", "head_dim"), ("swa_v_head_dim", "v_head_dim"),
                      ("swa_num_attention_heads", "num_attention_heads")):
        keys.only(key, keys.whole(other))
    sights = _kinds(keys, "hybrid_layer_pattern", marks, {0: "full", 1: "window"}, found["layers"])
    feeds = _kinds(keys, "moe_layer_freq", routed, {0: "ffn", 1: "experts"}, found["layers"])
    full = FullHeads(kv_heads=keys.whole("num_key_value_heads"),
                     sinks=keys.flag("add_full_attention_sink_bias", False))
    keys.unused("attention_chunk_size", "sliding_window_size", "attention_value_scale")
    moe = Experts(experts=keys.whole("n_routed_experts"), top_k=keys.whole("num_experts_per_tok"), router="sigmoid",
                  expert_ffn=keys.whole("moe_intermediate_size"), router_bias=True)
    turned = keys.plain.get("partial_rotary_factor", 1.0)
    return {**found, "kv_heads": keys.whole("swa_num_key_value_heads"), "full_heads": full, "moe": moe,
            "value_size": keys.whole("v_head_dim"), "window": keys.whole("sliding_window"),
            "sinks": keys.flag("add_swa_attention_sink_bias", True), "rotary_share": turned,
            "pattern": tuple(f"{sight}+{feed}" for sight, feed in zip(sights, feeds, strict=True))}


def _step(keys: Keys) -> Fields:
    """Full attention and windows in turn; dense layers, then experts with a shared one."""
    found, dense = grouped(keys), keys.whole("first_k_dense_replace")
    keys.only("attention_other_setting", None)
    keys.only("use_head_wise_attn_gate", False)
    keys.only("scoring_func", "sigmoid")
    keys.only("share_expert_dim", keys.whole("moe_intermediate_size"))
    keys.unused("moe_router_scaling_factor")
    _no_prediction(keys)
    sights = _kinds(keys, "layer_types", keys.listed("layer_types"), SIGHTS, found["layers"])
    moe = Experts(experts=keys.whole("num_experts"), top_k=keys.whole("num_experts_per_tok"), router="sigmoid",
                  expert_ffn=keys.whole("moe_intermediate_size"), shared_experts=keys.whole("n_shared_experts"),
                  router_bias=keys.flag("use_moe_router_bias", False))
    return {**found, "qk_norm": True, "window": keys.whole("sliding_window"), "moe": moe,
            "pattern": tuple(f"{sight}+{'ffn' if index < dense else 'experts'}" for index, sight in enumerate(sights))}


def _gemma4(keys: Keys) -> Fields:
    """Windows, and full attention whose values are its keys; norms on both sides; experts beside the FFN."""
    for key in ("attention_bias", "use_double_wide_mlp"):
        keys.only(key, False)
    for key in ("hidden_size_per_layer_input", "num_kv_shared_layers"):
        keys.only(key, 0, None)
    found = common(_with(keys, {"hidden_act": "gelu"}), tied=True)
    found["activation"] = keys.activation("hidden_activation", "gelu_pytorch_tanh")
    sights = _kinds(keys, "layer_types", keys.listed("layer_types"), SIGHTS, found["layers"])
    same = keys.flag("attention_k_eq_v", False)
    groups = keys.whole("num_key_value_heads")
    full = FullHeads(kv_heads=keys.whole("num_global_key_value_heads") if same else groups,
                     head_size=keys.maybe("global_head_dim"), keys_are_values=same)
    keys.unused("vocab_size_per_layer_input", "use_bidirectional_attention")
    moe = None
    if keys.flag("enable_moe_block", False):
        moe = Experts(experts=keys.whole("num_experts"), top_k=keys.whole("top_k_experts"), beside_ffn=True,
                      expert_ffn=keys.whole("moe_intermediate_size"))
    keys.unused("expert_intermediate_size")
    keys.notes.append("norms over values and over the router's input, and scales of whole layers, are left out")
    feed = "experts" if moe else "ffn"
    return {**found, "kv_heads": groups, "head_size": keys.whole("head_dim"), "qk_norm": True, "post_norms": True,
            "window": keys.whole("sliding_window"), "full_heads": full, "moe": moe,
            "pattern": tuple(f"{sight}+{feed}" for sight in sights)}


def _minimax_m3(keys: Keys) -> Fields:
    """Dense layers that see all, then experts and attention to blocks of tokens that an indexer chooses."""
    keys.only("hidden_act", "swigluoai")        # a SiLU that is clipped
    found = grouped(_with(keys, {}, hidden_act="silu"))
    keys.only("qk_norm_type", "per_head")
    keys.only("attention_output_gate", False)
    keys.only("scoring_func", "sigmoid")
    keys.only("shared_intermediate_size", keys.whole("intermediate_size"))
    index = keys.inner("sparse_attention_config")
    index.only("use_sparse_attention", True)
    index.only("sparse_score_type", "max")
    index.only("sparse_init_block", 0)
    size = index.whole("sparse_block_size")     # the newest block is one of those that are chosen
    sparse = Indexer(heads=index.whole("sparse_num_index_heads"), head_size=index.whole("sparse_index_dim"), block=size,
                     top_k=size * index.whole("sparse_topk_blocks"))
    sights = _kinds(index, "sparse_attention_freq", index.listed("sparse_attention_freq"), {0: "full", 1: "sparse"},
                    found["layers"])
    feeds = _kinds(keys, "moe_layer_freq", keys.listed("moe_layer_freq"), {0: "ffn", 1: "experts"}, found["layers"])
    moe = Experts(experts=keys.whole("num_local_experts"), top_k=keys.whole("num_experts_per_tok"), router="sigmoid",
                  expert_ffn=keys.whole("intermediate_size"), shared_experts=keys.whole("n_shared_experts"),
                  router_bias=keys.flag("use_routing_bias", False))
    keys.unused("first_k_dense_replace", "moe_intermediate_size", "use_gemma_norm", "num_mtp_modules")
    _no_prediction(keys)
    head = keys.whole("head_dim", 128)
    return {**found, "ffn": keys.whole("dense_intermediate_size"), "qk_norm": keys.flag("use_qk_norm", True),
            "rotary_share": keys.whole("rotary_dim", head) / head, "sparse": sparse, "moe": moe,
            "pattern": tuple(f"{sight}+{feed}" for sight, feed in zip(sights, feeds, strict=True))}


def _deepseek_v4(keys: Keys) -> Fields:
    """Several residual streams, attention to a window and compressed tokens, experts in every layer."""
    expert = keys.whole("moe_intermediate_size")
    found = grouped(_with(keys, {"intermediate_size": expert, "hidden_act": "silu"}))
    keys.only("attention_bias", False)
    keys.only("num_key_value_heads", 1)
    keys.only("scoring_func", "sqrtsoftplus")
    ratios = tuple(keys.listed("compress_ratios")[:found["layers"]])
    if any(ratio not in (0, 4, 128) for ratio in ratios):
        raise UnsupportedError(f"{keys.name}: compress_ratios", f"{shown(list(ratios)[:6])} has no model here",
                               expected="0, 4 (CSA) and 128 (HCA)")
    made = Compressed(ratios=ratios, window=keys.whole("sliding_window"), q_rank=keys.whole("q_lora_rank"),
                      out_groups=keys.whole("o_groups"), out_rank=keys.whole("o_lora_rank"),
                      index_heads=keys.whole("index_n_heads"), index_size=keys.whole("index_head_dim"),
                      top_k=keys.whole("index_topk"))
    moe = Experts(experts=keys.whole("n_routed_experts"), top_k=keys.whole("num_experts_per_tok"), router="sigmoid",
                  expert_ffn=expert, shared_experts=keys.whole("n_shared_experts"), router_bias=True)
    if keys.whole("num_hash_layers", 0):
        keys.notes.append("num_hash_layers: experts of these layers are chosen by a token's number; counted as if by "
                          "its vector")
    keys.unused("qk_rope_head_dim", "hc_eps", "hc_sinkhorn_iters", "compress_rope_theta", "expert_dtype")
    _no_prediction(keys)
    return {**found, "compressed": made, "streams": keys.whole("hc_mult"), "moe": moe,
            "rotary_share": keys.whole("qk_rope_head_dim") / found["head_size"]}


PATTERNS: Readers = MappingProxyType({
    "nemotron_h": _nemotron_h, "nemotron-nas": _nemotron_nas, "mimo_v2_flash": _mimo_v2, "step3p7": _step,
    "gemma4_text": _gemma4, "gemma4": within(_gemma4), "minimax_m3": _minimax_m3, "minimax_m3_vl": within(_minimax_m3),
    "deepseek_v4": _deepseek_v4, "deepseek_ref": _deepseek_v4})
