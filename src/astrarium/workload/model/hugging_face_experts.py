"""Decoders of Hugging Face since 2025, one function per `model_type`: experts, sparse and linear attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from astrarium.config.coerce import shown
from astrarium.errors import UnsupportedError
from astrarium.workload.model.cached import StateFormat
from astrarium.workload.model.delta_net import DeltaNet
from astrarium.workload.model.experts import Experts
from astrarium.workload.model.hugging_face_decoders import DECODERS, common, deepseek, grouped, prediction
from astrarium.workload.model.hugging_face_keys import Fields, Keys, Reader, Readers
from astrarium.workload.model.hugging_face_notes import unread
from astrarium.workload.model.indexer import Indexer
from astrarium.workload.model.latent import Latent

__all__ = ["EXPERTS", "state_format", "within"]


def _refuse(keys: Keys, key: str, what: str, expected: str) -> UnsupportedError:
    return UnsupportedError(f"{keys.name}: {key}", f"{what} has no model here", expected=expected)


def _every(keys: Keys, layers: int, full: str, other: str, interval: int) -> int:
    """k where every k-th layer is `full` and the rest `other`, of `layer_types` or an interval; refused otherwise."""
    kinds = keys.listed("layer_types")
    if not kinds:
        return interval
    found = [kind == full for kind in kinds]
    every = found.index(True) + 1 if any(found) else 0
    regular = [every > 0 and (index + 1) % every == 0 for index in range(layers)]
    if found != regular or any(kind not in (full, other) for kind in kinds):
        raise _refuse(keys, "layer_types", f"the order {shown(list(kinds)[:6])}",
                      f"every k-th layer {full}, others {other}")
    return every


def _rotary(keys: Keys) -> float:
    """Part of a head that is turned."""
    nested = keys.plain.get("rope_parameters")
    found = nested.get("partial_rotary_factor") if isinstance(nested, Mapping) else None
    value = keys.plain.get("partial_rotary_factor", found)
    keys.seen.add("partial_rotary_factor")
    return float(value) if isinstance(value, (int, float)) and 0 < value <= 1 else 1.0


def _gpt_oss(keys: Keys) -> Fields:
    found = grouped(keys)
    found["head_size"] = keys.whole("head_dim", 64)
    moe = Experts(experts=keys.whole("num_local_experts"), top_k=keys.whole("num_experts_per_tok"), router_bias=True)
    keys.only("attention_bias", True)
    return {**found, "biases": ("qkv", "out", "mlp"), "sinks": True, "window": keys.whole("sliding_window", 128),
            "full_every": _every(keys, found["layers"], "full_attention", "sliding_attention", 2), "moe": moe}


def _llama4_text(keys: Keys) -> Fields:
    found = grouped(keys)
    expert, step = found["ffn"], keys.whole("interleave_moe_layer_step", 1)
    keys.only("attention_bias", False)
    if keys.has("moe_layers") and list(keys.listed("moe_layers")) != list(range(step - 1, found["layers"], step)):
        raise _refuse(keys, "moe_layers", "another order", f"every layer number {step}")
    found["ffn"] = keys.whole("intermediate_size_mlp", 16384)
    moe = Experts(experts=keys.whole("num_local_experts"), top_k=keys.whole("num_experts_per_tok", 1), router="sigmoid",
                  expert_ffn=expert, shared_experts=1, every=step)
    chunk = keys.whole("attention_chunk_size", 8192)
    every = _no_rope(keys, found["layers"])
    keys.notes.append("layers without rotary positions are counted as if they had them (vector FLOPs)")
    return {**found, "moe": moe, "qk_norm": keys.flag("use_qk_norm", True), "qk_norm_scale": "none", "window": chunk,
            "window_kind": "chunked", "full_every": every}


def _no_rope(keys: Keys, layers: int) -> int:
    """Every how manieth layer looks at all tokens: those without rotary positions."""
    marks, every = keys.listed("no_rope_layers"), keys.whole("no_rope_layer_interval", 4)
    if marks and list(marks) != [int((index + 1) % every != 0) for index in range(layers)]:
        raise _refuse(keys, "no_rope_layers", shown(list(marks)), f"0 for every layer number {every}, 1 for the others")
    return _every(keys, layers, "full_attention", "chunked_attention", every)


def within(read: Reader) -> Reader:
    """A file with a vision tower around the language model, which is behind text_config."""
    def reader(keys: Keys) -> Fields:
        inner = keys.inner("text_config")
        if keys.has("tie_word_embeddings") and "tie_word_embeddings" not in inner.plain:
            inner = Keys({**inner.plain, "tie_word_embeddings": keys.plain["tie_word_embeddings"]}, inner.name,
                         notes=inner.notes, assumed=inner.assumed)
        found = read(inner)
        keys.notes.extend(unread(inner))
        return found

    return reader


def state_format(keys: Keys) -> StateFormat:
    """Format of the state of a recurrence; by default engines store it as activations."""
    for key in ("mamba_ssm_dtype", "mamba_ssm_cache_dtype"):
        keys.only(key, None, "float32", "bfloat16")
        if keys.plain.get(key) == "float32":
            return "fp32"
    return "activations"


def _delta(keys: Keys) -> DeltaNet:
    return DeltaNet(key_heads=keys.whole("linear_num_key_heads", 16), key_size=keys.whole("linear_key_head_dim", 128),
                    value_heads=keys.whole("linear_num_value_heads", 32),
                    value_size=keys.whole("linear_value_head_dim", 128),
                    convolution=keys.whole("linear_conv_kernel_dim", 4), state_format=state_format(keys))


def _hybrid(keys: Keys) -> Fields:
    """Gated delta nets, and every fourth layer gated attention."""
    if not keys.has("intermediate_size"):       # nothing but experts
        keys = Keys({**keys.plain, "intermediate_size": keys.whole("moe_intermediate_size")}, keys.name, keys.seen,
                    keys.notes, keys.assumed)
    found = grouped(keys)
    found["head_size"] = keys.whole("head_dim", 256)
    biases = ("qkv", "out") if keys.flag("attention_bias", False) else ()
    keys.only("attn_output_gate", True)
    keys.only("mtp_use_dedicated_embeddings", False)
    every = _every(keys, found["layers"], "full_attention", "linear_attention",
                   keys.whole("full_attention_interval", 4))
    return {**found, "biases": biases, "qk_norm": True, "gated_heads": True, "delta": _delta(keys), "full_every": every,
            "rotary_share": _rotary(keys), "mtp": prediction(keys, "mtp_num_hidden_layers")}


def _shared_expert(keys: Keys) -> Experts:
    expert = keys.whole("moe_intermediate_size")
    keys.only("mlp_only_layers", [], None)
    keys.only("shared_expert_intermediate_size", expert)
    return Experts(experts=keys.whole("num_experts"), top_k=keys.whole("num_experts_per_tok"), expert_ffn=expert,
                   shared_experts=1, shared_gate=True, every=keys.whole("decoder_sparse_step", 1))


def _qwen3_5(keys: Keys) -> Fields:
    return _hybrid(keys)


def _qwen3_hybrid_moe(keys: Keys) -> Fields:
    return {**_hybrid(keys), "moe": _shared_expert(keys)}


def _minimax_m2(keys: Keys) -> Fields:
    found = grouped(keys)
    keys.only("qk_norm_type", "per_layer")
    keys.only("attn_type_list", None, [1] * found["layers"])
    keys.only("shared_intermediate_size", 0)
    moe = Experts(experts=keys.whole("num_local_experts"), top_k=keys.whole("num_experts_per_tok"), router="sigmoid",
                  router_bias=True)
    head, turned = keys.whole("head_dim", 128), keys.whole("rotary_dim", keys.whole("head_dim", 128))
    count = prediction(keys, "num_mtp_modules") if keys.flag("use_mtp", False) else 0
    if count and keys.whole("mtp_transformer_layers", 1) != 1:
        raise _refuse(keys, "mtp_transformer_layers", shown(keys.plain["mtp_transformer_layers"]), "1")
    return {**found, "head_size": head, "qk_norm": keys.flag("use_qk_norm", True), "qk_norm_scale": "all", "moe": moe,
            "rotary_share": turned / head, "mtp": count}


def _routed(keys: Keys) -> Experts:
    return Experts(experts=keys.whole("n_routed_experts"), top_k=keys.whole("num_experts_per_tok"), router="sigmoid",
                   expert_ffn=keys.whole("moe_intermediate_size"), shared_experts=keys.whole("n_shared_experts"),
                   dense_layers=keys.whole("first_k_dense_replace"), router_bias=True)


def _glm4_moe(keys: Keys) -> Fields:
    found = grouped(keys)
    found["head_size"] = keys.whole("head_dim", 128)
    biases: Sequence[Any] = ("qkv",) if keys.flag("attention_bias", False) else ()
    return {**found, "biases": biases, "qk_norm": keys.flag("use_qk_norm", False), "moe": _routed(keys),
            "rotary_share": _rotary(keys), "mtp": prediction(keys)}


def _kimi_k2(keys: Keys) -> Fields:
    keys.only("scoring_func", "sigmoid")
    return deepseek(keys, router="sigmoid", router_bias=True)


def _sparse(keys: Keys) -> Fields:
    """DeepSeek-V3.2 and GLM-5: latent attention, of which an indexer chooses the tokens."""
    keys.only("attention_bias", False)
    mla = Latent(q_rank=keys.whole("q_lora_rank"), kv_rank=keys.whole("kv_lora_rank"),
                 nope_size=keys.whole("qk_nope_head_dim"), rope_size=keys.whole("qk_rope_head_dim"),
                 v_size=keys.whole("v_head_dim"))
    sparse = Indexer(heads=keys.whole("index_n_heads"), head_size=keys.whole("index_head_dim"),
                     top_k=keys.whole("index_topk"), layers=_indexers(keys))
    dense = keys.whole("first_k_dense_replace")
    if keys.has("mlp_layer_types") and list(keys.listed("mlp_layer_types")) != [
            "sparse" if index >= dense else "dense" for index in range(keys.whole("num_hidden_layers"))]:
        raise _refuse(keys, "mlp_layer_types", "another order",
                      f"dense in the first {dense} layers, sparse in the others")
    keys.only("moe_layer_freq", 1)
    keys.notes.append("sparse attention: what the indexer's loss compares with in training is left out")
    return {**common(keys), "mla": mla, "sparse": sparse, "moe": _routed(keys), "mtp": prediction(keys)}


def _indexers(keys: Keys) -> tuple[int, ...] | None:
    """Layers with an indexer where some take the choice of one before them; None: every layer has one."""
    kinds = keys.listed("indexer_types")
    keys.unused("index_skip_topk_offset", "index_share_for_mtp_iteration", "indexer_rope_interleave")
    if not kinds:
        for key in ("index_topk_freq", "index_topk_pattern"):
            keys.only(key, None, 1)
    keys.unused("index_topk_freq", "index_topk_pattern")
    odd = any(kind not in ("full", "shared") for kind in kinds)
    if odd or len(kinds) not in (0, keys.whole("num_hidden_layers")):
        raise _refuse(keys, "indexer_types", shown(list(kinds)[:6]), "full or shared, of every layer")
    return tuple(index for index, kind in enumerate(kinds) if kind == "full") if "shared" in kinds else None


EXPERTS: Readers = MappingProxyType({
    "gpt_oss": _gpt_oss, "llama4_text": _llama4_text, "llama4": within(_llama4_text), "qwen3_next": _qwen3_hybrid_moe,
    "qwen3_5_text": _qwen3_5, "qwen3_5": within(_qwen3_5), "qwen3_5_moe_text": _qwen3_hybrid_moe,
    "qwen3_5_moe": within(_qwen3_hybrid_moe), "minimax_m2": _minimax_m2, "glm4_moe": _glm4_moe, "kimi_k2": _kimi_k2,
    "kimi_k25": within(_kimi_k2),
    "deepseek_v32": _sparse, "glm_moe_dsa": _sparse, "qwen3_vl": within(DECODERS["qwen3"]),
    "qwen3_vl_moe": within(DECODERS["qwen3_moe"]),
})
