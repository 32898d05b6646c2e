"""Small configurations of every architecture (made up), and the blocks of the catalog's models."""

from __future__ import annotations

from typing import Any

from astrarium import catalog
from astrarium.config import decode
from astrarium.workload.graph import ModelPieces, Options
from astrarium.workload.model.base import Model
from astrarium.workload.model.stacks import model_pieces

__all__ = ["HEADS", "SAMPLES", "flops", "pieces", "rival", "row", "sample"]

_TRUNK = {"num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 8, "intermediate_size": 160,
          "vocab_size": 1000, "max_position_embeddings": 128}
_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 48}
_DEEPSEEK = {**_TRUNK, **_EXPERTS, "n_routed_experts": 8, "n_shared_experts": 2, "first_k_dense_replace": 1,
             "kv_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12, "moe_layer_freq": 1,
             "num_key_value_heads": 8}

_HYBRID = {"num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 16, "linear_num_key_heads": 2,
           "linear_key_head_dim": 16, "linear_num_value_heads": 4, "linear_value_head_dim": 24}
_SPARSE = {"index_n_heads": 4, "index_head_dim": 16, "index_topk": 32, "pad_token_id": 0, "n_group": 2, "topk_group": 1}

SAMPLES: dict[str, dict[str, Any]] = {
    "llama": {**_TRUNK, "num_key_value_heads": 2, "head_dim": 16, "attention_bias": True, "mlp_bias": True},
    "mistral": {**_TRUNK, "num_key_value_heads": 4, "sliding_window": 32},
    "mixtral": {**_TRUNK, "num_key_value_heads": 4, "num_local_experts": 4, "num_experts_per_tok": 2},
    "phi3": {**_TRUNK, "num_key_value_heads": 4, "sliding_window": 64, "pad_token_id": 0},
    "gemma": {**_TRUNK, "num_key_value_heads": 1, "head_dim": 32, "hidden_act": "gelu"},
    "qwen2": {**_TRUNK, "num_key_value_heads": 2, "sliding_window": 4096, "use_sliding_window": False},
    "qwen3": {**_TRUNK, "num_key_value_heads": 2, "head_dim": 32, "tie_word_embeddings": True},
    "qwen3_moe": {**_TRUNK, **_EXPERTS, "num_key_value_heads": 2, "head_dim": 32, "num_experts": 8,
                  "decoder_sparse_step": 2, "mlp_only_layers": []},
    "deepseek_v2": {**_DEEPSEEK, "q_lora_rank": None},
    "deepseek_v3": {**_DEEPSEEK, "q_lora_rank": 40, "scoring_func": "sigmoid", "topk_method": "noaux_tc", "n_group": 2,
                    "topk_group": 1, "num_nextn_predict_layers": 1},
    "kimi_k2": {**_DEEPSEEK, "q_lora_rank": 40, "scoring_func": "sigmoid"},
    "gpt_oss": {**_TRUNK, "num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 8, "num_experts_per_tok": 2,
                "sliding_window": 32, "attention_bias": True, "num_hidden_layers": 4, "pad_token_id": 0},
    "llama4_text": {**_TRUNK, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size_mlp": 96,
                    "num_local_experts": 8, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2,
                    "attention_chunk_size": 64, "num_hidden_layers": 4, "use_qk_norm": True, "pad_token_id": 0},
    "qwen3_next": {**_TRUNK, **_HYBRID, **_EXPERTS, "num_experts": 8, "shared_expert_intermediate_size": 48},
    "qwen3_5_text": {**_TRUNK, **_HYBRID},
    "qwen3_5_moe_text": {**{key: value for key, value in _TRUNK.items() if key != "intermediate_size"}, **_HYBRID,
                         **_EXPERTS, "num_experts": 8, "shared_expert_intermediate_size": 48},
    "minimax_m2": {**_TRUNK, "num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 8,
                   "num_experts_per_tok": 2, "rotary_dim": 8, "pad_token_id": 0},
    "glm4_moe": {**_TRUNK, **_EXPERTS, "num_key_value_heads": 2, "head_dim": 16, "n_routed_experts": 8,
                 "n_shared_experts": 1, "first_k_dense_replace": 1, "attention_bias": True, "use_qk_norm": True},
    "deepseek_v32": {**_DEEPSEEK, **_SPARSE, "q_lora_rank": 40},
    "glm_moe_dsa": {**_DEEPSEEK, **_SPARSE, "q_lora_rank": 40},
    "mimo": {**_TRUNK, "num_key_value_heads": 2, "head_dim": 8, "attention_bias": True, "num_nextn_predict_layers": 1},
    "nemotron_h": {**_TRUNK, "num_key_value_heads": 2, "head_dim": 16,
                   "layers_block_type": ["mamba", "moe", "attention"],
                   "mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 32, "n_groups": 2, "conv_kernel": 4,
                   "chunk_size": 16, "mlp_hidden_act": "relu2", "n_routed_experts": 8, "num_experts_per_tok": 2,
                   "moe_intermediate_size": 48, "moe_shared_expert_intermediate_size": 96, "n_shared_experts": 1,
                   "moe_latent_size": 24, "pad_token_id": 0},
    "nemotron-nas": {**{key: value for key, value in _TRUNK.items() if key != "intermediate_size"}, "block_configs": [
        {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 2.0}}, {"attention": {"no_op": True},
         "ffn": {"ffn_mult": 1.0}}, {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 2.0}}],
        "hidden_size": 192},
    "mimo_v2_flash": {**_TRUNK, "num_key_value_heads": 2, "swa_num_key_value_heads": 4, "head_dim": 16, "v_head_dim": 8,
                      "swa_head_dim": 16, "swa_v_head_dim": 8, "swa_num_attention_heads": 8, "sliding_window": 32,
                      "hybrid_layer_pattern": [0, 1, 1], "moe_layer_freq": [0, 1, 1], "n_routed_experts": 8, **_EXPERTS,
                      "add_swa_attention_sink_bias": True, "add_full_attention_sink_bias": False},
    "step3p7": {**_TRUNK, "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 32, "first_k_dense_replace": 1,
                "layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "num_experts": 8,
                **_EXPERTS, "share_expert_dim": 48, "n_shared_experts": 1, "scoring_func": "sigmoid",
                "use_moe_router_bias": True},
    "gemma4_text": {**_TRUNK, "num_key_value_heads": 4, "head_dim": 16, "global_head_dim": 32, "sliding_window": 32,
                    "num_global_key_value_heads": 2, "attention_k_eq_v": True, "hidden_activation": "gelu_pytorch_tanh",
                    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"], "num_experts": 8,
                    "enable_moe_block": True, "top_k_experts": 2, "moe_intermediate_size": 48, "pad_token_id": 0,
                    "hidden_size_per_layer_input": 0},
    "minimax_m3": {**_TRUNK, "num_key_value_heads": 2, "head_dim": 16, "rotary_dim": 8, "hidden_act": "swigluoai",
                   "intermediate_size": 48, "dense_intermediate_size": 160, "shared_intermediate_size": 48,
                   "num_local_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "use_routing_bias": True,
                   "moe_layer_freq": [0, 1, 1], "sparse_attention_config": {
                       "sparse_attention_freq": [0, 1, 1], "sparse_num_index_heads": 2, "sparse_index_dim": 24,
                       "sparse_block_size": 8, "sparse_topk_blocks": 4, "sparse_local_block": 1}},
    "deepseek_v4": {**{key: value for key, value in _TRUNK.items() if key != "intermediate_size"}, **_EXPERTS,
                    "num_key_value_heads": 1, "head_dim": 16, "qk_rope_head_dim": 8, "compress_ratios": [0, 4, 128, 4],
                    "sliding_window": 32, "q_lora_rank": 40, "o_groups": 4, "o_lora_rank": 24, "index_n_heads": 4,
                    "index_head_dim": 12, "index_topk": 8, "n_routed_experts": 8, "n_shared_experts": 1, "hc_mult": 4,
                    "scoring_func": "sqrtsoftplus", "num_hash_layers": 1},
    "gpt2": {"n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 96, "vocab_size": 1000},
    "gpt_neox": {**_TRUNK, "hidden_act": "gelu", "use_parallel_residual": True},
    "opt": {**_TRUNK, "ffn_dim": 192, "word_embed_proj_dim": 64, "do_layer_norm_before": True},
    "bloom": {"n_layer": 2, "hidden_size": 64, "n_head": 8, "vocab_size": 1000},
    "mamba2": {"num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 1000, "num_heads": 8, "head_dim": 16,
               "state_size": 32, "n_groups": 2, "tie_word_embeddings": True},
    "bert": {**_TRUNK, "type_vocab_size": 2, "architectures": ["BertForPreTraining"]},
    "vit": {**_TRUNK, "image_size": 64, "patch_size": 16, "architectures": ["ViTForImageClassification"],
            "id2label": {str(index): f"class {index}" for index in range(10)}},
    "t5": {"d_model": 64, "d_kv": 24, "d_ff": 160, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4,
           "vocab_size": 1000, "feed_forward_proj": "gated-gelu",
           "n_positions": 48},
    "whisper": {"d_model": 64, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
                "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": 1000,
                "num_mel_bins": 20, "max_source_positions": 160, "max_target_positions": 44, "pad_token_id": 0},
}

SAMPLES |= {"deepseek_ref": SAMPLES["deepseek_v4"]}
SAMPLES |= {"qwen3_vl_text": SAMPLES["qwen3"], "qwen3_vl_moe_text": SAMPLES["qwen3_moe"]}
for _text, _whole in (("llama4_text", "llama4"), ("qwen3_vl_text", "qwen3_vl"), ("qwen3_vl_moe_text", "qwen3_vl_moe"),
                      ("qwen3_5_text", "qwen3_5"), ("qwen3_5_moe_text", "qwen3_5_moe"), ("kimi_k2", "kimi_k25"),
                      ("gemma4_text", "gemma4"), ("minimax_m3", "minimax_m3_vl")):
    SAMPLES[_whole] = {"text_config": {"model_type": _text, **SAMPLES[_text]}, "vision_config": {"depth": 2}}

HEADS = {"bert": "BertForPreTraining", "vit": "ViTForImageClassification", "t5": "T5ForConditionalGeneration",
          "whisper": "WhisperForConditionalGeneration"}


def rival(kind: str) -> dict[str, Any]:
    """What transformers builds for a sample: a language model alone, and DeepSeek-V3 for Kimi K2."""
    plain = sample(kind)
    plain = plain.get("text_config", plain)
    if plain["model_type"] == "kimi_k2":
        plain = {**plain, "model_type": "deepseek_v3", "n_group": 2, "topk_group": 1}
    if plain["model_type"] == "mimo":
        plain = {**plain, "model_type": "qwen2"}
    return plain


def sample(kind: str, **changes: Any) -> dict[str, Any]:
    return {"model_type": kind, **SAMPLES[kind], **changes}


def row(name: str) -> Any:
    """A model of the catalog."""
    return decode(Model, catalog.load("models")[name]["model"])


def pieces(model: Any, batch: int = 1, **options: Any) -> ModelPieces:
    """Its blocks on one rank; without options one rank alone, attention unfused."""
    options = {"attention": "unfused", "uneven": "fractional", **options}
    seq = options.pop("seq", model.seq or 2048)
    return model_pieces(model, Options(options.pop("degrees", {}), batch, seq, **options))


def flops(found: ModelPieces, *sides: str) -> float:
    """FLOPs of GEMM class of all blocks' passes."""
    return sum((step.gemm for number in (*found.first, *found.layers, *found.last)
                for side in sides for step in getattr(found.blocks[number], side).steps), 0.0)
