"""Decoder-only architectures of Hugging Face, one function per `model_type`; defaults are those of its classes."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Literal

from astrarium.workload.model.experts import Experts
from astrarium.workload.model.hugging_face_keys import Fields, Keys, Readers
from astrarium.workload.model.latent import Latent

__all__ = ["DECODERS", "common", "deepseek", "grouped", "prediction"]

AttentionBatch = Literal["qkv", "out", "mlp"]

ALL: tuple[AttentionBatch, ...] = ("qkv", "out", "mlp")
ATTENTION: tuple[AttentionBatch, ...] = ("qkv", "out")


def common(keys: Keys, *, tied: bool = False) -> Fields:
    """What the LLaMA line of architectures shares."""
    keys.reach("max_position_embeddings", 2048)
    return {
        "layers": keys.whole("num_hidden_layers"), "d_model": keys.whole("hidden_size"),
        "heads": keys.whole("num_attention_heads"), "ffn": keys.whole("intermediate_size"),
        "activation": keys.activation("hidden_act", "silu"), "vocab": keys.whole("vocab_size"),
        "seq": None, "tied_embeddings": keys.flag("tie_word_embeddings", tied),
    }


def grouped(keys: Keys, *, tied: bool = False) -> Fields:
    found, groups = common(keys, tied=tied), keys.maybe("num_key_value_heads")
    return {**found, "kv_heads": None if groups == found["heads"] else groups, "head_size": keys.maybe("head_dim")}


def _llama(keys: Keys) -> Fields:
    attention = ATTENTION if keys.flag("attention_bias", False) else ()
    mlp: tuple[AttentionBatch, ...] = ("mlp",) if keys.flag("mlp_bias", False) else ()
    return {**grouped(keys), "biases": (*attention, *mlp)}


def _mistral(keys: Keys) -> Fields:
    return {**grouped(keys), "window": keys.maybe("sliding_window")}


def _mixtral(keys: Keys) -> Fields:
    moe = Experts(experts=keys.whole("num_local_experts"), top_k=keys.whole("num_experts_per_tok"))
    return {**grouped(keys), "window": keys.maybe("sliding_window"), "moe": moe}


def _phi3(keys: Keys) -> Fields:
    return {**grouped(keys), "head_size": None, "window": keys.maybe("sliding_window")}


def _gemma(keys: Keys) -> Fields:
    activation = "hidden_activation" if keys.has("hidden_activation") else "hidden_act"
    keys.only("attention_bias", False)
    return {**grouped(keys, tied=True), "activation": keys.activation(activation, "gelu")}


def _qwen2(keys: Keys) -> Fields:
    keys.only("use_sliding_window", False)
    keys.unused("sliding_window", "layer_types")
    return {**grouped(keys), "head_size": None, "biases": ("qkv",)}


def _mimo(keys: Keys) -> Fields:
    """Qwen2 with a size of heads and a module for prediction."""
    keys.only("attention_bias", True)
    return {**_qwen2(keys), "head_size": keys.maybe("head_dim"), "mtp": prediction(keys)}


def _qwen3(keys: Keys) -> Fields:
    keys.only("use_sliding_window", False)
    keys.unused("sliding_window", "layer_types")
    biases = ATTENTION if keys.flag("attention_bias", False) else ()
    return {**grouped(keys), "head_size": keys.whole("head_dim", 128), "biases": biases, "qk_norm": True}


def _qwen3_moe(keys: Keys) -> Fields:
    keys.only("use_sliding_window", False)
    keys.unused("sliding_window", "layer_types")
    keys.only("attention_bias", False)
    keys.only("mlp_only_layers", [], None)
    experts = "num_local_experts" if keys.has("num_local_experts") else "num_experts"
    moe = Experts(experts=keys.whole(experts), top_k=keys.whole("num_experts_per_tok"),
                  expert_ffn=keys.whole("moe_intermediate_size"), every=keys.whole("decoder_sparse_step", 1))
    return {**grouped(keys), "qk_norm": True, "moe": moe}


def prediction(keys: Keys, key: str = "num_nextn_predict_layers") -> int:
    """Modules for multi-token prediction."""
    count = keys.whole(key, 0)
    if count:
        keys.notes.append(f"{key} {count}: trained together with the head (model.mtp; 0 leaves it out), left out in "
                          "inference")
    return count


def deepseek(keys: Keys, **router: Any) -> Fields:
    """Multi-head latent attention and experts."""
    keys.only("attention_bias", False)
    keys.only("moe_layer_freq", 1)
    mla = Latent(q_rank=keys.maybe("q_lora_rank"), kv_rank=keys.whole("kv_lora_rank"),
                 nope_size=keys.whole("qk_nope_head_dim"), rope_size=keys.whole("qk_rope_head_dim"),
                 v_size=keys.whole("v_head_dim"))
    moe = Experts(experts=keys.whole("n_routed_experts"), top_k=keys.whole("num_experts_per_tok"),
                  expert_ffn=keys.whole("moe_intermediate_size"), shared_experts=keys.whole("n_shared_experts"),
                  dense_layers=keys.whole("first_k_dense_replace"), **router)
    return {**common(keys), "mla": mla, "moe": moe, "mtp": prediction(keys)}


def _deepseek_v2(keys: Keys) -> Fields:
    keys.only("scoring_func", "softmax")
    return deepseek(keys)


def _deepseek_v3(keys: Keys) -> Fields:
    keys.only("scoring_func", "sigmoid")
    keys.only("topk_method", "noaux_tc")
    return deepseek(keys, router="sigmoid", router_bias=True)


def _gpt2(keys: Keys) -> Fields:
    keys.only("add_cross_attention", False)
    width = keys.whole("n_embd")
    return {"layers": keys.whole("n_layer"), "d_model": width, "heads": keys.whole("n_head"),
            "ffn": keys.maybe("n_inner") or 4 * width, "activation": keys.activation("activation_function", "gelu_new"),
            "vocab": keys.whole("vocab_size"), "tied_embeddings": keys.flag("tie_word_embeddings", True), "seq": None,
            "max_positions": keys.reach("n_positions"), "positions": "learned", "norm": "layer", "gated": False,
            "biases": ALL}


def _gpt_neox(keys: Keys) -> Fields:
    attention = ATTENTION if keys.flag("attention_bias", True) else ()
    return {**common(keys), "activation": keys.activation("hidden_act", "gelu"), "norm": "layer", "gated": False,
            "biases": (*attention, "mlp"), "parallel": keys.flag("use_parallel_residual", True)}


def _opt(keys: Keys) -> Fields:
    """Its position table has two rows more than there are positions."""
    width = keys.whole("hidden_size")
    keys.only("do_layer_norm_before", True)
    keys.only("enable_bias", True)
    keys.only("layer_norm_elementwise_affine", True)
    keys.only("_remove_final_layer_norm", False)
    keys.only("word_embed_proj_dim", width, None)
    positions = keys.reach("max_position_embeddings")
    return {"layers": keys.whole("num_hidden_layers"), "d_model": width, "heads": keys.whole("num_attention_heads"),
            "ffn": keys.whole("ffn_dim"), "activation": keys.activation("activation_function", "relu"),
            "vocab": keys.whole("vocab_size"), "tied_embeddings": keys.flag("tie_word_embeddings", True), "seq": None,
            "positions": "learned", "max_positions": positions + 2, "norm": "layer", "gated": False, "biases": ALL}


def _bloom(keys: Keys) -> Fields:
    keys.only("apply_residual_connection_post_layernorm", False)
    width = keys.whole("hidden_size" if keys.has("hidden_size") else "n_embed")
    heads = keys.whole("num_attention_heads" if keys.has("num_attention_heads") else "n_head")
    layers = keys.whole("num_hidden_layers" if keys.has("num_hidden_layers") else "n_layer")
    keys.reach("seq_length", 2048)
    return {"layers": layers, "d_model": width, "heads": heads, "ffn": 4 * width, "activation": "gelu",
            "vocab": keys.whole("vocab_size"), "tied_embeddings": keys.flag("tie_word_embeddings", True), "seq": None,
            "positions": "alibi", "norm": "layer", "gated": False, "biases": ALL, "embedding_norm": True}


DECODERS: Readers = MappingProxyType({
    "llama": _llama, "mistral": _mistral, "mixtral": _mixtral, "phi3": _phi3, "gemma": _gemma, "qwen2": _qwen2,
    "qwen3": _qwen3, "qwen3_moe": _qwen3_moe, "qwen3_vl_text": _qwen3, "qwen3_vl_moe_text": _qwen3_moe, "mimo": _mimo,
    "deepseek_v2": _deepseek_v2, "deepseek_v3": _deepseek_v3, "gpt2": _gpt2,
    "gpt_neox": _gpt_neox, "opt": _opt, "bloom": _bloom,
})
