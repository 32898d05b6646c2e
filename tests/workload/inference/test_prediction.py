"""The model's own module for multi-token prediction as a draft."""

from __future__ import annotations

from typing import Any

import pytest
from tests.workload.inference.systems import inference

import astrarium as ar
from astrarium import config
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.footprint import inference_footprint
from astrarium.workload.inference.passes import program_of
from astrarium.workload.inference.replica import Replica
from astrarium.workload.model.decoder import Decoder

MTP = {"draft": "mtp", "tokens": 2, "acceptance": 0.85}
D, VOCAB = 64, 128
PLAIN: dict[str, Any] = {"family": "decoder", "layers": 3, "d_model": D, "heads": 8, "kv_heads": 2, "ffn": 128,
                         "vocab": VOCAB}
EXPERTS = {**PLAIN, "moe": {"experts": 16, "top_k": 4, "expert_ffn": 32, "shared_experts": 1, "dense_layers": 1}}


def module(model: object, **fields: Any) -> Replica:
    return program_of(inference(model=model, phase="decode", context=100, speculation=MTP, **fields)).models[1]


@pytest.mark.parametrize("model", [PLAIN, EXPERTS, "deepseek-v3", "qwen3-next-80b-a3b"])
def test_it_has_the_parameters_of_a_module_and_no_more(model: object) -> None:
    """A layer, a projection of 2 d to d and three norms; embedding and head are the model's."""
    draft = module(model, formats={"weights": "bf16"})
    assert isinstance(draft.model, Decoder)
    expected = config.replace(draft.model, "mtp", 1).counts()[0]["mtp"]
    assert draft.weight_bytes(0) == 2 * expected


def test_its_flops_by_hand() -> None:
    """Projection, layer, logits; of the layer as a model of one layer has them."""
    step = Packed((Sequences(8, 3, 100, 3),))
    tokens = 8 * 3
    pieces = module(PLAIN).pieces(step)
    found = [sum(each.gemm for each in block.forward.steps) for block in pieces.blocks]
    layer = 2 * tokens * (D * D * 2 + 2 * D * 2 * 8 + 3 * D * 128) + 4 * step.pairs(None, skip=True) * 8 * 8
    assert found == [2 * tokens * 2 * D * D, layer, 2 * tokens * D * VOCAB]


def test_a_round_of_guesses() -> None:
    """Its first guess runs what was verified, the others one token each; each step of the model verifies three."""
    rounds = program_of(inference(model=EXPERTS, phase="decode", context=100, batch=4, speculation=MTP)).rounds
    assert [(each.model, each.packed.parts) for each in rounds] == [
        (1, (Sequences(4, 3, 100, 3),)), (1, (Sequences(4, 1, 101),)), (0, (Sequences(4, 3, 100, 3),))]


def test_its_cache_is_that_of_one_layer() -> None:
    fields = {"model": EXPERTS, "phase": "decode", "context": 100, "batch": 4}
    with_it, without = (inference_footprint(inference(**fields, **more))[0].cache
                        for more in ({"speculation": MTP}, {}))
    assert with_it == without / 101 * 103 / 3 * 4


@pytest.mark.parametrize("layout", [{"tp": 2}, {"tp": 4, "ep": 4}, {"dp": 4, "ep": 4, "exchange": "all_gather"}])
def test_ranks_share_it(layout: dict[str, int]) -> None:
    """Matrices are divided, but for projection, router and norms, which every rank of tp has."""
    one, many = module(EXPERTS), module(EXPERTS, batch=8, **layout)
    experts, whole = 3 * D * 32 * 16, 2 * D * D + 16 * D + 5 * D
    heads = one.weight_bytes(0) / 2 - experts - whole
    tp = layout.get("tp", 1)
    copies = max(1, tp // 2) - 1        # of two key and value heads
    assert many.weight_bytes(0) / 2 == experts / 4 * (2 if layout == {"tp": 2} else 1) + whole + heads / tp \
        + copies * 2 * D * 2 * 8 / tp


@pytest.mark.parametrize(("fields", "path"), [
    ({"model": "mamba2-2.7b"}, "speculation.draft"), ({"model": PLAIN, "pp": 3}, "pp"),
    ({"model": {**PLAIN, "layers": 4}, "compression": {"share": 2}}, "compression.share")])
def test_where_it_cannot_draft(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(ar.InputError) as refused:
        inference(phase="decode", context=10, speculation=MTP, **fields)
    assert any(problem.path.endswith(path) for problem in refused.value.problems)
