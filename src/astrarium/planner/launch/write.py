"""A layout as launch arguments: of Megatron-LM, or of NeMo 1.

Names as in `megatron` and `nemo`; read again, they give the same layout.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from astrarium.config.yamlfile import to_yaml
from astrarium.errors import InputError
from astrarium.planner.job import Job
from astrarium.planner.launch.stage_layout import layout_text
from astrarium.planner.layout import Layout
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.experts import Experts
from astrarium.workload.training import even_parts

__all__ = ["WRITERS", "launch_arguments"]

SHARDING = {2: "optim_grads", 3: "optim_grads_params"}


def launch_arguments(framework: str, job: Job, layout: Layout) -> str:
    """Text for a framework of WRITERS. Raises InputError for another one, or for what it cannot run."""
    if framework not in WRITERS:
        raise InputError("launch", f"{framework[:60]!r} is not known", expected="one of " + ", ".join(WRITERS))
    return WRITERS[framework](job, layout)


def _core(job: Job, layout: Layout) -> dict[str, Any]:
    """Megatron core's names, without dashes; True is a switch."""
    found: dict[str, Any] = {
        "tensor_model_parallel_size": layout.tp, "pipeline_model_parallel_size": layout.pp,
        "context_parallel_size": layout.cp, "expert_model_parallel_size": layout.ep,
        "micro_batch_size": layout.micro_batch, "global_batch_size": job.global_batch, "seq_length": job.seq}
    if layout.schedule:
        raise InputError("launch", f"Megatron core has no schedule {layout.schedule}", expected="a line with 1F1B")
    found |= {"sequence_parallel": True} if layout.tp_sequence else {}
    if job.with_ends(layout.parts):
        found |= {"account_for_embedding_in_pipeline_split": True, "account_for_loss_in_pipeline_split": True}
    if layout.recompute == "full":
        found |= {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
    elif layout.recompute == "selective":
        found |= {"recompute_granularity": "selective"}
    elif layout.recompute == "operators":
        raise InputError("launch", "Megatron core checkpoints no single operators", expected="a line with another "
                         "recompute (--fix recompute=none,selective,full)")
    model = job.base.model
    if isinstance(model, Decoder):
        found |= _model(model, job.seq)
    return found


def _model(model: Decoder, seq: int) -> dict[str, Any]:
    """Sizes of a decoder. Raises InputError for one that Megatron core's arguments do not describe."""
    if model.delta is not None or model.sparse is not None or model.parallel or model.window_kind != "sliding":
        raise InputError("launch", "Megatron core's arguments do not describe this model's attention",
                         expected="-o design.yaml")
    found: dict[str, Any] = {"num_layers": model.layers, "hidden_size": model.d_model,
                             "num_attention_heads": model.heads, "ffn_hidden_size": model.ffn,
                             "max_position_embeddings": model.max_positions or seq}
    found |= {"num_query_groups": model.kv_heads} if model.groups != model.heads and model.mla is None else {}
    found |= {"kv_channels": model.head_size} if model.head_size is not None else {}
    found |= {"qk_layernorm": True} if model.qk_norm or model.mla is not None else {}
    found |= {"mtp_num_layers": model.mtp} if model.mtp else {}
    found |= {"softmax_type": "learnable"} if model.sinks else {}
    if model.mla is not None:
        mla = model.mla
        found |= {"multi_latent_attention": True, "kv_lora_rank": mla.kv_rank, "qk_head_dim": mla.nope_size,
                  "qk_pos_emb_head_dim": mla.rope_size, "v_head_dim": mla.v_size,
                  **({} if mla.q_rank is None else {"q_lora_rank": mla.q_rank})}
    if model.window is not None:
        found |= {"window_size": f"{model.window - 1},0"}
        found |= {"window_attn_skip_freq": model.full_every} if model.full_every else {}
    return found if model.moe is None else found | _experts(model, model.moe)


def _experts(model: Decoder, moe: Experts) -> dict[str, Any]:
    """The experts of a decoder."""
    each, layers = moe.expert_ffn or model.ffn, [int(model.layer(place).moe) for place in range(model.layers)]
    found: dict[str, Any] = {"num_experts": moe.experts, "moe_router_topk": moe.top_k, "moe_ffn_hidden_size": each}
    if moe.dense_layers or moe.every > 1:
        found["moe_layer_freq"] = f"[0]*{moe.dense_layers}+[1]*{sum(layers)}" if moe.every == 1 else \
            f"[{','.join(map(str, layers))}]"
    found |= {"moe_shared_expert_intermediate_size": each * moe.shared_experts} if moe.shared_experts else {}
    found |= {"moe_shared_expert_gate": True} if moe.shared_gate else {}
    found |= {"moe_router_score_function": moe.router} if moe.router != "softmax" else {}
    found |= {"moe_router_enable_expert_bias": True} if moe.router_bias else {}
    return found | ({} if moe.capacity_factor is None else {"moe_expert_capacity_factor": moe.capacity_factor,
                                                            "moe_pad_expert_input_to_capacity": True})


def _megatron(job: Job, layout: Layout) -> str:
    found = _core(job, layout)
    model, base = job.base.model, job.base
    if not job.even(layout.parts):
        found["pipeline_model_parallel_layout"] = layout_text(
            even_parts(job.layers, layout.parts), model.mtp if isinstance(model, Decoder) else 0)
    elif layout.virtual_stages > 1:
        found["num_virtual_stages_per_pipeline_rank"] = layout.virtual_stages
    if layout.zero:
        found["use_distributed_optimizer"] = True
    if layout.zero >= 2:
        found |= {"use_megatron_fsdp": True, "data_parallel_sharding_strategy": SHARDING[layout.zero]}
    found |= {"bf16": True} if base.precision.activations == "bf16" else {"fp16": True} \
        if base.precision.activations == "fp16" else {}
    found |= {"grad_reduce_in_bf16": True} if base.precision.gradients == "bf16" else {}
    found |= {"overlap_grad_reduce": True} if base.overlap else {}
    if not base.dropout:
        found |= {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    if isinstance(model, Decoder):
        found |= {"group_query_attention": True} if "num_query_groups" in found else {}
        found |= {"swiglu": True} if model.gated else {}
        found |= {"normalization": "RMSNorm"} if model.norm == "rms" else {}
        found |= {"untie_embeddings_and_output_weights": True} if not model.tied_embeddings else {}
        found |= {"disable_bias_linear": True} if not model.biases else {}
        found |= {"position_embedding_type": "rope"} if model.positions == "rotary" else {}
        found |= {"vocab_size": model.vocab}
    text = " \\\n".join(f"--{name.replace('_', '-')}" + ("" if value is True else f" {shlex.quote(str(value))}")
                        for name, value in found.items())
    return "\n".join([text, *(f"# {line}" for line in _unsaid(job, layout))])


def _unsaid(job: Job, layout: Layout) -> Iterator[str]:
    """What a launch needs and the design does not have."""
    yield f"for {layout.ranks:,} processes; the design does not have: data, tokenizer, learning rate, rotary base"
    if isinstance(job.base.model, Decoder) and job.base.model.moe is not None:
        yield ("nor the router's groups of experts (--moe-router-num-groups, --moe-router-group-topk) and scaling "
               "factor (--moe-router-topk-scaling-factor)")


def _nemo(job: Job, layout: Layout) -> str:
    if layout.zero >= 2:
        raise InputError("launch", f"NeMo 1 shards the optimizer at most, and the layout has zero {layout.zero}",
                         expected="megatron, or a line with zero 0 or 1 (--fix zero=0,1)")
    if not job.even(layout.parts):
        raise InputError("launch", f"NeMo 1 has no {layout.parts} parts of {job.layers} layers, which are not equal",
                         expected="megatron, or a line with equal stages")
    core = _core(job, layout)
    names = {"recompute_granularity": "activations_checkpoint_granularity",
             "recompute_method": "activations_checkpoint_method",
             "recompute_num_layers": "activations_checkpoint_num_layers", "seq_length": "encoder_seq_length",
             "num_experts": "num_moe_experts"}
    model: dict[str, Any] = {names.get(name, name): value for name, value in core.items()}
    model |= {"virtual_pipeline_model_parallel_size": layout.virtual_stages} if layout.virtual_stages > 1 else {}
    found = job.base.model
    if isinstance(found, Decoder):
        model |= {"activation": "fast-swiglu" if found.gated else "gelu", "bias": bool(found.biases),
                  "normalization": "rmsnorm" if found.norm == "rms" else "layernorm", "vocab_size": found.vocab,
                  "share_embeddings_and_output_weights": found.tied_embeddings,
                  "position_embedding_type": "rope" if found.positions == "rotary" else "learned_absolute"}
    if not job.base.dropout:
        model |= {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    model["megatron_amp_O2"] = job.base.precision.weights != "fp32"
    model["optim"] = {"name": "distributed_fused_adam" if layout.zero else "fused_adam",
                      **({"grad_sync_dtype": "bf16"} if job.base.precision.gradients == "bf16" else {}),
                      **({"overlap_grad_sync": True} if job.base.overlap else {})}
    half = "16-mixed" if job.base.precision.activations == "fp16" else "bf16-mixed"
    return to_yaml({"trainer": {"num_nodes": max(1, layout.ranks // 8), "devices": min(8, layout.ranks),
                                "precision": half}, "model": model}).rstrip()


WRITERS: Mapping[str, Callable[[Job, Layout], str]] = MappingProxyType({"megatron": _megatron, "nemo": _nemo})
