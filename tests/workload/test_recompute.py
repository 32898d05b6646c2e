"""Recomputation: what a layer keeps, which operators run again, and which layers do."""

from __future__ import annotations

from typing import Any

import pytest

from astrarium.errors import InputError
from astrarium.workload.assemble import Recipe
from astrarium.workload.footprint import training_footprint
from astrarium.workload.pieces import BlockPieces
from astrarium.workload.training import recipe_of
from astrarium.workload.transformer import Transformer

TOKENS = 2 * 8192
D, KEYS, FFN, HEADS = 4096, 1024, 14336, 32


def recipe(**fields: Any) -> Recipe:
    return recipe_of(Transformer("llama3-8b", **{"global_batch": 2, "seq": 8192, "micro_batch": 2, **fields}))


def again(block: BlockPieces) -> str:
    return " ".join(step.name.removeprefix("again.layer.") for step in block.backward.steps
                    if step.name.startswith("again."))


def test_operators_keeps_attention_and_every_second_product() -> None:
    layer = recipe(recompute="operators").kinds[1]
    kept = 2 * (D + D + KEYS + D + FFN)         # the input; q, v, attention's result, one of the FFN's first two
    assert layer.saved / TOKENS == kept + 4 * HEADS
    assert again(layer) == "norm1 k rope_q rope_k out residual1+norm2 gate activation"


def test_operators_without_a_compiler() -> None:
    plain, eager = recipe(recompute="operators").kinds[1], recipe(recompute="operators", fusion=False).kinds[1]
    assert (eager.saved - plain.saved) / TOKENS == 2 * D        # the last product's result, which nothing reads


def test_operators_keeps_results_of_reduce_scatter() -> None:
    layer = recipe(recompute="operators", tp=2, tp_sequence=True).kinds[1]
    kept = 2 * (D + D + KEYS + D + FFN) / 2 + 2 * D / 2     # besides: attention's part of the stream
    assert layer.saved / TOKENS == kept + 4 * HEADS / 2
    assert again(layer) == "norm1 k rope_q rope_k residual1+norm2 gate activation"
    gathered = [step.name for step in layer.backward.steps if step.name.endswith("all_gather")]
    assert {"layer.h.all_gather", "layer.g.all_gather"} <= set(gathered)


def test_operators_of_experts() -> None:
    """Neither the router's product nor those of experts count; what all_to_all brought is kept."""
    work = Transformer("mixtral-8x7b", global_batch=8, seq=1024, micro_batch=1, dp=8, ep=8, zero=1,
                       recompute="operators")
    layer = next(block for block in recipe_of(work).kinds if "expert" in block.name)
    names = [step.name for step in layer.backward.steps if ".again." in f".{step.name}"]
    assert any("router" in name for name in names)
    assert any("expert_up" in name for name in names)
    forward = [step.name for step in layer.forward.steps if step.name.endswith("all_to_all")]
    backward = [step.name for step in layer.backward.steps if step.name.endswith("all_to_all")]
    assert len(backward) == len(forward)        # of gradients alone


def test_some_layers() -> None:
    every = recipe(recompute="full", recompute_every=2)
    inner = every.parts[0][1:-1]
    assert [every.kinds[block].saved == 2 * D * TOKENS for block in inner] == [False, True] * 16
    first = recipe(recompute="full", recompute_first=3, pp=4, virtual_stages=2, schedule="interleaved", global_batch=8)
    names = {block: again(first.kinds[block]) != "" for part in first.parts for block in part}
    assert [names[block] for block in first.parts[1]] == [True, True, True, False]
    assert [names[block] for block in first.parts[0]] == [False, True, True, True, False]      # behind the embedding
    none = recipe(recompute="full", recompute_first=0)
    assert not any(again(none.kinds[block]) for block in none.parts[0])


def test_operators_under_a_split_schedule() -> None:
    with pytest.raises(InputError, match="operators, under schedule: zero_bubble"):
        recipe(recompute="operators", schedule="zero_bubble", pp=2)


@pytest.mark.parametrize(("loss", "logits"), [("fused", 2), ("compiled", 4), ("eager", 2 * 4 + 4)])
def test_bytes_of_the_loss(loss: str, logits: int) -> None:
    """eager: the log softmax, its gradient and that of its operand, all in fp32."""
    work = Transformer("llama3-8b", global_batch=2, seq=8192, micro_batch=2, zero=0, recompute="full",
                       cross_entropy=loss, software={"fused_norms": False})
    found = training_footprint(work)[0]
    plain = Transformer("llama3-8b", global_batch=2, seq=8192, micro_batch=2, zero=0, recompute="full",
                        cross_entropy="fused", software={"fused_norms": False})
    rest = training_footprint(plain)[0]
    more = found.total - rest.total
    assert more == pytest.approx((logits - 2) * 128256 * TOKENS, abs=0.2 * 128256 * TOKENS)


def test_modules() -> None:
    plain, norms = (recipe(recompute="selective", recompute_modules=names).kinds[1]
                    for names in (["attention"], ["norms"]))
    assert (plain.saved - norms.saved) / TOKENS == 2 * 2 * D        # the two norms' results
    assert again(norms) == "norm1 norm2"
    ffn = recipe(recompute="selective", recompute_modules=["attention", "ffn"]).kinds[1]
    assert (plain.saved - ffn.saved) / TOKENS == 3 * 2 * FFN        # up, gate and their product
    assert again(ffn) == "up+gate activation"
    assert recipe(recompute="none").kinds[1] == plain               # flash attention keeps none of its core


def test_modules_of_latent_attention_and_experts() -> None:
    def layer(*names: str) -> BlockPieces:
        work = Transformer("deepseek-v3", global_batch=8, seq=1024, micro_batch=1, dp=8, ep=8, zero=1,
                           recompute="selective", recompute_modules=names)
        return next(block for block in recipe_of(work).kinds if block.name == "expert_layer")

    plain, latent, acts, whole = layer("attention"), layer("latent"), layer("expert_activation"), layer("experts")
    # of every head: query and key of 192 numbers, value of 128; from the key that all heads share they are made again
    assert (plain.saved - latent.saved) / 1024 == 2 * 128 * (192 + 192 + 128) - 2 * 64
    assert (plain.saved - acts.saved) / 1024 == pytest.approx(2 * 8 * 2048)
    assert whole.saved < acts.saved
    forward = [step for step in whole.forward.steps if step.name.endswith("all_to_all")]
    backward = [step for step in whole.backward.steps if step.name.endswith("all_to_all")]
    assert len(backward) == 2 * len(forward) - 1        # tokens go to the experts again
