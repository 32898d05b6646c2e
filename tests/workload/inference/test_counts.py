"""FLOPs, bytes of cache and collectives of inference, against closed forms."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workload.inference.systems import inference, payloads

from astrarium.errors import InputError
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.formats import BYTES, Formats, widths_of
from astrarium.workload.inference.passes import inference as generated
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.inference.replica import Replica
from astrarium.workload.model.decoder import Decoder

OPT_13B = {"family": "decoder", "layers": 40, "d_model": 5120, "heads": 40, "ffn": 20480, "vocab": 50272,
           "gated": False, "activation": "relu", "positions": "learned", "max_positions": 2050, "norm": "layer"}


def gemm(replica: Replica, step: Packed) -> float:
    """GEMM-class FLOPs of one rank of a single stage."""
    pieces = replica.pieces(step)
    return sum(s.gemm for number in replica.blocks_of(0, pieces) for s in pieces.blocks[number].forward.steps)


def moved(replica: Replica, step: Packed, name: str) -> float:
    """Bytes of the steps of that name in one layer."""
    pieces = replica.pieces(step)
    return sum(s.bytes for s in pieces.blocks[pieces.layers[0]].forward.steps if s.name.endswith(name))


def closed_form(model: Decoder, step: Packed) -> int:
    """2 FLOPs per weight of a layer and token, 4 d per score (Korthikanti et al., appendix A, forward only)."""
    d, head = model.d_model, int(model.head)
    matrices = d * head * (2 * model.heads + 2 * model.groups) + d * model.ffn * (3 if model.gated else 2)
    layer = 2 * matrices * step.tokens + 4 * step.pairs(None, skip=True) * model.heads * head
    return model.layers * layer + 2 * d * model.vocab * step.sampled


@given(st.lists(st.builds(Sequences, st.integers(1, 4), st.integers(1, 50), st.integers(0, 500), st.just(1)),
                min_size=1, max_size=4))
@settings(max_examples=15)
def test_flops_of_any_mix_are_the_closed_form(parts: list[Sequences]) -> None:
    work, step = inference(prompt=1, phase="prefill"), Packed(tuple(parts))
    assert isinstance(work.model, Decoder)
    assert gemm(replica_of(work), step) == pytest.approx(closed_form(work.model, step), rel=1e-12)


@pytest.mark.parametrize("attention", ["flash", "unfused"])
@pytest.mark.parametrize(("tp", "sp"), [(2, 1), (1, 4), (8, 2), (16, 4)])
def test_ranks_share_the_flops(attention: str, tp: int, sp: int) -> None:
    step = Packed((Sequences(8, 1, 1023),))
    one = replica_of(inference(prompt=1, phase="prefill"))
    many = replica_of(inference(prompt=4, phase="prefill", tp=tp, sp=sp, attention=attention))
    model = one.model
    assert isinstance(model, Decoder)
    copies = max(1, tp // model.groups) - 1     # key and value heads that are stored more than once
    more = copies * 2 * 2 * model.d_model * model.groups * int(model.head) * step.tokens * model.layers
    assert gemm(many, step) * tp * sp == pytest.approx(gemm(one, step) + more, rel=1e-12)


def test_chunks_add_up_to_the_whole_prompt() -> None:
    replica = replica_of(inference(prompt=1, phase="prefill"))
    whole = Packed((Sequences(2, 1000, 0, 1),))
    chunks = [Packed((Sequences(2, min(256, 1000 - past), past, int(past == 768)),)) for past in range(0, 1000, 256)]
    assert sum(gemm(replica, each) for each in chunks) == pytest.approx(gemm(replica, whole), rel=1e-12)
    assert replica.cache_bytes(0, chunks[-1]) == replica.cache_bytes(0, whole)


def test_a_token_of_opt_13b_takes_800_kb_of_cache() -> None:
    """vLLM, arXiv 2309.06180, section 3: 2 (key and value) x 5120 x 40 layers x 2 bytes = 800 KB."""
    replica = replica_of(inference(model=OPT_13B, prompt=1, phase="prefill"))
    assert replica.cache_bytes(0, Packed((Sequences(1, 1, 0),))) == 800 * 1024


@pytest.mark.parametrize(("fields", "share"), [
    ({}, 1), ({"tp": 8}, Fraction(1, 8)), ({"tp": 16}, Fraction(1, 8)), ({"sp": 4}, Fraction(1, 4)),
    ({"tp": 8, "sp": 4}, Fraction(1, 32)), ({"formats": {"cache": "fp8"}}, Fraction(1, 2)),
    ({"compression": {"share": 2}}, Fraction(1, 2)), ({"compression": {"share": 4}}, Fraction(1, 4)),
    ({"pp": 2}, Fraction(1, 2))])
def test_cache_of_llama3_8b(fields: dict[str, Any], share: Fraction) -> None:
    """2 x 32 layers x 8 heads x 128 x 2 bytes = 128 KiB per token, shared out or compressed."""
    replica = replica_of(inference(prompt=4, phase="prefill", **fields))
    assert replica.cache_bytes(0, Packed((Sequences(4, 1, 399),))) == 4 * 400 * 128 * 1024 * share


def test_latent_attention_caches_576_elements() -> None:
    """DeepSeek-V2, arXiv 2405.04434, section 2.1.4: kv_rank 512 and a key of 64 for all heads, not divided by tp."""
    for tp in (1, 8):
        replica = replica_of(inference(model="deepseek-v2", prompt=1, phase="prefill", tp=tp))
        assert isinstance(replica.model, Decoder)
        assert replica.cache_bytes(0, Packed((Sequences(1, 1, 99),))) == 100 * 576 * 2 * replica.model.layers


def test_a_window_bounds_the_cache_that_is_read_and_held() -> None:
    replica = replica_of(inference(model="mistral-7b", prompt=1, phase="prefill"))
    assert isinstance(replica.model, Decoder)
    assert replica.model.window == 4096
    held = [replica.cache_bytes(0, Packed((Sequences(1, 1, past),))) for past in (4095, 10_000)]
    read = [moved(replica, Packed((Sequences(1, 1, past),)), "attention") for past in (4095, 10_000)]
    assert held[0] == held[1] == 4096 * 2 * 32 * 8 * 128 * 2
    assert read[0] == read[1]


def test_decode_reads_the_cache_once_and_the_weights_once() -> None:
    """Bytes of attention: queries, outputs, and the cache of all sequences."""
    replica, count, past = replica_of(inference(prompt=1, phase="prefill")), 5, 777
    step = Packed((Sequences(count, 1, past),))
    assert moved(replica, step, "attention") == 2 * count * 4096 * 2 + count * (past + 1) * 2 * 8 * 128 * 2
    assert moved(replica, step, "up+gate") == 2 * 4096 * 14336 * 2 + count * (4096 + 2 * 14336) * 2


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("ep", [1, 2, 8])
def test_experts_that_nobody_chose_are_not_read(ep: int, copies: int) -> None:
    """With choices at random a token misses an expert with 1 - top_k / experts; ep shares the rest out. Copies of
    experts see tokens of their own."""
    dp = ep * copies
    replica = replica_of(inference(model="mixtral-8x7b", prompt=1, phase="prefill", dp=dp, ep=ep, batch=2 * dp))
    tokens = 2 * ep
    hit, rows = 8 * (1 - (1 - 2 / 8) ** tokens), tokens * 2 / ep     # rows: on one rank
    found = moved(replica, Packed((Sequences(2, 1, 10),)), "expert_down")
    assert found == pytest.approx(hit / ep * 14336 * 4096 * 2 + rows * (14336 + 4096) * 2)


def test_compression_reads_a_share_of_the_past() -> None:
    whole = replica_of(inference(prompt=1, phase="prefill"))
    fifth = replica_of(inference(prompt=1, phase="prefill", compression={"keep": 0.2}))
    step = Packed((Sequences(1, 1, 1000),))
    saved = moved(whole, step, "attention") - moved(fifth, step, "attention")
    assert saved == 800 * 2 * 8 * 128 * 2
    assert fifth.cache_bytes(0, step) == 201 * 128 * 1024


@pytest.mark.parametrize("tp", [2, 8, 16])
@pytest.mark.parametrize("new", [1, 100])
def test_two_all_reduces_per_layer(tp: int, new: int) -> None:
    """Megatron, arXiv 1909.08053: after attention and FFN, batch x tokens x d of 2 bytes; and after the embedding."""
    fields = {"phase": "decode", "context": 50} if new == 1 else {"phase": "prefill", "prompt": new}
    made = generated(inference(tp=tp, batch=3, **fields))
    assert [size for size in payloads(made) if size > 100] == [3 * new * 4096 * 2] * (2 * 32 + 1)


def test_widths_of_weights() -> None:
    assert widths_of(Formats(weights="int4", scale_group=128))["weights"] == 0.5 + 2 / 128
    assert widths_of(Formats(sparse="2:4"))["weights"] == (2 + 0.25) / 2        # 2 values and 2 x 2 bits of every 4
    assert all(widths_of(Formats(weights=each))["weights"] == size for each, size in BYTES.items())


@pytest.mark.parametrize(("formats", "product", "attention"), [
    ({}, ("bf16", ""), ("bf16", "")), ({"weights": "fp8"}, ("fp8", "fp8"), ("bf16", "")),
    ({"weights": "fp8", "activations": "fp8", "cache": "fp8"}, ("fp8", "fp8"), ("bf16", "fp8")),
    ({"weights": "fp8_block"}, ("fp8_block", "fp8_block"), ("bf16", "")),
    ({"weights": "nvfp4", "cache": "fp8"}, ("fp4", "fp4"), ("bf16", "fp8")),
    ({"weights": "mxfp4", "activations": "fp8"}, ("fp8", "mxfp4"), ("bf16", "")),
    ({"weights": "int8"}, ("bf16", "int8"), ("bf16", "")),
    ({"weights": "int8", "activations": "int8"}, ("int8", "int8"), ("bf16", "")),
    ({"weights": "int4", "cache": "fp8"}, ("bf16", "int4"), ("bf16", "fp8")),
    ({"messages": "fp16", "weights": "fp16"}, ("fp16", ""), ("fp16", "")),
    ({"messages": "fp32"}, ("fp32", ""), ("fp32", "")),
    ({"sparse": "2:4"}, ("bf16", "bf16 2:4"), ("bf16", ""))])
def test_kernels_name_the_formats_of_weights_and_cache(formats: dict[str, str], product: tuple[str, str],
                                                       attention: tuple[str, str]) -> None:
    """Of a decode step; products of activations alone and logits are in the format of messages."""
    made = generated(inference(phase="decode", context=50, formats=formats))
    kernels = {kernel for trace in made.classes for kernel in trace.kernels}
    products = {(each.precision, each.held) for each in kernels if each.kind == "gemm" and each.shape[2] < 100_000}
    assert products == {product}
    assert {(each.precision, each.held) for each in kernels if each.kind == "attention"} == {attention}


@pytest.mark.parametrize(("model", "held"), [("llama3-8b", "fp8"), ("deepseek-v3", "")])
def test_new_prompts_attend_to_what_they_wrote_to_the_cache(model: str, held: str) -> None:
    """Engines append keys and values first; of latents, prompts make keys and values in 16 bits again."""
    made = generated(inference(model=model, phase="prefill", prompt=64, formats={"cache": "fp8"}))
    kernels = {kernel for trace in made.classes for kernel in trace.kernels}
    assert {(each.precision, each.held) for each in kernels if each.kind == "attention"} == {("bf16", held)}


def test_what_checkpoints_leave_in_16_bits() -> None:
    """DeepSeek-V3's fp8 checkpoint: embeddings, head, routers and norms are in bf16 (two bytes of 1.96e9 parameters);
    routers and absorbed matrices compute in it, too."""
    work = inference(model="deepseek-v3", phase="decode", context=50, tp=8, formats={"weights": "fp8_block"})
    kernels = {kernel for trace in generated(work).classes for kernel in trace.kernels}
    wide = {each.shape[2:] for each in kernels if each.kind == "gemm" and each.precision == "bf16"}
    assert wide == {(256, 7168), (512, 128), (128, 512), (129280 // 8, 7168)}
    assert {each.precision for each in kernels if each.kind == "grouped_gemm"} == {"fp8_block"}
    whole = replica_of(inference(model="deepseek-v3", prompt=1, phase="prefill", formats={"weights": "fp8_block"}))
    plain = 2 * 129280 * 7168 + 58 * 256 * (7168 + 1)
    assert whole.weight_bytes(0) == pytest.approx((671.03e9 - plain) * (1 + 4 / 128**2) + 2 * plain, rel=1e-3)


@pytest.mark.parametrize(("formats", "message"), [
    ({"activations": "fp8"}, "fp8 is what products of quantised weights take"),
    ({"activations": "fp32"}, "fp32 is what products of quantised weights take"),
    ({"weights": "fp8", "activations": "nvfp4"}, "narrower than weights in fp8"),
    ({"weights": "fp4"}, "nvfp4")])
def test_formats_without_a_meaning_are_refused(formats: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        inference(phase="decode", context=50, formats=formats)


def test_sparse_weights_halve_their_products_only() -> None:
    step = Packed((Sequences(2, 1, 500),))
    dense, sparse = (replica_of(inference(prompt=1, phase="prefill", formats={"sparse": each}))
                     for each in ("none", "2:4"))
    scores = 4 * step.pairs(None, skip=True) * 4096 * 32
    assert gemm(sparse, step) - scores == pytest.approx((gemm(dense, step) - scores) / 2, rel=1e-12)


def test_weights_of_a_rank_are_the_parameters() -> None:
    """LLaMA 3 8B has 8,030,261,248; with tp the norms (65 x 4096) are on every rank."""
    assert replica_of(inference(prompt=1, phase="prefill")).weight_bytes(0) == 2 * 8_030_261_248
    norms = 65 * 4096
    assert replica_of(inference(prompt=1, phase="prefill", tp=8)).weight_bytes(0) == 2 * (
        (8_030_261_248 - norms) / 8 + norms)
    stages = replica_of(Inference("llama3-8b", prompt=1, phase="prefill", pp=4))
    assert sum(stages.weight_bytes(stage) for stage in range(4)) == 2 * 8_030_261_248
