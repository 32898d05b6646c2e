"""Every family runs, under a mix of axes, schedules and ZeRO: folded and with every rank, to the same makespan."""

from __future__ import annotations

import math
from typing import Any

import pytest

import astrarium as ar
from astrarium.errors import InputError
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.disaggregated import Disaggregated
from astrarium.workload.inference.footprint import CacheBlocks, cache_blocks
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.model.base import Model
from astrarium.workload.model.diffusion import Diffusion
from astrarium.workload.model.dlrm import Dlrm
from astrarium.workload.model.hugging_face import from_mapping

from .common import SAMPLES, sample

OTHERS: dict[str, Model] = {
    "dit": Diffusion(layers=4, d_model=64, heads=4, ffn=256, latent=16, patch=2),
    "dlrm": Dlrm(tables=(1000, 200, 30), lookups=(3, 1, 2), embedding=16, dense=13, bottom=(32, 16), top=(64, 1)),
}
KINDS = ("mixtral", "qwen3_moe", "deepseek_v2", "deepseek_v3", "gpt_neox", "bert", "vit", "t5", "whisper", "mamba2")


def design(workload: ar.Transformer | Inference) -> ar.Design:
    network = ar.Network([ar.Switch(workload.ranks, bandwidth="100 GB/s", latency="500 ns")])
    return ar.Design(workload=workload, network=network, compute=ar.Roofline(peak="100 TFLOP/s"),
                     memory=ar.Memory(capacity="80 GB", bandwidth="2 TB/s"))


def same(workload: ar.Transformer | Inference) -> None:
    folded, every = (ar.simulate(design(workload), fold=fold) for fold in ("auto", "off"))
    assert folded.makespan_ps == every.makespan_ps > 0
    assert folded.peak_memory == every.peak_memory


HOW: tuple[dict[str, Any], ...] = (
    {"dp": 2, "tp": 2, "pp": 2, "micro_batch": 1},
    {"dp": 4, "sp": 2, "zero": 3, "recompute": "full"},
    {"dp": 2, "tp": 2, "tp_sequence": True, "cp": 2, "zero": 1})


@pytest.mark.parametrize(("kind", "how"), [       # two of the three for each family in the suite, all in the exam
    pytest.param(kind, how, id=f"{kind}-{j}", marks=[pytest.mark.exam] if i % 3 == j else [])
    for i, kind in enumerate((*KINDS, "dit")) for j, how in enumerate(HOW)])
def test_every_family_runs(kind: str, how: dict[str, Any]) -> None:
    assert set(KINDS) <= set(SAMPLES)
    model = OTHERS[kind] if kind in OTHERS else from_mapping(sample(kind))
    ep = how["dp"] if kind in ("mixtral", "qwen3_moe", "deepseek_v2", "deepseek_v3") else 1
    seq = None if kind in ("dit", "vit", "whisper") else 48
    same(ar.Transformer(model, global_batch=8, ep=ep, seq=seq, uneven="pad" if kind == "vit" else "refuse",
                        vocab_multiple=8, **how))


@pytest.mark.parametrize("ep", [1, 4])
def test_a_recommendation_model_runs(ep: int) -> None:
    same(ar.Transformer(OTHERS["dlrm"], global_batch=64, dp=4, ep=ep))


@pytest.mark.parametrize("how", [
    {"phase": "prefill", "tp": 2, "pp": 2, "chunk": 24}, {"phase": "decode", "dp": 2}, {"phase": "request", "tp": 4},
])
def test_a_state_space_model_generates(how: dict[str, Any]) -> None:
    same(Inference(from_mapping(sample("mamba2")), batch=4, prompt=40, generated=3, **how))


def test_a_state_does_not_grow() -> None:
    """A decode step takes the same time and memory at any context; with a cache it does not."""
    for kind, alike in (("mamba2", True), ("llama", False)):
        times = {ar.simulate(design(Inference(from_mapping(sample(kind)), batch=2, phase="decode", context=context,
                                              tp=2))).peak_memory for context in (10, 5000)}
        assert (len(times) == 1) == alike


@pytest.mark.parametrize(("change", "message"), [
    ({"compression": {"keep": 0.5}}, r"compression: has no effect for a model without a cache"),
    ({"tp": 3}, r"tp: 3 does not divide 8 heads; expected a divisor, such as 2 or 4"),
    ({"pp": 3}, r"pp: 3 stages of 2 layers"),
    ({"sp": 2}, r"sp: 2, but a state is not spread over ranks"),
    ({"ep": 2, "dp": 2}, r"ep: 2, but the model has no experts"),
])
def test_what_a_state_space_model_cannot_do(change: dict[str, Any], message: str) -> None:
    model = from_mapping(sample("mamba2"))
    with pytest.raises(InputError, match=message):
        Inference(model, batch=4, prompt=40, generated=3, **change)


def test_disaggregation_is_for_caches() -> None:
    model = from_mapping(sample("mamba2"))
    with pytest.raises(InputError, match=r"model: has a state and no cache, and only caches are sent"):
        Disaggregated(model=model, batch=4, prompt=40, generated=3, prefill={"tp": 1}, decode={"tp": 1})  # type: ignore[arg-type]


def blocks(kind: str, **how: Any) -> CacheBlocks:
    """Of a server with a gigabyte; a block has 16 tokens."""
    return cache_blocks([replica_of(Inference(from_mapping(sample(kind)), batch=4, prompt=40, generated=3, **how))],
                        1e9, 16, 100)


def test_a_sequence_holds_what_its_layers_keep() -> None:
    """By hand: cached tokens of every layer, those of a window only, states of a fixed size."""
    grows = blocks("llama")
    assert [grows.of(tokens) for tokens in (1, 16, 17, 1000)] == [1, 1, 2, 63]
    window = blocks("mistral")                      # 32 tokens: two blocks and one that is being freed
    assert [window.of(tokens) for tokens in (16, 48, 49, 1000)] == [1, 3, 3, 3]
    mixed = blocks("gpt_oss")                       # every other of 4 layers has a window of 32 tokens
    assert [mixed.of(tokens) for tokens in (48, 80, 1600)] == [3, 4, 52]        # 3 + (5 - 3) / 2, 3 + (100 - 3) / 2


def test_states_are_counted_per_sequence() -> None:
    """A hybrid of 4 layers: one caches 2 x 2 x 16 numbers a token, three keep 4 x 16 x 24 of a state and the last 3
    tokens of 2 x 2 x 16 + 4 x 24; a Mamba keeps nothing else."""
    state = 3 * (4 * 16 * 24 + 3 * (2 * 2 * 16 + 4 * 24))
    found = blocks("qwen3_next")
    assert found.fixed == pytest.approx(state / (16 * 64))
    assert found.of(160) == 10 + math.ceil(state / (16 * 64))
    wide = blocks("qwen3_next", formats={"cache": "fp8"})
    assert wide.fixed == pytest.approx(2 * found.fixed)     # states keep the format of activations
    assert {blocks("mamba2").of(tokens) for tokens in (1, 100_000)} == {1}


def test_states_in_fp32_take_four_bytes() -> None:
    plain, exact = sample("qwen3_5_text"), sample("qwen3_5_text", mamba_ssm_dtype="float32")
    sizes = [replica_of(Inference(from_mapping(each), batch=1, prompt=40, generated=3)).cache_bytes(0, Packed((
        Sequences(1, 1, 39),))) for each in (plain, exact)]
    assert sizes[1] - sizes[0] == 3 * 4 * 16 * 24 * 2
