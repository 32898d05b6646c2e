"""Decoders whose layers are of several kinds: parameters and cache by hand, and every kind runs."""

from __future__ import annotations

from typing import Any

import pytest

import astrarium as ar
from astrarium.errors import InputError
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.footprint import cache_blocks
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.hugging_face import from_mapping
from astrarium.workload.model.parameters import parameters

from .common import sample
from .test_runs import design, same

D, V, FFN = 64, 1000, 160      # sizes of every sample: d_model, vocabulary, FFN
HEAD = 2 * V * D + D           # embedding, head, final norm
EXPERT = 3 * D * 48            # gated
KINDS = ("nemotron_h", "nemotron-nas", "mimo_v2_flash", "step3p7", "gemma4_text")


def nemotron_h() -> tuple[int, int]:
    """(all, those that a token does not use): one norm a layer, no positions, no gates; experts between two matrices
    of a latent space."""
    inner, shared = 8 * 16, 2 * 2 * 32
    mamba = D * (2 * inner + shared + 8) + inner * D + 5 * (inner + shared) + 3 * 8 + inner
    attention = D * (8 + 2 * 2) * 16 + 8 * 16 * D
    experts = 8 * 2 * 24 * 48 + 2 * D * 24 + 2 * D * 96 + 8 * (D + 1)
    return HEAD + 3 * D + mamba + attention + experts, 6 * 2 * 24 * 48


def mimo() -> tuple[int, int]:
    """Keys of 16 and values of 8 numbers; 2 key and value heads where all is seen, 4 and sinks in a window."""
    full, window = (D * (8 * 16 + kv * (16 + 8)) + 8 * 8 * D for kv in (2, 4))
    routed = 8 * EXPERT + 8 * (D + 1)
    return HEAD + 6 * D + full + 2 * (window + 8) + 3 * D * FFN + 2 * routed, 2 * 6 * EXPERT


def step() -> tuple[int, int]:
    attention = D * (8 + 2 * 2) * 16 + 8 * 16 * D + 2 * 16
    routed = 9 * EXPERT + 8 * (D + 1)
    return HEAD + 6 * D + 3 * attention + 3 * D * FFN + 2 * routed, 2 * 6 * EXPERT


def minimax_m3() -> tuple[int, int]:
    """Two of three layers have an indexer: a query of 24 numbers for each of 2 heads, a key, and their norms."""
    attention, indexer = D * (8 + 2 * 2) * 16 + 8 * 16 * D + 2 * 16, D * 3 * 24 + 2 * 24
    routed = 9 * EXPERT + 8 * (D + 1)
    return HEAD + 6 * D + 3 * attention + 2 * indexer + 3 * D * FFN + 2 * routed, 2 * 6 * EXPERT


def deepseek_v4() -> tuple[int, int]:
    """One key and value for 8 heads; 4 groups of heads with an output matrix; layers of a window, CSA and HCA; around
    each part of a layer 24 weights of 4 streams."""
    plain = 40 * (D + 8 * 16) + D * 16 + 8 + 24 * (8 * 16 + 4 * D) + 40 + 16
    hca = 16 * (2 * D + 128) + 16
    csa = 2 * 16 * (2 * D + 4) + 16 + 4 * (40 * 12 + D) + 2 * 12 * (2 * D + 4) + 12
    streams, last = 24 * (4 * D + 1) + 3, 4 * (4 * D + 1) + 1
    routed = 9 * EXPERT + 8 * (D + 1)
    return HEAD + 6 * D + 3 * plain + hca + csa + 6 * streams + last + 3 * routed, 3 * 6 * EXPERT


def gemma4() -> tuple[int, int]:
    """Four norms and three for experts; a layer that sees all has no matrix for values; the head is the embedding."""
    window = D * (8 + 2 * 4) * 16 + 8 * 16 * D + 2 * 16
    full = D * (8 + 2) * 32 + 8 * 32 * D + 2 * 32
    feed = 3 * D * FFN + 8 * EXPERT + 8 * D + D + 8
    return V * D + D + 3 * (7 * D + feed) + 2 * window + full, 3 * 6 * EXPERT


def nemotron_nas() -> tuple[int, int]:
    """d_model 192: FFNs of 2/3 and 1/3 x 2 x 192, up to a multiple of 256; the second layer has no attention."""
    d, attention = 192, 192 * (8 + 2 * 2) * 24 + 192 * 192
    return 2 * V * d + d + 5 * d + 2 * attention + 3 * d * 256 * 3, 0


@pytest.mark.parametrize(("kind", "hand"), [
    ("nemotron_h", nemotron_h()), ("mimo_v2_flash", mimo()), ("step3p7", step()), ("gemma4_text", gemma4()),
    ("nemotron-nas", nemotron_nas()), ("minimax_m3", minimax_m3()), ("deepseek_v4", deepseek_v4())])
def test_parameters_by_hand(kind: str, hand: tuple[int, int]) -> None:
    found = parameters(from_mapping(sample(kind)))
    assert (found.total, found.total - found.active) == hand


@pytest.mark.parametrize(("kind", "tokens", "numbers"), [
    ("nemotron_h", 100, 100 * 2 * 2 * 16 + 8 * 16 * 32 + 3 * (8 * 16 + 2 * 2 * 32)),    # a cache, a state
    ("mimo_v2_flash", 100, 100 * 2 * (16 + 8) + 2 * 32 * 4 * (16 + 8)),
    ("mimo_v2_flash", 20, 20 * 2 * (16 + 8) + 2 * 20 * 4 * (16 + 8)),
    ("gemma4_text", 100, 100 * 2 * 2 * 32 + 2 * 32 * 2 * 4 * 16),
    ("nemotron-nas", 100, 2 * 100 * 2 * 2 * 24),
    # the window, 25 entries and an indexer's 25 (CSA) or none yet (HCA), and the tokens that wait
    ("deepseek_v4", 100, 3 * 32 * 16 + 25 * (16 + 12) + 2 * 2 * (16 + 12) * 4 + 2 * 16 * 128),
    ("minimax_m3", 100, 3 * 100 * 2 * 2 * 16 + 2 * 100 * 24),       # all tokens stay cached
])
def test_cache_of_a_sequence_by_hand(kind: str, tokens: int, numbers: int) -> None:
    replica = replica_of(Inference(from_mapping(sample(kind)), batch=1, prompt=40, generated=3))
    assert replica.cache_bytes(0, Packed((Sequences(1, 1, tokens - 1),))) == 2 * numbers
    assert cache_blocks([replica], 1e9, 16, 100).of(1) >= 1


@pytest.mark.parametrize("kind", [*KINDS, "minimax_m3", "deepseek_v4"])
@pytest.mark.parametrize("how", [
    {"phase": "prefill", "tp": 2, "pp": 3, "chunk": 24}, {"phase": "decode", "dp": 2, "context": 50, "tp": 4}])
def test_every_kind_generates(kind: str, how: dict[str, Any]) -> None:
    same(Inference(from_mapping(sample(kind)), batch=4, **{"prompt": 40, "generated": 3, **how}))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_trains(kind: str) -> None:
    same(ar.Transformer(from_mapping(sample(kind)), global_batch=4, seq=64, tp=2, dp=2))


def test_latent_experts_send_latents() -> None:
    """Over ep a token's vector is 24 numbers long, not 64."""
    for latent, size in ((24, 24), (None, 64)):
        model = from_mapping(sample("nemotron_h", moe_latent_size=latent))
        work = Inference(model, batch=8, phase="decode", context=10, dp=4, ep=4)
        found = replica_of(work).pieces(Packed((Sequences(2, 1, 10),)))
        sent = [step.bytes for block in found.blocks for step in block.forward.steps if "all_to_all" in step.name]
        assert sent
        assert max(sent) == 2 * 2 * 2 * size        # two tokens to two experts each, in bf16


def test_attention_reads_the_blocks_that_were_chosen() -> None:
    """4 blocks of 8 tokens of 500 that are cached, and of the indexer all; in training it is refused."""
    work = Inference(from_mapping(sample("minimax_m3")), batch=1, phase="decode", context=499)
    steps = {step.name: step for block in replica_of(work).pieces(Packed((Sequences(1, 1, 499),))).blocks
             for step in block.forward.steps}
    kernels = [step.kernel for name, step in steps.items() if name.endswith(".attention") and step.kernel]
    assert sorted(kernel.shape[4] for kernel in kernels) == [32, 500]
    assert steps["expert_layer.index_scores"].gemm == 2 * 500 * 2 * 24
    with pytest.raises(InputError, match="attention to blocks of tokens is not modelled in training"):
        ar.simulate(design(ar.Transformer(work.model, global_batch=4, seq=64)))


def test_attention_to_compressed_tokens() -> None:
    """Of 500 tokens a query sees 32 as they are and 8 of 125 entries, or all 3 entries of 128 tokens."""
    work = Inference(from_mapping(sample("deepseek_v4")), batch=1, phase="decode", context=499)
    steps = {step.name: step for block in replica_of(work).pieces(Packed((Sequences(1, 1, 499),))).blocks
             for step in block.forward.steps}
    kernels = [step.kernel for name, step in steps.items() if name.endswith(".attention") and step.kernel]
    assert sorted(kernel.shape[4] for kernel in kernels) == [32, 35, 40]
    assert steps["compressed4_expert_layer.index_scores"].gemm == 2 * 125 * 4 * 12
    blocks = cache_blocks([replica_of(work)], 1e9, 16, 100)
    grown = (blocks.of(100_000) - blocks.of(20_000)) / blocks.total * 1e9
    assert grown == pytest.approx(80_000 * 2 * (16 / 4 + 12 / 4 + 16 / 128), rel=0.02)
    with pytest.raises(InputError, match="attention to compressed tokens is modelled neither in training"):
        ar.simulate(design(ar.Transformer(work.model, global_batch=4, seq=64)))


def model(**more: Any) -> Decoder:
    return Decoder(layers=3, d_model=64, heads=4, ffn=128, vocab=500, **more)


@pytest.mark.parametrize(("more", "message"), [
    ({"pattern": ["full"] * 2}, "pattern: names 2 layers; expected 3"),
    ({"ffns": [128]}, "ffns: names 1 layers; expected 3"),
    ({"pattern": ["full+ffn", "fall", "full"]}, r"pattern\[1\]: 'fall' is no kind of layer; expected one of full, "),
    ({"pattern": ["full+window"] * 3}, r"pattern\[0\]: 'full\+window' is no kind of layer"),
    ({"pattern": ["mamba"] * 3}, r"pattern\[0\]: 'mamba' needs mamba"),
    ({"pattern": ["full+experts"] * 3}, r"pattern\[0\]: 'full\+experts' needs moe"),
    ({"mamba": {"heads": 4}}, "mamba: has no effect without a pattern"),
    ({"full_heads": {"kv_heads": 2}}, "full_heads: has no effect without a window"),
])
def test_patterns_that_cannot_be(more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        model(**more)


def test_what_no_family_has_is_named() -> None:
    with pytest.raises(InputError, match=r"model_type: 'kimi_k3' has no model here: .*attn_res_block_size"):
        from_mapping({"model_type": "kimi_k3"})


@pytest.mark.parametrize(("kind", "changes", "message"), [
    ("nemotron_h", {"layers_block_type": ["mamba", "moe", "lstm"]}, "layers_block_type: 'lstm' has no model here"),
    ("nemotron_h", {"mlp_hidden_act": "silu"}, "mlp_hidden_act: 'silu' has no model here; expected relu2"),
    ("deepseek_v4", {"compress_ratios": [0, 8, 4]}, r"compress_ratios: \[0, 8, 4\] has no model here"),
    ("step3p7", {"attention_other_setting": {"num_attention_heads": 9}}, "attention_other_setting: .* has no model"),
    ("gemma4_text", {"num_kv_shared_layers": 2}, "num_kv_shared_layers: 2 has no model here"),
    ("gemma4_text", {"hidden_size_per_layer_input": 256}, "hidden_size_per_layer_input: 256 has no model here"),
    ("mimo_v2_flash", {"hybrid_layer_pattern": [0, 1]}, "hybrid_layer_pattern: 2 kinds of 3 layers has no model here"),
    ("nemotron-nas", {"block_configs": [{"attention": {"window_length": 9}, "ffn": {}}]}, "window_length: 9 has no"),
])
def test_features_of_these_files_that_are_refused(kind: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_mapping(sample(kind, **changes))


def test_a_hybrid_runs_in_time_of_its_layers() -> None:
    """A pattern of one kind only is the plain model."""
    plain, listed = model(), model(pattern=["full+ffn"] * 3)
    times = {ar.simulate(design(Inference(each, batch=2, prompt=40, generated=3))).makespan_ps
             for each in (plain, listed)}
    assert len(times) == 1
