"""Experts on the ranks of tp and dp: weights, rows and collectives of every layout, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.workload.inference.systems import inference

import astrarium as ar
from astrarium.vocab import CommOp
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.mesh import mesh_of
from astrarium.workload.pieces import Step

D, FFN, EXPERTS, TOP, TOKENS = 64, 32, 16, 4, 64
MODEL: dict[str, Any] = {
    "family": "decoder", "layers": 1, "d_model": D, "heads": 8, "ffn": 128, "vocab": 128,
    "moe": {"experts": EXPERTS, "top_k": TOP, "expert_ffn": FFN, "shared_experts": 1}}
LAYOUTS = [(tp, 8 // tp, ep, 8 // ep) for tp in (1, 2, 4, 8) for ep in (1, 2, 4, 8)]      # tp, dp, ep, moe_tp


def work(tp: int, dp: int, ep: int, moe_tp: int | None = None, **fields: Any) -> Inference:
    return inference(model=MODEL, phase="decode", context=100, batch=TOKENS, tp=tp, dp=dp, ep=ep, moe_tp=moe_tp,
                     **fields)


def steps(layout: Inference) -> tuple[Step, ...]:
    """Of the layer, on one rank."""
    pieces = replica_of(layout).pieces(Packed((Sequences(layout.sequences, 1, 100),)))
    return pieces.blocks[pieces.layers[0]].forward.steps


def collectives(layout: Inference) -> list[tuple[CommOp, int, float]]:
    """(operation, ranks, bytes as Chakra counts) behind the router."""
    found = [(each.op, layout.mesh.size(each.axes), each.bytes) for each in steps(layout) if each.op is not None]
    return [each for each in found if each != (CommOp.ALL_REDUCE, layout.tp, 2 * D * TOKENS / layout.dp)]


@pytest.mark.parametrize("exchange", ["all_to_all", "all_gather"])
@pytest.mark.parametrize(("tp", "dp", "ep", "moe_tp"), LAYOUTS)
def test_each_rank_has_its_part_of_its_experts(tp: int, dp: int, ep: int, moe_tp: int, exchange: str) -> None:
    """Of 16 experts 16 / ep, of each 32 / moe_tp columns, and as many rows as its experts get from all ranks."""
    layout = work(tp, dp, ep, moe_tp, exchange=exchange)
    shapes = [each.kernel.shape for each in steps(layout) if each.kernel and each.kernel.kind == "grouped_gemm"]
    groups, rows = EXPERTS / ep, TOKENS * TOP / ep
    assert shapes == [(groups, rows, 2 * FFN / moe_tp, D), (groups, rows, D, FFN / moe_tp)]
    experts = 2 * 3 * D * FFN * EXPERTS / 8
    dense = inference(model={**MODEL, "moe": None, "ffn": FFN}, phase="decode", context=100, batch=TOKENS, tp=tp, dp=dp)
    router = 2 * D * EXPERTS
    assert replica_of(layout).weight_bytes(0) == replica_of(dense).weight_bytes(0) + experts + router


@pytest.mark.parametrize("exchange", ["all_to_all", "all_gather"])
def test_layouts_share_the_same_flops(exchange: str) -> None:
    """GEMM-class FLOPs of all ranks, but for the router, which every rank of tp computes."""
    router = 2 * TOKENS * D * EXPERTS
    found = {8 * sum(each.gemm for each in steps(work(*layout, exchange=exchange))) - layout[0] * router
             for layout in LAYOUTS}
    assert len(found) == 1


@pytest.mark.parametrize(("ep", "moe_tp"), [(1, None), (8, None), (4, None), (4, 2), (2, 4)])
def test_experts_inside_tp_are_reduced_once(ep: int, moe_tp: int | None) -> None:
    """TensorRT-LLM's moe_tp x moe_ep = tp: two all_reduces a layer, no exchange."""
    found = [(each.op, each.bytes) for each in steps(work(8, 1, ep, moe_tp)) if each.op is not None]
    assert found == [(CommOp.ALL_REDUCE, 2.0 * D * TOKENS)] * 2


ROWS, SENT, SUMS = 2.0 * D * TOKENS * TOP / 8, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER
ALL = [(SENT, 8, 2.0 * D * TOKENS / 8), (SUMS, 8, 2.0 * D * TOKENS)]


@pytest.mark.parametrize(("tp", "dp", "ep", "moe_tp", "exchange", "expected"), [
    (1, 8, 8, 1, "all_to_all", [(CommOp.ALL_TO_ALL, 8, ROWS)] * 2),
    (2, 4, 8, 1, "all_to_all", [(CommOp.ALL_TO_ALL, 4, ROWS)] * 2),
    (1, 8, 8, 1, "all_gather", ALL), (1, 8, 1, 8, "all_to_all", ALL), (1, 8, 4, 2, "all_gather", ALL),
    (4, 2, 8, 1, "all_gather", [(SENT, 2, 2.0 * D * TOKENS / 2), (SUMS, 2, 2.0 * D * TOKENS)]),
    (1, 8, 4, 1, "all_gather", [(SENT, 4, 2.0 * D * TOKENS / 8), (SUMS, 4, 2.0 * D * TOKENS / 2)])])
def test_what_dp_ranks_exchange(tp: int, dp: int, ep: int, moe_tp: int, exchange: str,
                                expected: list[tuple[CommOp, int, float]]) -> None:
    """Rows to experts and back (each rank of tp those of its experts), or all tokens gathered and sums scattered; the
    last layout has two copies of the experts."""
    assert collectives(work(tp, dp, ep, moe_tp, exchange=exchange)) == expected


def test_ranks_of_a_split_tp() -> None:
    """The parts of an expert are neighbours; tp and dp are what they are without experts."""
    mesh, plain = mesh_of("megatron", tp=4, ep=4, dp=2, moe_tp=2), mesh_of("megatron", tp=4, dp=2)
    assert mesh.groups(("itp",)).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    for axis in ("tp", "dp"):
        assert (mesh.groups((axis,)) == plain.groups((axis,))).all()
        assert (mesh.coordinate(axis) == plain.coordinate(axis)).all()
    assert mesh_of("megatron", dp=8, moe_tp=4, ep=2).groups(("mdp",)).tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]


@pytest.mark.parametrize(("fields", "path", "expected"), [
    ((8, 1, 3), "ep", "2 or 4"), ((4, 2, 1, 2), "moe_tp", "4, 8"), ((4, 1, 4, 2), "moe_tp", "1"),
    ((8, 1, 1, 4), "moe_tp", "8")])
def test_layouts_that_do_not_spread_are_refused(fields: tuple[int, ...], path: str, expected: str) -> None:
    with pytest.raises(ar.InputError) as refused:
        work(*fields)
    assert refused.value.problems[0].path.endswith(path)
    assert expected in str(refused.value)
