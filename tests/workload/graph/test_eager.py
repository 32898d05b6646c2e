"""What PyTorch launches and holds, against a recorded step and measured memory of PyTorch 2.11 on one H100."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from astrarium import config
from astrarium.vocab import NodeKind
from astrarium.workload.footprint import training_footprint
from astrarium.workload.pieces import BlockPieces
from astrarium.workload.training import recipe_of
from astrarium.workload.transformer import Transformer

LLAMA_1B = {"layers": 16, "d_model": 2048, "heads": 32, "kv_heads": 8, "ffn": 8192, "vocab": 128256,
            "tied_embeddings": True}
LLAMA_70B = {"layers": 3, "d_model": 8192, "heads": 64, "kv_heads": 8, "ffn": 28672, "vocab": 128256}
LLAMA_7B = {"layers": 32, "d_model": 4096, "heads": 32, "ffn": 11008, "vocab": 32000}
GPT = {"layers": 24, "d_model": 1024, "heads": 16, "ffn": 4096, "vocab": 50304, "gated": False, "activation": "gelu",
       "positions": "learned", "norm": "layer", "tied_embeddings": True, "biases": ["qkv", "out", "mlp"],
       "max_positions": 1024}
HELD = 1120 * 2**20     # beside what is counted, on every step (validate.measured_steps)


def step(model: dict[str, Any], seq: int, batch: int, operators: str = "eager", **more: Any) -> Transformer:
    plain = {"source": "transformer", "model": {"family": "decoder", **model}, "seq": seq, "global_batch": batch,
             "precision": {"master": None, "moments": "bf16"}, "mask": "skip", "clip": False, "cross_entropy": "eager",
             "weight_gradients": "fresh", "software": {"operators": operators, "fused_qkv": "biases" in model}, **more}
    return config.decode(Transformer, plain)


def layer_of(work: Transformer) -> BlockPieces:
    return next(block for block in recipe_of(work).kinds if block.name == "layer")


def test_a_layer_launches_what_a_recorded_step_did() -> None:
    """Kernels of a layer of Llama 3.2 1B: 29 forward; 49 backward, of which five are attention's and two each norm's,
    which are one step here."""
    layer = layer_of(step(LLAMA_1B, 4096, 1))
    ahead, back = ([each for each in piece.steps if each.kind == NodeKind.COMP] for piece in (
        layer.forward, layer.backward))
    assert (len(ahead), len(back) + 4 + 2) == (29, 49)
    products = Counter(each.kernel.shape for each in (*ahead, *back) if each.kernel and each.kernel.kind == "gemm")
    assert products[1, 4096, 512, 2048] == 2            # keys and values apart
    assert products[1, 4096, 8192, 2048] == 3           # gate, up, and the gradient of what down reads
    kinds = Counter(each.name.rpartition(".")[2] for each in (*ahead, *back))
    assert (kinds["mul"], kinds["cat"], kinds["neg"], kinds["add"]) == (16 + 2, 4, 2, 6 + 5)
    operators = Counter(each.kernel.op for each in (*ahead, *back) if each.kernel and each.kernel.kind != "gemm")
    assert operators == {
        "add": 6 + 5 + 2 + 2, "transpose_copy": 4 * 2 + 5 * 2 + 1 + 2, "cat": 4, "rms_norm": 2, "rms_norm_backward": 2,
        "silu": 1, "silu_backward": 1, "mul": 3, "": 2}


def test_the_ends_of_a_model_are_eager_operators() -> None:
    """Cross entropy is measured as one forward and one backward; the bytes are those that its rows count."""
    first, _, last = recipe_of(step(LLAMA_1B, 4096, 1)).kinds
    steps = [each for piece in (first.forward, first.backward, last.forward, last.backward) for each in piece.steps]
    moved = {each.kernel.op: each.bytes for each in steps if each.kernel}
    shapes = {each.kernel.op: each.kernel.shape for each in steps if each.kernel}
    assert shapes["rms_norm"] == shapes["rms_norm_backward"] == shapes["embedding_backward"] == (4096, 2048)
    logits, stream = 4096 * 128256, 4096 * 2048
    assert moved["cross_entropy"] == pytest.approx(8 * logits, rel=1e-4)
    assert moved["cross_entropy_backward"] == pytest.approx(8 * logits, rel=1e-4)
    assert moved["logits_to_fp32"] == moved["to_bf16"] == 6 * logits
    assert moved["embedding_backward"] == 2 * (128256 * 2048 + stream) + 8 * 4096
    assert moved["rms_norm_backward"] == 6 * stream + 2 * 2 * 2048
    assert moved["add"] == 6 * 128256 * 2048             # the two gradients of a tied embedding


def test_recomputation_stops_at_the_last_result_that_backward_needs() -> None:
    """That of the product in front of down: neither down nor the residual runs again (early stop); a compiled layer
    runs whole."""
    eager, compiled = (layer_of(step(LLAMA_1B, 4096, 1, operators, recompute="full"))
                       for operators in ("eager", "compiled"))
    again = [[each.name for each in layer.backward.steps if each.name.startswith("again.")]
             for layer in (eager, compiled)]
    assert again[0][-1] == "again.layer.activation_mul"
    assert "again.layer.down" in again[1]


def test_a_rotary_position_moves_the_bytes_of_its_kernels() -> None:
    """mul and mul read half of the heads and the angles and write half, sub and add three halves, cat all twice."""
    layer, half, angles = layer_of(step(LLAMA_1B, 4096, 1)), 4096 * 32 * 32 * 2, 4096 * 32 * 2
    turned = [each.bytes for each in layer.forward.steps if ".rope_q." in each.name]
    product, total = 2 * half + angles, 3 * half
    assert turned == [product, product, total, product, product, total, 4 * half]


def test_one_weight_of_queries_keys_and_values_is_one_product_and_its_gradient_a_cat() -> None:
    layer = layer_of(step(GPT, 1024, 4))
    names = [each.name for each in (*layer.forward.steps, *layer.backward.steps)]
    assert sum("layer.qkv" in name for name in names) == 5     # product; cat, two products, sum of the bias
    shape = next(each.kernel.shape for each in layer.forward.steps if each.name == "layer.qkv" and each.kernel)
    assert shape == (1, 4096, 3072, 1024)
    assert next(each.kernel.shape for each in layer.backward.steps if each.name.endswith("d_wqkv.sum")) == (4096, 3072)
    assert not any("tokens" in name for name in names)          # attention's result lies as its queries do


def test_a_compiled_layer_fuses_what_is_no_product() -> None:
    eager, compiled = (layer_of(step(LLAMA_1B, 4096, 1, operators)) for operators in ("eager", "compiled"))
    assert len(compiled.forward.steps) < 17 < len(eager.forward.steps)
    assert sum(each.kernel is not None and each.kernel.kind == "gemm" for each in compiled.forward.steps) == 7
    assert eager.saved - compiled.saved == 4096 * 8192 * 2      # silu(gate)


def test_a_compiled_norm_adds_up_the_gradients_that_it_reads() -> None:
    """Backward of a layer's first norm: those of q, k and v, the input, that of the residual; it writes one."""
    layer, stream = layer_of(step(LLAMA_1B, 4096, 1, "compiled")), 4096 * 2048 * 2
    moved = {each.name: each.bytes for each in layer.backward.steps}
    assert moved["layer.norm1.d"] == pytest.approx(6 * stream, rel=1e-3)
    assert moved["layer.norm2.d"] == pytest.approx(5 * stream, rel=1e-3)


@pytest.mark.parametrize(("model", "seq", "batch", "recompute", "operators", "allocated"), [
    (LLAMA_1B, 4096, 1, "none", "eager", 21_245_745_664), (LLAMA_70B, 8192, 1, "none", "eager", 50_627_481_088),
    (LLAMA_7B, 2048, 4, "full", "eager", 56_260_202_496), (GPT, 1024, 16, "none", "eager", 26_179_935_744),
    (LLAMA_1B, 1024, 1, "none", "eager", 12_119_149_056), (LLAMA_1B, 4096, 2, "none", "compiled", 31_754_230_272)])
def test_the_footprint_is_the_most_that_the_allocator_held(
        model: dict[str, Any], seq: int, batch: int, recompute: str, operators: str, allocated: int) -> None:
    held, = training_footprint(step(model, seq, batch, operators, recompute=recompute, overhead=f"{HELD} B"))
    assert held.total == pytest.approx(allocated, rel=0.003)


def test_fresh_gradients_are_not_there_before_their_block_ran_back() -> None:
    work = step(LLAMA_1B, 4096, 1)
    fresh, always = (training_footprint(config.replace(work, "weight_gradients", kind))[0]
                     for kind in ("fresh", "in_place"))
    assert always.total - fresh.total == always.gradients       # the most is held where the first gradient is not made


def test_a_step_of_one_micro_batch_adds_no_gradients_up() -> None:
    one, two = (layer_of(step(LLAMA_1B, 1024, 2, micro_batch=size, software={
        "operators": "eager", "accumulation": "separate"})) for size in (2, 1))
    assert len(two.backward.steps) - len(one.backward.steps) == 7


def test_sharded_gradients_are_whole_while_their_block_runs_back() -> None:
    """FSDP: the gradients of a whole block until they are reduced, then this rank's share."""
    alone, sharded = (training_footprint(step({**LLAMA_1B, "vocab": 512}, 64, 4, dp=4, zero=zero))[0]
                      for zero in (0, 3))
    layer = layer_of(step(LLAMA_1B, 64, 4, dp=4, zero=3))
    held = sum(each.elements for each in layer.weights) * 2
    assert sharded.gradients == pytest.approx((alone.gradients - held) / 4 + held, rel=0.01)     # all but one layer's
