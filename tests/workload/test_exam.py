"""Exam: training under random parallelisations, on random networks, folded and unfolded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import astrarium as ar
from astrarium.errors import InputError
from astrarium.workload.generate import generate
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.experts import Experts

from .checks import check

SIZES: dict[str, Any] = {"layers": 8, "d_model": 64, "heads": 8, "ffn": 128, "vocab": 512, "seq": 64}
GPT: dict[str, Any] = {"gated": False, "norm": "layer", "biases": ("qkv", "out", "mlp"), "positions": "learned",
                       "max_positions": 64, "tied_embeddings": True}
MODELS = {"llama": Decoder(**SIZES, kv_heads=4), "gpt": Decoder(**SIZES, **GPT),
          "moe": Decoder(**SIZES, kv_heads=4, moe=Experts(experts=8, top_k=2, dense_layers=1, shared_experts=1)),
          "sinks": Decoder(**SIZES, kv_heads=4, sinks=True, gated_heads=True, window=16, full_every=2),
          "prediction": Decoder(**SIZES, moe=Experts(experts=8, top_k=2, shared_experts=1, shared_gate=True), mtp=1)}
TWO = st.sampled_from([1, 1, 2])
WORK = st.fixed_dictionaries({
    "model": st.sampled_from(sorted(MODELS)), "tp": TWO, "cp": TWO, "sp": TWO, "ep": TWO,
    "dp": st.sampled_from([1, 2, 4]), "pp": st.sampled_from([1, 2, 4]), "micro_batch": st.sampled_from([None, 1, 2, 4]),
    "zero": st.integers(0, 3), "zero_ranks": st.sampled_from([None, None, 1, 2]),
    "order": st.sampled_from(["megatron", "stage", "pp-dp-ep-sp-cp-tp", "dp-pp-tp-ep-cp-sp"]),
    "schedule": st.sampled_from(["gpipe", "1f1b", "interleaved", "zero_bubble", "dualpipe"]),
    "overlap": st.booleans(), "clip": st.booleans(), "dropout": st.booleans(), "fusion": st.booleans(),
    "recompute": st.sampled_from(["none", "selective", "full"]), "attention": st.sampled_from(["flash", "unfused"]),
    "tp_sequence": st.booleans(), "sp_attention": st.sampled_from(["gather", "all_to_all"]),
    "cp_attention": st.sampled_from(["ring", "gather"]), "checkpoint": st.booleans(),
    "offload": st.sampled_from(["none", "optimizer", "activations"])})
DIM = st.tuples(st.sampled_from([ar.Ring, ar.Switch, ar.FullyConnected]), st.sampled_from(["10 GB/s", "100 GB/s"]),
                st.sampled_from(["100 ns", "5 us"]))
SYSTEM = st.fixed_dictionaries({
    "dims": st.tuples(*[DIM] * 5), "cuts": st.tuples(*[st.sampled_from([2, 4, 8])] * 5),
    "backend": st.sampled_from(["closed_form", "contention"]), "streams": st.integers(1, 3),
    "scheduling": st.sampled_from(["lifo", "fifo", "priority"])})


def _work(fields: dict[str, Any]) -> ar.Transformer | None:
    """The workload, or None where the fields do not go together."""
    model = MODELS[fields["model"]]
    more = {"virtual_stages": 2} if fields["schedule"] == "interleaved" else {}
    if model.moe is None:
        more["ep"] = 1
    if fields["zero"] == 0:
        more["zero_ranks"] = None
    try:
        return ar.Transformer(**{**fields, **more, "model": model, "global_batch": 8 * fields["dp"]})
    except InputError:
        return None


def _design(work: ar.Transformer, system: dict[str, Any]) -> ar.Design:
    dims, left = [], work.ranks
    for (shape, bandwidth, latency), cut in zip(system["dims"], system["cuts"], strict=True):
        size = cut if left % cut == 0 else 2
        if left > 1:
            dims.append(shape(size, bandwidth=bandwidth, latency=latency))
            left //= size
    return ar.Design(
        workload=work, compute=ar.Roofline(peak="1 TFLOP/s"),
        memory=ar.Memory(bandwidth="1 TB/s", remote=ar.Remote(kind="per_npu", bandwidth="10 GB/s")),
        network=ar.Network(dims, backend=system["backend"]), system=ar.System(comm_streams=system["streams"]),
        collective=ar.Collective(scheduling=system["scheduling"]))


@pytest.mark.exam
@settings(max_examples=300)
@given(WORK, SYSTEM)
def test_any_parallelisation_runs_on_any_network(fields: dict[str, Any], system: dict[str, Any]) -> None:
    """Messages and collectives match, nothing waits for ever, and folding changes no integer."""
    work = _work(fields)
    assume(work is not None and 1 < work.ranks <= 32)
    assert work is not None
    check(generate(work))
    design = _design(work, system)
    assert ar.simulate(design, record=False).makespan == ar.simulate(design, fold="off", record=False).makespan
