"""Megatron-LM's arguments, read and written.

Names and meanings: NVIDIA/Megatron-LM at d98e8a64 (2026-08-22): megatron/training/arguments.py (`validate_args`:
data_parallel_size = world_size / (tp * pp * cp); global_batch_size left out is micro_batch_size * data_parallel_size;
sequence_parallel is off where tp is 1; virtual stages from num_layers_per_virtual_pipeline_stage or
num_virtual_stages_per_pipeline_rank, the ends counted under account_for_*_in_pipeline_split),
megatron/core/model_parallel_config.py, megatron/core/transformer/transformer_config.py (recompute_*, moe_*),
megatron/training/config/{training,common}_config.py (use_megatron_fsdp, use_torch_fsdp2, vocab_size).
"""

from __future__ import annotations

import re
from typing import Any

from astrarium.planner.launch.given import Given, Launch
from astrarium.planner.launch.words import arguments_of

__all__ = ["HARMLESS", "read_megatron"]

HARMLESS = re.compile(
    r"(lr|min_lr|weight_decay|adam|sgd|clip_grad|init_method|seed|data|train|valid|test|eval|save|load|log|tensorboard|wandb|"
    r"timing|tokenizer|merge|split|mmap|num_workers|exit|distributed|ckpt|dist_ckpt|finetune|no_(load|save|initial)|"
    r"async_save|rdzv|nnodes|node_rank|nproc|master|tee|log_dir|max_restarts|standalone|mock_data|override|use_checkpoint|"
    r"dataloader|reset|eod|manual_gc|profile|start_weight|end_weight|norm_epsilon|layernorm_epsilon|loss_scale|"
    r"initial_loss_scale|hysteresis|attention_softmax_in_fp32|no_create|create_attention|retro|app_tag|one_logger|"
    r"enable_one|check_for|no_check|disable_msc|use_mcore|transformer_impl|no_mmap|rotary|use_rotary|rope|"
    r"use_rope|no_position|moe_(router_(load|score|pre|dtype|bias|enable|group|num|topk_scaling)|aux|z_loss|token_|grouped|"
    r"permute|per_layer)|max_position|skip|rerun|result|iterations|consumed|decay|warmup|perform|deterministic|"
    r"no_(masked|bias|rope|persist|gradient|rdc|async)|nccl_communicator|high_priority|config|te_|rng|inference|"
    r"ddp_average|ddp_pad|use_dist_ckpt|vocab_file|non_persistent|ampere|throughput)\w*")


def read_megatron(text: str, where: str) -> Launch:
    """A job from Megatron-LM's (or a script's) arguments. Raises InputError for what matters and is not predicted."""
    given = Given(where, arguments_of(text, where), HARMLESS)
    if not given.has("micro_batch_size") and not given.has("tensor_model_parallel_size"):
        raise given.fault("arguments", "no --micro-batch-size and no --tensor-model-parallel-size among them",
                          "Megatron-LM's launch arguments")
    return launch_of(given, "megatron-lm", _npus(given))


def _npus(given: Given) -> int | None:
    """torchrun's --nnodes times --nproc-per-node, where both are numbers."""
    nodes, each = given.raw("nnodes"), given.raw("nproc_per_node")
    if str(nodes).isdecimal() and str(each).isdecimal() and len(str(nodes)) < 7 and len(str(each)) < 5:
        return int(str(nodes)) * int(str(each))
    return None


def launch_of(given: Given, framework: str, npus: int | None) -> Launch:
    """The job that Megatron core's names say."""
    tp, pp = given.whole("tensor_model_parallel_size", 1), given.whole("pipeline_model_parallel_size", 1)
    experts = given.number("num_experts", given.number("num_moe_experts"))
    _refused(given, tp, experts)
    layers = given.number("num_layers")
    stages, virtual = _stages(given, layers, pp)
    micro = given.whole("micro_batch_size", 1)
    layout = {
        "tp": tp, "pp": pp, "cp": given.whole("context_parallel_size", 1), "zero": _zero(given),
        "ep": given.whole("expert_model_parallel_size", 1), "micro_batch": micro,
        "recompute": _recompute(given, layers, pp * virtual), "virtual_stages": virtual,
        "tp_sequence": given.flag("sequence_parallel") and tp > 1}
    model = _model(given, layers, experts, framework == "megatron-lm")
    settings = _settings(given)
    seq = given.number("seq_length", given.number("encoder_seq_length"))
    batch = given.number("global_batch_size")
    instances = given.whole("num_distributed_optimizer_instances", 1)
    assumed, ignored = given.rest()
    return Launch(framework, layout, model, None, seq, batch, settings, npus,
                  replica_batch=None if batch else micro, stage_layers=stages, assumed=assumed,
                  ignored=ignored, shards=None if instances == 1 else instances)


def _refused(given: Given, tp: int, experts: int | None) -> None:
    """What changes time and is not predicted."""
    given.refuse("pipeline_model_parallel_layout", (), "a layout of its own")
    given.refuse("hybrid_layer_pattern", (), "hybrid models")
    given.refuse("hybrid_override_pattern", (), "hybrid models")
    given.refuse("hierarchical_context_parallel_sizes", (), "two kinds of context parallelism at once")
    given.refuse("rampup_batch_size", (), "a batch that grows")
    given.refuse("gtp_weight_remat_size", (1,), "weights gathered over a further axis")
    given.refuse("optimizer_cpu_offload", (False,), "an optimizer on the host")
    if experts:
        given.refuse("expert_tensor_parallel_size", (tp,), "experts are divided over tp as other layers are")
    else:
        given.raw("expert_tensor_parallel_size")
    if given.flag("tp_comm_overlap"):
        given.assumed.append("tp communication is not split to overlap products (tp_comm_overlap)")
    if given.flag("overlap_moe_expert_parallel_comm"):
        given.assumed.append("ep communication does not overlap another micro-batch (overlap_moe_expert_parallel_comm)")


def _zero(given: Given) -> int:
    stages = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
    sharding = given.choice("data_parallel_sharding_strategy", stages, "optim_grads_params")
    if given.flag("use_megatron_fsdp") or given.flag("use_custom_fsdp"):
        given.raw("use_distributed_optimizer")
        return int(sharding)
    if given.flag("use_torch_fsdp2"):
        return 2 if given.flag("torch_fsdp2_no_reshard_after_forward") else 3
    return int(given.flag("use_distributed_optimizer"))


def _recompute(given: Given, layers: int | None, parts: int) -> str:
    """none, selective or full. Raises InputError for some layers of a stage only."""
    kind = given.choice("recompute_granularity", {"": "none", "none": "none", "null": "none", "selective": "selective",
                                                  "full": "full"}, "none")
    if given.flag("recompute_activations") and kind == "none":
        kind = "selective"
    modules = given.raw("recompute_modules")
    if kind == "selective" and modules not in (None, "core_attn", ["core_attn"]):
        given.assumed.append("selective recomputation is that of attention's core (recompute_modules)")
    method, count = given.raw("recompute_method"), given.number("recompute_num_layers")
    if kind == "full" and method == "block" and layers and count is not None and count * parts < layers:
        raise given.fault("recompute_num_layers", f"{count} of {layers // parts} layers of a stage are computed again",
                          "all of them, or recompute_granularity selective or none")
    if kind == "full" and method == "uniform" and (count or 1) > 1:
        given.assumed.append(f"every layer's input is kept, not every {count}th (recompute_num_layers)")
    return str(kind)


def _stages(given: Given, layers: int | None, pp: int) -> tuple[tuple[int, ...] | None, int]:
    """(layers of every part where the stages are not equal, parts of a stage)."""
    ends = given.flag("account_for_embedding_in_pipeline_split"), given.flag("account_for_loss_in_pipeline_split")
    first = given.number("decoder_first_pipeline_num_layers", given.number("num_layers_in_first_pipeline_stage"), 0)
    last = given.number("decoder_last_pipeline_num_layers", given.number("num_layers_in_last_pipeline_stage"), 0)
    each = given.number("num_layers_per_virtual_pipeline_stage")
    virtual = given.number("num_virtual_stages_per_pipeline_rank", given.number("virtual_pipeline_model_parallel_size"))
    if each is not None and layers is None:
        raise given.fault("num_layers_per_virtual_pipeline_stage", "means nothing without num_layers")
    whole = (layers or 0) + sum(ends)
    if each is not None:
        if whole % (pp * each):
            raise given.fault("num_layers_per_virtual_pipeline_stage", f"{each} times {pp} does not divide {whole}")
        virtual = whole // pp // each
    parts = pp * (virtual or 1)
    if (first is None and last is None and not any(ends)) or layers is None or pp == 1:
        return None, virtual or 1
    if virtual and (first is not None or last is not None):
        raise given.fault("decoder_first_pipeline_num_layers", "beside virtual stages is not predicted", "one of them")
    if any(ends):
        if whole % parts:
            raise given.fault("account_for_embedding_in_pipeline_split", f"{parts} parts do not divide {whole}")
        counts = [whole // parts] * parts
        counts[0] -= ends[0]
        counts[-1] -= ends[1]
        return tuple(counts), virtual or 1
    middle = layers - (first or 0) - (last or 0)
    between = pp - (first is not None) - (last is not None)
    if between < 0 or (between and middle % between) or (not between and middle):
        raise given.fault("decoder_first_pipeline_num_layers", f"leaves {middle} layers for {between} stages")
    counts = [*([first] if first is not None else []), *[middle // max(1, between)] * between,
              *([last] if last is not None else [])]
    return tuple(counts), 1


def _settings(given: Given) -> dict[str, Any]:
    """Fields of a Transformer that the arguments say."""
    half = "fp16" if given.flag("fp16") else "bf16"
    given.raw("bf16")
    reduced = given.flag("grad_reduce_in_bf16") or not given.flag("accumulate_allreduce_grads_in_fp32", half == "bf16")
    dropout = given.real("hidden_dropout", 0.1) > 0 or given.real("attention_dropout", 0.1) > 0
    unfused = given.choice("attention_backend", {"auto": False, "flash": False, "fused": False, "unfused": True,
                                                 "local": True}, "auto")
    given.raw("use_flash_attn")
    comm = given.raw("cp_comm_type")
    comm = comm if comm is not None else "p2p"
    if comm not in ("p2p", "all_gather", "allgather"):
        raise given.fault("cp_comm_type", f"{str(comm)[:60]!r} is not predicted", "one of p2p, all_gather")
    bucket = given.number("ddp_bucket_size")
    fp8 = given.raw("fp8_format") or given.raw("fp8")
    found: dict[str, Any] = {
        "precision": {"weights": half, "activations": half, "gradients": half if reduced else "fp32"},
        "dropout": dropout, "attention": "unfused" if unfused else "flash",
        "overlap": given.flag("overlap_grad_reduce"), "cp_attention": "ring" if comm == "p2p" else "gather",
        "vocab_multiple": given.whole("make_vocab_size_divisible_by", 128)}
    if fp8 not in (None, False):
        found["precision"]["products"] = "fp8"
    if bucket is not None:
        found["bucket"] = f"{bucket * (2 if reduced else 4)} B"
    given.choice("optimizer", {"adam": "adam", "sgd": "sgd"}, "adam")
    if given.raw("optimizer") == "sgd":
        found["optimizer"] = "sgd"
    if given.flag("overlap_param_gather"):
        given.assumed.append("weights are gathered behind the optimizer's step, not during the next forward pass "
                             "(overlap_param_gather)")
    given.raw("no_scatter_gather_tensors_in_pipeline")
    return found


def _model(given: Given, layers: int | None, experts: int | None, switched: bool) -> dict[str, Any] | None:
    """Fields of a Decoder; None where sizes are left out, or are not all of it (latent attention, some layers without
    experts). `switched`: num_query_groups counts only under
    group_query_attention."""
    width, heads = given.number("hidden_size"), given.number("num_attention_heads")
    vocab = given.number("padded_vocab_size", given.number("vocab_size"))
    gated = given.flag("swiglu")
    ffn = given.number("ffn_hidden_size")
    groups = given.number("num_query_groups")
    groups = groups if given.flag("group_query_attention", not switched) else None
    head, tied = given.number("kv_channels"), not given.flag("untie_embeddings_and_output_weights")
    rms = str(given.raw("normalization") or "LayerNorm").lower() == "rmsnorm"
    plain = given.flag("disable_bias_linear")
    given.raw("add_qkv_bias")
    position = given.raw("position_embedding_type")
    positions = {"rope": "rotary", "learned_absolute": "learned", "none": "none", None: "learned"}.get(position)
    longest = given.number("max_position_embeddings")
    topk, inner = given.whole("moe_router_topk", 2), given.number("moe_ffn_hidden_size")
    shared = given.number("moe_shared_expert_intermediate_size", 0, 0)
    latent, often = given.flag("multi_latent_attention"), given.raw("moe_layer_freq")
    if layers is None or width is None or heads is None or vocab is None or latent or often not in (None, 1, "1"):
        return None
    if positions is None:
        raise given.fault("position_embedding_type", f"{str(position)[:60]!r} is not predicted",
                          "one of rope, learned_absolute, none")
    found: dict[str, Any] = {
        "layers": layers, "d_model": width, "heads": heads, "vocab": vocab, "gated": gated, "tied_embeddings": tied,
        "ffn": ffn or (int(4 * width * 2 / 3 / 64) * 64 if gated else 4 * width),
        "norm": "rms" if rms else "layer", "activation": "silu" if gated else "gelu", "positions": positions,
        "biases": [] if plain else ["qkv", "out", "mlp"]}
    found |= {"kv_heads": groups} if groups is not None else {}
    found |= {"head_size": head} if head is not None and head * heads != width else {}
    found |= {"max_positions": longest} if positions == "learned" else {}
    if experts:
        each = inner or found["ffn"]
        if shared and shared % each:
            raise given.fault("moe_shared_expert_intermediate_size", f"{shared} is no multiple of an expert's {each}")
        found["moe"] = {"experts": experts, "top_k": topk, "expert_ffn": each, "shared_experts": (shared or 0) // each}
    return found
