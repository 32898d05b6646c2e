"""`fusion: engine`: the kernels of a layer as serving engines launch them.

Read in vLLM (MergedColumnParallelLinear fused_qkv_a_proj, fused_add_rms_norm, fused_qk_norm_rope, fused_experts),
SGLang (FusedSetKVBufferArg of its rotary embedding) and TensorRT-LLM (mla_rope_generation behind a bmm that writes into
the query): the residual is added with the norm behind it; q, k and v (of latent attention: all short vectors) are one
product; norms of heads, rotation and the write to the cache one kernel; both products of experts, their activation,
permutation and weighted sum one call.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.workload.inference.systems import design, inference

from astrarium.report.tables.show_workload import workload_rows
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.inference.replica import Replica
from astrarium.workload.pieces import BlockPieces

TOKENS = 32
STEP = Packed((Sequences(TOKENS, 1, 1500),))
ATTENTION = ["gemm", "vector", "attention", "gemm", "all_reduce"]
DENSE = ["vector", *ATTENTION, "vector", "gemm", "vector", "gemm", "all_reduce"]
EXPERTS = ["vector", *ATTENTION, "vector", "gemm", "vector", "grouped_gemm", "all_reduce"]
LATENT = ["vector", "gemm", "vector", "gemm", "gemm", "vector", "mla", "gemm", "gemm", "all_reduce"]


def engine(model: Any, **fields: Any) -> Replica:
    return replica_of(inference(model=model, prompt=64, phase="prefill", **{"fusion": "engine", **fields}))


def block(replica: Replica, name: str, step: Packed = STEP) -> BlockPieces:
    return next(each for each in replica.pieces(step).blocks if each.name == name)


def launched(found: BlockPieces) -> list[str]:
    """What is launched, in order: products and attention by their kind, other kernels as `vector`."""
    kinds = [step.op.name.lower() if step.op is not None else step.kernel.kind if step.kernel is not None else ""
             for step in found.forward.steps]
    return ["vector" if kind in ("normalisation", "pointwise", "embedding") else kind for kind in kinds]


@pytest.mark.parametrize(("model", "tp", "name", "expected"), [
    ("qwen3-32b", 4, "layer", DENSE), ("llama3-70b", 8, "layer", DENSE), ("gpt-oss-120b", 4, "expert_layer", EXPERTS),
    ("qwen3-30b-a3b", 4, "expert_layer", EXPERTS),
    ("minimax-m2", 4, "expert_layer", ["vector", "gemm", "vector", "all_reduce", *EXPERTS[2:]]),
    ("deepseek-v3", 8, "layer", [*LATENT, *DENSE[6:]]),
    ("deepseek-v3", 8, "expert_layer", [*LATENT, *EXPERTS[6:-1], "vector", "all_reduce"])])
def test_a_layer_launches_what_engines_launch(model: str, tp: int, name: str, expected: list[str]) -> None:
    found = block(engine(model, tp=tp), name)
    assert launched(found) == expected
    assert all(step.kernel.launches == 1 for step in found.forward.steps if step.kernel)


def test_eager_pytorch_launches_what_a_recorded_step_did() -> None:
    """A layer of Llama-3-8B, one weight of q, k and v and one of gate and up, without rotary positions: the kernels of
    a recorded decode step (16 sequences), where products with a divided inner length have one more."""
    layer = {"family": "decoder", "layers": 1, "d_model": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocab": 1000}
    step = Packed((Sequences(16, 1, 1024),))
    joined = block(engine({**layer, "positions": "none"}, fusion=True, operators="eager",
                          fused_weights=True), "layer", step).forward.steps
    kernels = [each.kernel for each in joined if each.kernel]
    assert [each.op or each.kind for each in kernels] == [
        "rms_norm", "gemm", "transpose_copy", "transpose_copy", "attention", "gemm", "add",
        "rms_norm", "gemm", "transpose_copy", "transpose_copy", "gemm", "add"]
    assert [each.shape for each in kernels if each.kind == "gemm"] == [
        (1, 16, 6144, 4096), (1, 16, 4096, 4096), (1, 16, 28672, 4096), (1, 16, 4096, 14336)]
    apart = block(engine(layer, fusion=True, operators="eager"), "layer", step).forward.steps
    assert sum(each.kernel is not None and each.kernel.kind == "gemm" for each in apart) == 7
    assert len(apart) == len(joined) + 3 + 2 * 7 + 1       # seven kernels a rotary position, a copy behind attention
    assert sum(each.gemm for each in apart) == sum(each.gemm for each in joined)


@pytest.mark.parametrize("model", ["qwen3-32b", "gpt-oss-120b", "deepseek-v3", "minimax-m2", "qwen3-next-80b-a3b"])
def test_fusing_changes_no_product_and_moves_less(model: str) -> None:
    step = Packed((Sequences(8, 1, 500), Sequences(1, 64), Sequences(2, 32, 128, 0)))
    found = {fusion: [each for block in engine(model, tp=2, fusion=fusion).pieces(step).blocks[1:-1]
                      for each in block.forward.steps] for fusion in (True, "engine")}
    for work in ("gemm", "flops"):
        plain, fused = (sum(getattr(each, work) for each in steps) for steps in found.values())
        assert fused == pytest.approx(plain, rel=1e-4)
    plain, fused = (sum(each.bytes for each in steps if each.kernel) for steps in found.values())
    assert fused < plain


def test_a_layer_of_experts_is_one_kernel() -> None:
    """(experts, rows, both first products' columns, d, inner length, ranks of ep, skew): what rows of tables time."""
    found = block(engine("gpt-oss-120b", tp=4), "expert_layer")
    kernel = next(step.kernel for step in found.forward.steps if step.kernel and step.kernel.kind == "grouped_gemm")
    assert kernel.shape == (128, TOKENS * 4, 2 * 2880 / 4, 2880, 2880 / 4, 1, 0)
    spread = engine("gpt-oss-120b", dp=4, ep=4, batch=4 * TOKENS, routing={"skew": 1.2})
    found = block(spread, "expert_layer")
    kernel = next(step.kernel for step in found.forward.steps if step.kernel and step.kernel.kind == "grouped_gemm")
    assert kernel.shape == pytest.approx((128 / 4, TOKENS * 4, 2 * 2880, 2880, 2880, 4, 120))    # the mean's rows


def test_shared_experts_run_beside_the_routed_ones_of_a_graph() -> None:
    """Beside prompts there is no graph, and they have kernels of their own; FLOPs are the same."""
    decoding, prompts = (Packed((Sequences(8, 1, 500), *more)) for more in ((), (Sequences(1, 64),)))
    shared = [sum("shared" in step.name.partition("+")[0] for step in block(
        engine("deepseek-v3", tp=8), "expert_layer", step).forward.steps) for step in (decoding, prompts)]
    assert shared == [0, 3]
    plain, fused = (sum(step.flops for step in block(engine("deepseek-v3", tp=8, fusion=fusion), "expert_layer",
                                                     decoding).forward.steps) for fusion in (True, "engine"))
    assert fused == pytest.approx(plain, rel=1e-4)


def test_dispatch_and_combine_permute_and_add_up() -> None:
    """DeepEP's kernels: nothing but them is between the choice of experts, the experts and the next norm."""
    found = block(engine("qwen3-30b-a3b", dp=4, ep=4, batch=4 * TOKENS), "expert_layer")
    assert launched(found)[-5:] == ["gemm", "vector", "all_to_all", "grouped_gemm", "all_to_all"]


def test_squares_of_queries_and_keys_travel_together() -> None:
    """vLLM's MiniMaxText01RMSNormTP.forward_qk: two numbers of fp32 a token."""
    found = block(engine("minimax-m2", tp=4), "expert_layer")
    assert next(step.bytes for step in found.forward.steps if step.op is not None) == 2 * 4 * TOKENS


def test_ends_of_the_model() -> None:
    """A vocabulary-parallel embedding is reduced; the norm takes all tokens, the head those that are sampled, whose
    logits are gathered (vLLM's logits_processor)."""
    replica = engine("llama3-70b", tp=8)
    first = block(replica, "embedding")
    assert [step.bytes for step in first.forward.steps if step.op is not None] == [TOKENS * 8192 * 2]
    step = Packed((Sequences(TOKENS, 1, 1500), Sequences(1, 512, 0, 1), Sequences(1, 512, 0, 0)))
    head = block(replica, "head", step)
    gathered = [step for step in head.forward.steps if step.op is not None]
    assert [(each.op and each.op.name, each.bytes) for each in gathered] == [("ALL_GATHER", 33 * 128256 / 8 * 2)]
    assert head.forward.steps[0].flops >= (TOKENS + 1024) * 8192


def test_stages_send_the_stream_and_what_is_added_to_it() -> None:
    found = engine("llama3-70b", tp=4, pp=2)
    assert block(found, "layer").output == 2 * TOKENS * 8192 * 2


def test_launches_of_a_step_are_reported() -> None:
    """9 kernels a layer, one of the embedding, four of the head: what a gap between kernels is added to."""
    work = inference(model="llama3-70b", tp=8, batch=TOKENS, phase="decode", context=1500, fusion="engine")
    assert workload_rows(design(work))["launches"] == [80 * 9 + 1 + 4]


@pytest.mark.parametrize(("model", "fields"), [
    ("gpt-oss-120b", {"tp": 4}), ("deepseek-v3", {"tp": 8}), ("gpt-oss-120b", {"dp": 4, "ep": 4, "batch": 4 * TOKENS})])
def test_norms_end_all_reduces(model: str, fields: dict[str, Any]) -> None:
    """Both norms of a layer's stream, where all_reduces are in front of them; those of latents stay kernels."""
    apart, joined = (block(engine(model, fusion=each, **fields), "expert_layer") for each in ("engine", "engine_norms"))
    assert launched(apart) == launched(joined)
    ends = [step.name for step in joined.forward.steps if step.kernel and not step.kernel.launches]
    assert ends == (["expert_layer.residual+norm1", "expert_layer.residual1+norm2"] if "tp" in fields else [])
