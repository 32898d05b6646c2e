"""Megatron core's names of formats, fusions and overlaps, as fields of a Transformer."""

from __future__ import annotations

from typing import Any

from astrarium.planner.launch.given import Given
from astrarium.planner.launch.known import is_off

__all__ = ["core_settings"]

FORMATS = {"fp32": "fp32", "torch.float32": "fp32", "bf16": "bf16", "torch.bfloat16": "bf16", "fp16": "fp16",
           "torch.float16": "fp16", "fp8": "fp8", "torch.uint8": "fp8"}


def core_settings(given: Given) -> dict[str, Any]:
    """Fields of a Transformer that the arguments say."""
    comm = given.choice("cp_comm_type", {"p2p": "ring", "all_gather": "gather", "allgather": "gather",
                                         "['p2p']": "ring", "['all_gather']": "gather"}, "p2p")
    found: dict[str, Any] = {
        "precision": _precision(given), "attention": "unfused" if _unfused(given) else "flash",
        "dropout": max(given.real("hidden_dropout", 0.1), given.real("attention_dropout", 0.1)) > 0,
        "overlap": given.flag("overlap_grad_reduce"), "cp_attention": comm,
        "vocab_multiple": given.whole("make_vocab_size_divisible_by", 128)}
    if given.flag("cross_entropy_loss_fusion"):
        found["cross_entropy"] = "fused"
    if given.flag("no_gradient_accumulation_fusion"):
        found["software"] = {"accumulation": "separate"}
    bucket = given.number("ddp_bucket_size", given.number("bucket_size"))
    if bucket is not None:
        found["bucket"] = f"{bucket * (2 if found['precision']['gradients'] == 'bf16' else 4)} B"
    if given.choice("optimizer", {"adam": "adam", "sgd": "sgd"}, "adam") == "sgd":
        found["optimizer"] = "sgd"
    if given.flag("no_scatter_gather_tensors_in_pipeline"):
        found["scatter_gather"] = False
    return found


def _unfused(given: Given) -> bool:
    """Attention by several kernels: as the backend says, or the local implementation without flash attention."""
    flash = given.flags("use_flash_attn", "use_flash_attention")
    backend = given.choice("attention_backend", {
        "auto": None, "flash": False, "fused": False, "unfused": True, "local": True, "attnbackend.auto": None,
        "attnbackend.flash": False, "attnbackend.fused": False, "attnbackend.unfused": True,
        "attnbackend.local": True}, "auto")
    local = str(given.raw("transformer_impl")).lower() == "local"
    return bool(local and not flash if backend is None else backend)


def _fsdp(given: Given) -> dict[str, Any]:
    """Formats that Megatron-FSDP says."""
    names = {"megatron_fsdp_main_params_dtype": "master", "megatron_fsdp_main_grads_dtype": "gradients",
             "megatron_fsdp_grad_comm_dtype": "reduction"}
    found = {part: given.choice(name, {**FORMATS, "auto": None, "none": None}, "none") for name, part in names.items()}
    return {part: kind for part, kind in found.items() if kind is not None}


def _precision(given: Given) -> dict[str, Any]:
    """Formats; what the precision-aware optimizer keeps where it is on."""
    half = "fp16" if given.flag("fp16") else "bf16"
    if not given.flag("bf16") and half == "bf16":
        given.assumed.append("bf16 (neither bf16 nor fp16 is said)")
    summed = given.flag("accumulate_allreduce_grads_in_fp32", half == "bf16")
    reduced = given.flag("grad_reduce_in_bf16") or not summed
    found: dict[str, Any] = {"weights": half, "activations": half, "gradients": half if reduced else "fp32"}
    said = [given.raw(name) for name in ("fp8_format", "fp8", "fp8_hybrid", "fp8_e4m3")]
    narrow = [given.raw(name) for name in ("fp4_format", "fp4")]
    if not all(is_off(each) for each in (*said, *narrow)):
        found["products"] = "fp8" if all(is_off(each) for each in narrow) else "fp4"
    found |= _fsdp(given)
    main, first, second, _ = (given.choice(name, FORMATS, "fp32") for name in
                              ("main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype", "main_grads_dtype"))
    shared = given.flag("store_param_remainders", True)
    if not given.flag("use_precision_aware_optimizer"):
        return found
    if first != second:
        raise given.fault("exp_avg_sq_dtype", f"{second}, and exp_avg_dtype is {first}, is not predicted",
                          "both moments in one format")
    if main == "fp32" and half == "bf16" and shared:       # the half that bf16 weights have is not kept twice
        given.assumed.append("of the fp32 copy of weights, the 16 bits that bf16 weights lack are kept "
                             "(use_precision_aware_optimizer)")
        main = "bf16"
    return {**found, "master": main, "moments": first}
