"""Delta nets, sparse and chunked attention, sinks, gates, multi-token prediction: counted by hand, and run."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import astrarium as ar
from astrarium import config
from astrarium.errors import InputError, UnsupportedError
from astrarium.report.tables.show_workload import workload_rows
from astrarium.workload.footprint import training_footprint
from astrarium.workload.inference.footprint import inference_footprint
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.parameters import parameters
from astrarium.workload.training import recipe_of

from .common import flops, pieces, row

BASE: dict[str, Any] = {"layers": 4, "d_model": 64, "ffn": 160, "heads": 8, "vocab": 1000, "seq": 128}
LATENT = {"q_rank": 40, "kv_rank": 24, "nope_size": 16, "rope_size": 8, "v_size": 12}
KINDS: dict[str, dict[str, Any]] = {
    "delta": {"kv_heads": 2, "full_every": 4, "gated_heads": True, "qk_norm": True,
              "delta": {"key_heads": 4, "key_size": 16, "value_heads": 8, "value_size": 16},
              "moe": {"experts": 8, "top_k": 2, "shared_experts": 1, "shared_gate": True, "expert_ffn": 48}},
    "sparse": {"mla": LATENT, "sparse": {"heads": 4, "head_size": 16, "top_k": 32}, "mtp": 1,
               "moe": {"experts": 8, "top_k": 2, "dense_layers": 1}},
    "sinks": {"kv_heads": 2, "sinks": True, "window": 16, "full_every": 2, "biases": ["qkv", "out", "mlp"],
              "moe": {"experts": 8, "top_k": 2, "router_bias": True}},
    "chunked": {"window": 32, "window_kind": "chunked", "full_every": 4, "qk_norm": True, "qk_norm_scale": "none"},
    "prediction": {"mtp": 2, "tied_embeddings": True},
}


def model(kind: str, **more: Any) -> Decoder:
    return Decoder(**{**BASE, **KINDS[kind], **more})


def design(work: Any) -> ar.Design:
    return ar.Design(workload=work, compute="h100_sxm", memory="h100_sxm",
                     network=ar.Network([ar.Switch(work.ranks, bandwidth="100 GB/s", latency="1 us")]))


MORE: tuple[dict[str, Any], ...] = (
    {"tp": 2, "tp_sequence": True}, {"pp": 2, "schedule": "zero_bubble"}, {"recompute": "full"},
    {"attention": "unfused", "recompute": "selective"}, {"zero": 3, "dp": 2}, {"cp": 2}, {"sp": 2})


@pytest.mark.parametrize(("kind", "more"), [       # half of the pairs in the suite, all in the exam
    pytest.param(kind, more, id=f"{kind}-{'-'.join(more)}",
                 marks=[pytest.mark.exam] if (i + j) % 2 and "cp" not in more else [])
    for i, kind in enumerate(KINDS) for j, more in enumerate(MORE)])
def test_training_runs_and_does_the_same_products(kind: str, more: dict[str, Any]) -> None:
    if kind == "delta" and more.keys() & {"cp", "sp"}:
        with pytest.raises(UnsupportedError, match="delta net passes a state along the sequence"):
            recipe_of(ar.Transformer(model(kind), global_batch=4, micro_batch=1, **more))
        return
    one, many = products(kind), products(kind, **more)
    assert many >= one * (1 - 1e-9)
    assert many <= one * (1.5 if "recompute" in more else 1.35)   # latents, routers and indexers on tp
    work = ar.Transformer(model(kind), global_batch=4, micro_batch=1, **more)
    assert ar.simulate(design(work)).makespan > 0


@functools.cache
def products(kind: str, **more: Any) -> float:
    """FLOPs of GEMM class of an iteration over all ranks."""
    work = ar.Transformer(model(kind), global_batch=4, micro_batch=1, **more)
    return float(workload_rows(design(work))["gemm_flops"])


@pytest.mark.parametrize("kind", KINDS)
def test_memory_before_and_in_a_simulation(kind: str) -> None:
    work = ar.Transformer(model(kind), global_batch=8, pp=2, micro_batch=1)
    result = ar.simulate(design(work))
    message = 128 * 64 * 2      # that is on its way while the next one is awaited
    for peak, found in zip(result.memory.peak.tolist(), training_footprint(work), strict=True):
        assert found.total * (1 - 1e-5) <= peak <= found.total * (1 + 1e-5) + message
    held = training_footprint(ar.Transformer(model(kind), global_batch=8))[0].parameters
    assert held == float(parameters(model(kind)).total)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("more", [{}, {"tp": 2}, {"tp": 2, "pp": 2}, {"chunk": 16}])
def test_inference_runs(kind: str, more: dict[str, Any]) -> None:
    work = ar.Inference(model(kind), batch=2, prompt=24 if kind == "chunked" else 64, generated=2, **more)
    assert ar.simulate(design(work)).makespan > 0


def test_a_delta_net_by_hand() -> None:
    """Multiply-adds per token and value head in chunks of C: 3 C K + 2 C V + 3 K V (arXiv 2412.06464, section 3.3)."""
    found = pieces(row("qwen3-next-80b-a3b"), seq=4096).blocks[1]
    assert found.name == "delta_expert_layer"
    step = next(step for step in found.forward.steps if step.name.endswith(".delta"))
    assert step.gemm == 2 * 4096 * 32 * (64 * (3 * 128 + 2 * 128) + 3 * 128 * 128)


def test_a_state_does_not_grow_with_the_context() -> None:
    def cache(context: int) -> float:
        alone = Decoder(**{**BASE, **KINDS["delta"], "full_every": 0})
        return inference_footprint(ar.Inference(alone, batch=1, prompt=context, generated=1))[0].cache

    taps = 3 * (2 * 4 * 16 + 8 * 16)
    assert cache(64) == cache(4096) == 4 * 2 * (8 * 16 * 16 + taps)


def test_an_indexer_by_hand() -> None:
    """DeepSeek-V3.2 at 16,384 tokens: a pair costs 64 heads of 128 in the indexer; a query attends to 2,048 keys."""
    seq = 16384
    steps = {step.name.rpartition(".")[2]: step for step in
             pieces(row("deepseek-v3.2"), seq=seq, attention="flash").blocks[1].forward.steps}
    assert steps["index_scores"].gemm == 2 * seq * seq * 64 * 128
    assert steps["attention"].gemm == pytest.approx(2 * seq * 2048 * 128 * (192 + 128))
    dense = pieces(row("deepseek-v3"), seq=seq, attention="flash").blocks[1].forward.steps
    whole = next(step for step in dense if step.name.endswith("attention"))
    assert whole.gemm == pytest.approx(2 * seq * seq * 128 * (192 + 128))


def test_an_indexers_weights_learn() -> None:
    """Its gradients reach its weights alone: a second loss, and nothing of it goes to the stream."""
    block = pieces(row("deepseek-v3.2"), seq=4096, degrees={"edp": 2}, batch=2).blocks[1]
    learned = {weight.name: weight.replicas for weight in block.weights if weight.name.startswith(("windex", "index"))}
    assert set(learned.values()) == {("edp",)}
    assert len(learned) == 5
    names = [step.name for step in block.backward.steps]
    assert any("index_q.d_windex_q" in name for name in names)
    assert not any("index_q.d_cqn" in name or "index_k.d_h" in name for name in names)


@pytest.mark.parametrize(("seq", "window"), [(64, 32), (70, 32), (20, 32), (128, 32)])
def test_scores_that_a_chunked_mask_leaves(seq: int, window: int) -> None:
    places = np.arange(seq)
    seen = (places[:, None] >= places) & (places[:, None] // window == places // window)
    found = pieces(model("chunked", full_every=0), seq=seq, mask="skip", attention="flash")
    step = next(step for step in found.blocks[1].forward.steps if step.name.endswith("attention"))
    assert step.gemm == pytest.approx(2 * 8 * int(seen.sum()) * (8 + 8))


def test_chunked_attention_beyond_a_chunk_is_refused_in_inference() -> None:
    work = ar.Inference(model("chunked"), batch=1, prompt=64, generated=1)
    with pytest.raises(InputError, match=r"window_kind: chunked attention over 6\d tokens in inference"):
        ar.simulate(design(work))


def test_a_module_for_prediction_by_hand() -> None:
    """One layer, the join of two vectors, the head again (arXiv 2412.19437, section 2.2); 11.5 B parameters of its own
    (DeepSeek-V3, README_WEIGHTS)."""
    plain = row("deepseek-v3")
    more = config.replace(plain, "mtp", 1)
    assert float(parameters(more).total - parameters(plain).total) == pytest.approx(11.5e9, rel=0.01)
    one, two = pieces(plain, seq=4096), pieces(more, seq=4096)
    layer = sum(step.gemm for step in one.blocks[2].forward.steps)
    head = sum(step.gemm for step in one.blocks[-1].forward.steps)
    join = 2 * 4096 * 2 * 7168**2
    assert flops(two, "forward") - flops(one, "forward") == pytest.approx(layer + head + join)
    assert flops(two, "backward") - flops(one, "backward") == pytest.approx(2 * (layer + head + join))


def test_formats_of_experts() -> None:
    """Checkpoints of gpt-oss: 60.8 and 12.8 GiB (arXiv 2508.10925, table 1)."""
    for name, size in (("gpt-oss-120b", 60.8), ("gpt-oss-20b", 12.8)):
        work = ar.Inference(name, batch=1, prompt=16, generated=1, formats={"experts": "mxfp4"})  # type: ignore[arg-type]
        assert inference_footprint(work)[0].weights / 2**30 == pytest.approx(size, abs=0.1)


@pytest.mark.parametrize(("fields", "message"), [
    ({"full_every": 2}, "full_every: has no effect without window or delta"),
    ({"delta": KINDS["delta"]["delta"], "window": 4}, "window: has no effect with delta"),
    ({"sparse": {"heads": 1, "head_size": 4, "top_k": 4}}, r"sparse\.heads: 1, but with ordinary heads"),
    ({"sparse": {"heads": 1, "head_size": 4, "top_k": 4}, "mla": {**LATENT, "q_rank": None}},
     "sparse: needs mla with q_rank"),
    ({"mla": LATENT, "gated_heads": True}, "gated_heads: has no effect with mla"),
    ({"delta": {"key_heads": 3, "key_size": 4, "value_heads": 4, "value_size": 4}}, "4 is not a multiple of 3 key_h"),
])
def test_what_does_not_go_together(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Decoder(**BASE, **fields)


def test_a_catalog_row_that_does_not_say_the_length_of_samples_asks_for_it() -> None:
    with pytest.raises(InputError, match="seq: is missing"):
        ar.Transformer("kimi-k2", global_batch=8)
    assert ar.Transformer("kimi-k2", global_batch=8, seq=4096).seq == 4096
