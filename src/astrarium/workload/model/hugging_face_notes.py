"""Notes of an import of a config.json: assumptions, and keys that were not read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from astrarium.workload.model.hugging_face_keys import Keys

__all__ = ["notes_of", "unread"]

# Keys that change no size and no count of operations: names, tokens, rates, initialisation, angles, routing's details.
SILENT = re.compile(
    r"_.*|architectures|auto_map|model_type|(torch_)?dtype|transformers_version|.*_token_ids?|.*_token(_id|_index)?|.*_tokens_per_image|.*dropout.*|"
    r".*_pdrop|.*eps(ilon)?|.*theta|rope_.*|.*initializer.*|init.*|.*_std|.*_coef|aux_loss.*|seq_aux|output_.*|"
    r"return_dict.*|use_cache|is_encoder_decoder|norm_topk_prob|routed_scaling_factor|n_group|topk_group|topk_method|"
    r"scoring_func|router_jitter_noise|ep_size|pretraining_tp|summary_.*|task_specific_params|id2label|label2id|"
    r"finetuning_task|problem_type|chunk_size_feed_forward|tokenizer_class|max_window_layers|initial_context_length|"
    r"attn_.*|floor_scale|swiglu_.*|experts_per_token|qk_head_dim|head_dim|num_key_value_heads|"
    r"for_llm_compressor|.*layernorm_(alpha|beta)_value|.*_softcap(ping)?|query_pre_attn_scalar|use_routing_bias|"
    r"tie_word_embeddings|quantization_config|partial_rotary_factor|rotary_dim|"
    r"slow_but_exact|apply_residual_connection_post_layernorm|"
    r"unk_index|hidden_bias|offset_alibi|masked_softmax_fusion|attention_softmax_in_fp32|scale_attn_.*|reorder_and.*|"
    r"gradient_checkpointing|classifier.*|pooler.*|mask_.*|apply_spec_augment|begin_suppress.*|suppress.*|forced_.*|"
    r"encoder_layerdrop|decoder_layerdrop|scale_embedding|n_ctx|prefix|do_sample|early_stopping|length_penalty|"
    r"max_length|num_beams|no_repeat_ngram_size|relative_attention_max_distance|is_gated_act|dense_act_fn")


def notes_of(keys: Keys) -> tuple[str, ...]:
    """Every note of an import, after `keys` were read."""
    notes = list(dict.fromkeys(keys.notes))
    if keys.assumed:
        stated = ", ".join(f"{key} {value}" for key, value in keys.assumed.items())
        notes.append(f"not in the file, so as its class has it: {stated}")
    return (*notes, *unread(keys))


def unread(keys: Keys) -> tuple[str, ...]:
    """Features that are left to the run or left out, and keys that were not read."""
    notes = [text for key, say in _FEATURES.items() if _on(keys.plain.get(key)) for text in say(keys.plain[key])]
    left = [key for key, value in keys.plain.items()
            if key not in keys.seen and key not in _FEATURES and _on(value) and not SILENT.fullmatch(key)]
    if left:
        notes.append(f"keys that are not read: {', '.join(key[:60] for key in left[:20])}"
                     + (f" and {len(left) - 20} more" if len(left) > 20 else ""))
    return tuple(notes)


def _on(value: Any) -> bool:
    """Whether a key says anything."""
    return value is not None and value is not False and value != 0 and value not in ([], {}, "")


def _towers(what: str) -> Callable[[Any], Iterator[str]]:
    def say(value: Any) -> Iterator[str]:
        del value
        yield f"the {what} is left out: the language model alone is imported"

    return say


_FEATURES: Mapping[str, Callable[[Any], Iterator[str]]] = MappingProxyType({
    "vision_config": _towers("vision tower (vision_config)"),
    "audio_config": _towers("audio tower (audio_config)")})
