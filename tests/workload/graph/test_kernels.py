"""Kernels of generated steps: their shapes multiply to the steps' products, under any layout."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import numpy as np
import pytest

import astrarium as ar
from astrarium.trace.work import Generated
from astrarium.vocab import KERNELS, Kernel, NodeKind
from astrarium.workload.generate import generate
from astrarium.workload.graph import Options, lower_stack
from astrarium.workload.graph.forms import Forms
from astrarium.workload.graph.options import AXES
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.model.base import Model
from astrarium.workload.model.dlrm import Dlrm
from astrarium.workload.model.stacks import stack_of
from astrarium.workload.pieces import Sketch, Step

MODELS = ("llama3-8b", "mixtral-8x7b", "deepseek-v3", "gpt2-small", "bert-large", "t5-11b", "dit-xl-2",
          "mamba2-1.3b", "dlrm-dcnv2")


def _model(name: str) -> Model:
    return ar.Transformer(model=name, global_batch=1, seq=None if name in MODELS else 512).model


def _steps(model: Model, options: Options) -> Iterator[Step]:
    for block in lower_stack(stack_of(model, options), options, Forms()).blocks:
        for step in (*block.forward.steps, *block.backward.steps):
            if step.kind == NodeKind.COMP:
                yield step


def _products(kernel: Sketch) -> float:
    """FLOPs of GEMM class that the shape says."""
    if kernel.kind == "gemm":
        return 2.0 * math.prod(kernel.shape) * kernel.work
    if kernel.kind == "grouped_gemm":
        return 2.0 * math.prod(kernel.shape[1:]) * kernel.work
    batch, heads, _, queries, keys, key, value = kernel.shape
    lengths = 3 * key + 2 * value if kernel.kind == "attention_backward" else key + value
    return 2.0 * batch * heads * queries * keys * lengths * kernel.work


@pytest.mark.parametrize("name", MODELS)
def test_shapes_multiply_to_the_products_of_a_step(name: str) -> None:
    model, rng, shaped = _model(name), random.Random(name), 0
    for _ in range(4):
        axes = ("ep", "edp") if isinstance(model, Dlrm) else AXES
        options = Options({axis: rng.choice((1, 2, 3)) for axis in axes}, 24, getattr(model, "seq", 1),
                          tp_sequence=rng.choice((False, True)), mask=rng.choice(("full", "skip")),
                          recompute=rng.choice(("none", "selective", "full")), fuse=rng.choice((True, False)),
                          attention="flash", uneven="fractional")
        for step in _steps(model, options):
            assert step.kernel is not None, step.name
            assert step.kernel.kind in KERNELS, step.name
            if step.kernel.shape and step.kernel.launches == 1:
                shaped += 1
                assert _products(step.kernel) == pytest.approx(step.gemm, rel=1e-9), step
            elif not step.kernel.shape:
                assert step.gemm == 0 or step.kernel.kind == "scan", step
    assert shaped


@pytest.mark.parametrize("attention", ["flash", "unfused"])
@pytest.mark.parametrize("name", ["llama3-8b", "deepseek-v3", "gpt-oss-20b"])
def test_shapes_of_a_step_of_inference(name: str, attention: str) -> None:
    packed = Packed((Sequences(8, 1, 1023), Sequences(4, 1, 2047)))
    options = Options({"tp": 4}, 1, packed.tokens, packed=packed, backward=False, attention=attention)
    for step in _steps(_model(name), options):
        assert step.kernel is not None
        if step.kernel.shape:
            assert _products(step.kernel) == pytest.approx(step.gemm, rel=1e-9), step


def test_scores_of_packed_sequences_are_a_product_for_each() -> None:
    packed = Packed((Sequences(4, 2048, 0),))
    options = Options({"tp": 8}, 1, packed.tokens, packed=packed, backward=False, attention="unfused", mask="full")
    shapes = {step.name: step.kernel.shape for step in _steps(_model("llama3-8b"), options) if step.kernel is not None}
    assert tuple(map(float, shapes["layer.scores"])) == (16, 2048, 2048, 128)
    assert tuple(map(float, shapes["layer.mix"])) == (16, 2048, 128, 2048)


def _kernels(made: Generated, part: str) -> list[Kernel]:
    """Distinct kernels of the nodes whose names end so."""
    found: dict[Kernel, None] = {}
    for trace in made.classes:
        assert trace.kernel is not None
        assert trace.names is not None
        for node in np.flatnonzero(trace.kernel >= 0).tolist():
            if trace.names(node).endswith(part):
                found[trace.kernels[int(trace.kernel[node])]] = None
    return list(found)


def test_a_training_step_by_hand() -> None:
    """GPT3-175B, tp 8: (96 heads of 128, d 12288, ffn 49152), 2 samples of 2,048 tokens on a rank."""
    made = generate(ar.Transformer(model="gpt3-175b", tp=8, pp=2, dp=2, global_batch=4, seq=2048, tp_sequence=True,
                                   precision={"products": "fp8"}))
    tokens, d = 2 * 2048, 12288
    for name, shape in (("forward.layer.q+k+v", (1, tokens, 3 * d // 8, d)),
                        ("forward.layer.up", (1, tokens, d // 2, d)),
                        ("v.d_h+d_h+d_h", (1, tokens, d, 3 * d // 8)), ("up.d_g", (1, tokens, d, d // 2)),
                        ("v.d_wv+d_wk+d_wq", (1, d, 3 * d // 8, tokens)), ("down.d_wdown", (1, d // 2, d, tokens))):
        (kernel,) = _kernels(made, name)
        assert (kernel.kind, kernel.precision, kernel.shape, kernel.launches) == ("gemm", "fp8", shape, 1), name
    (forward,) = _kernels(made, "layer.attention")
    (backward,) = _kernels(made, "layer.attention.d")
    assert forward.shape == backward.shape == (2, 12, 12, 2048, 2048, 128, 128)
    assert (forward.kind, backward.kind) == ("attention", "attention_backward")
    assert forward.precision == "bf16"      # products of weights alone are fp8
    (logits,) = _kernels(made, "head.logits")
    assert (logits.precision, logits.shape[3]) == ("bf16", d)
    assert {each.kind for each in _kernels(made, "norm1")} == {"normalisation"}
    assert [each.kind for each in _kernels(made, "optimizer.step")] == ["optimizer", "optimizer"]
    assert _kernels(made, "embedding.tokens")[0].kind == "embedding"


def test_kernels_hold_what_their_nodes_hold() -> None:
    made = generate(ar.Transformer(model="mixtral-8x7b", tp=2, pp=2, ep=2, dp=2, global_batch=4, seq=1024))
    for trace in made.classes:
        assert trace.kernel is not None
        assert len(set(trace.kernels)) == len(trace.kernels)
        assert ((trace.kernel >= 0) == (trace.type == NodeKind.COMP)).all()
        nodes = np.flatnonzero(trace.kernel >= 0)
        assert trace.num_ops[nodes].tolist() == [trace.kernels[each].flops for each in trace.kernel[nodes].tolist()]
        assert trace.tensor_size[nodes].tolist() == [trace.kernels[each].bytes for each in trace.kernel[nodes].tolist()]
    (experts,) = _kernels(made, "forward.expert_layer.expert_up+expert_gate")
    assert experts.kind == "grouped_gemm"
    groups, rows, n, k = experts.shape
    assert (groups, n, k) == (4, 2 * 14336 // 2, 4096)
    assert rows == 2 * 1024 * 2 // 2 * 2        # 2 replicas' tokens, 2 experts each, over 2 ranks of ep, 2 samples


def test_decode_is_a_batch_of_queries() -> None:
    made = generate(ar.Inference(model="llama3-70b", tp=8, phase="decode", batch=32, prompt=1000, generated=48,
                                 steps=1))
    (kernel,) = _kernels(made, "layer.attention")
    assert kernel.kind == "attention"
    assert kernel.shape[:4] == (32, 8, 1, 1)
    assert kernel.shape[4] > 1000
    assert kernel.work == pytest.approx(1.0)


def test_absorbed_latents_are_mla() -> None:
    made = generate(ar.Inference(model="deepseek-v3", tp=8, phase="decode", batch=8, prompt=1000, generated=48,
                                 steps=1))
    assert {each.kind for each in _kernels(made, "layer.attention")} == {"mla"}
    assert all(each.shape[1:4] == (16, 1, 1) and each.shape[5:] == (576, 512)
               for each in _kernels(made, "layer.attention"))


def test_products_say_which_pass_they_are_of() -> None:
    options = Options({}, 1, 512, recompute="none", attention="flash")
    kernels = [step.kernel for step in _steps(_model("llama3-8b"), options) if step.kernel]
    products = [kernel for kernel in kernels if kernel.kind == "gemm"]
    shapes = {op: {kernel.shape[1:] for kernel in products if kernel.op == op} for op in ("", "dgrad", "wgrad")}
    assert {kernel.op for kernel in products} == set(shapes)
    assert (512, 4096, 14336) in shapes[""]
    assert (512, 14336, 4096) in shapes["dgrad"]
    assert (14336, 4096, 512) in shapes["wgrad"]        # inputs, outputs, tokens
