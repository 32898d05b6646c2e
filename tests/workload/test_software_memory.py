"""Memory that a framework adds to a model's: gradients before they are added up, losses, workspaces, fp8 operands."""

from __future__ import annotations

from typing import Any

import pytest

import astrarium as ar
from astrarium.workload.footprint import Footprint, training_footprint
from astrarium.workload.training import recipe_of

D, FFN, HEADS, KV, VOCAB, SEQ, LAYERS = 4096, 14336, 32, 8, 128256, 8192, 32      # llama3-8b


def made(**more: Any) -> Footprint:
    return training_footprint(ar.Transformer("llama3-8b", global_batch=1, micro_batch=1, **more))[0]


@pytest.mark.parametrize(("dp", "each"), [(1, 18), (2, 20)])
def test_gradients_beside_are_as_large_as_the_weights(dp: int, each: int) -> None:
    """2 bytes of every parameter more where there are replicas: 20 in place of 18 with accumulators in fp32, as in
    nanotron (the buckets of data parallelism)."""
    beside = training_footprint(ar.Transformer("llama3-8b", global_batch=dp, micro_batch=1, dp=dp,
                                      precision={"gradients": "fp32"}, weight_gradients="beside"))[0]
    plain = made(precision={"gradients": "fp32"})
    assert beside.gradients - plain.gradients == (each - 18) * plain.parameters
    held = beside.weights + beside.gradients + beside.states
    assert held == pytest.approx(each * beside.parameters)


def test_a_placeholder_for_every_shape_of_matrix() -> None:
    """Query, key and value; attention's output; gate and up; down: each once, in bf16, however many layers there are;
    the head's gradient is a tensor of its own for a moment."""
    shapes = D * (D + 2 * D * KV // HEADS) + D * D + D * 2 * FFN + FFN * D
    plain, held = made(), made(weight_gradients="placeholders")
    assert held.gradients - plain.gradients == 2 * shapes
    assert held.working - plain.working == pytest.approx(2 * VOCAB * D, rel=0.5)


def test_placeholders_of_experts_are_those_of_one() -> None:
    model = {"family": "decoder", "layers": 2, "d_model": 64, "heads": 4, "ffn": 256, "vocab": 1000, "seq": 128,
             "moe": {"experts": 8, "top_k": 2, "expert_ffn": 96}}
    work = [ar.Transformer(model, global_batch=1, weight_gradients=each) for each in ("in_place", "placeholders")]
    plain, held = (training_footprint(each)[0] for each in work)
    router, attention, expert = 64 * 8, 3 * 64 * 64 + 64 * 64, 64 * 2 * 96 + 96 * 64
    assert held.gradients - plain.gradients == 2 * (router + attention + expert)


def test_temporary_gradients_add_the_largest() -> None:
    plain, loose = made(), made(weight_gradients="temporary")
    assert loose.gradients == plain.gradients
    assert 0 < loose.working - plain.working <= 2 * VOCAB * D


def test_a_fused_loss_keeps_logits_in_bf16_and_reuses_them() -> None:
    """fp32 logits and a gradient in bf16: 6 bytes a logit; fused: 2."""
    head = [recipe_of(ar.Transformer("llama3-8b", global_batch=1, cross_entropy=each)).kinds[-1]
            for each in ("plain", "fused")]
    assert head[0].saved - head[1].saved == 2 * SEQ * VOCAB
    assert head[0].working - head[1].working == pytest.approx(2 * SEQ * VOCAB, rel=0.05)


def test_overhead_is_held_by_every_rank() -> None:
    plain, more = made(), made(overhead="2 GiB")
    assert more.overhead == 2**31
    assert more.total - plain.total == 2**31


def test_operands_of_fp8_products_are_kept_in_fp8() -> None:
    """The norms' results and the activation's (h, g, z) at a byte; attention's result in both formats."""
    layer = [recipe_of(ar.Transformer("llama3-8b", global_batch=1, precision=each)).kinds[1].saved
             for each in ({}, {"products": "fp8"})]
    assert layer[1] - layer[0] == SEQ * (-D - D - FFN + D)


def test_fp8_products_change_nothing_of_a_layer_that_runs_again() -> None:
    layer = [recipe_of(ar.Transformer("llama3-8b", global_batch=1, recompute="full", precision=each)).kinds[1].saved
             for each in ({}, {"products": "fp8"})]
    assert layer[0] == layer[1] == 2 * SEQ * D
