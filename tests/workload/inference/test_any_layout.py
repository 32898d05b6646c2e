"""Whatever is put together runs, folded and unfolded alike and within its footprint, or is refused with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.draws import draws
from tests.workload.checks import check
from tests.workload.inference.systems import design, inference

import astrarium as ar
from astrarium.trace.export import write_generated
from astrarium.workload.inference.footprint import inference_footprint
from astrarium.workload.inference.passes import inference as generated

BASE: dict[str, Any] = {"family": "decoder", "layers": 4, "d_model": 64, "heads": 8, "ffn": 128, "vocab": 100}
LATENT = {"kv_rank": 32, "nope_size": 8, "rope_size": 4, "v_size": 8}
MODELS = st.sampled_from([
    BASE, {**BASE, "kv_heads": 2}, {**BASE, "kv_heads": 1, "window": 16}, {**BASE, "window": 8, "full_every": 2},
    {**BASE, "moe": {"experts": 8, "top_k": 2, "shared_experts": 1, "dense_layers": 1}}, {**BASE, "mla": LATENT},
    {**BASE, "mla": {**LATENT, "q_rank": 16}, "moe": {"experts": 4, "top_k": 1, "capacity_factor": 1.5}},
    {**BASE, "parallel": True, "norm": "layer", "biases": ["qkv", "out", "mlp", "head"], "gated": False},
    {**BASE, "tied_embeddings": True, "positions": "learned", "max_positions": 512, "qk_norm": True}])
few = st.sampled_from([1, 1, 1, 2, 4])


@st.composite
def workloads(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of an Inference; most are legal together."""
    phase = draw(st.sampled_from(["prefill", "decode", "request"]))
    fields: dict[str, Any] = {
        "model": draw(MODELS), "tp": draw(st.sampled_from([1, 2, 4, 8])), "sp": draw(few), "dp": draw(few),
        "pp": draw(few), "ep": draw(few), "moe_tp": draw(st.sampled_from([None, None, 1, 2, 4])),
        "exchange": draw(st.sampled_from(["all_to_all", "all_gather"])), "micro_batches": draw(st.sampled_from([1, 2])),
        "batch": draw(st.sampled_from([4, 8, 16, 32])),
        "phase": phase, "prompt": draw(st.sampled_from([8, 16, 33])), "generated": draw(st.sampled_from([1, 5])),
        "attention": draw(st.sampled_from(["flash", "unfused"])), "mask": draw(st.sampled_from(["skip", "full"])),
        **draw(st.sampled_from([{"fusion": False}, {"fusion": True}, {"fusion": "engine"}, {"operators": "eager"},
                                {"operators": "eager", "fused_weights": True}])),
        "uneven": draw(st.sampled_from(["refuse", "pad", "fractional"])),
        "order": draw(st.sampled_from(["megatron", "stage", "pp-dp-ep-sp-cp-tp"])),
        "compression": {"keep": draw(st.sampled_from([1, 0.5])), "share": draw(st.sampled_from([1, 1, 2]))}}
    if phase != "decode":
        fields["chunk"] = draw(st.sampled_from([None, 4, 16]))
    if phase == "request":
        fields["contexts"] = draw(st.sampled_from(["mean", "each"]))
    if phase != "prefill" and draw(st.integers(0, 4)) == 0:
        fields |= {"speculation": {"draft": draw(MODELS), "tokens": 2, "acceptance": 0.5}, "pp": 1}
    return fields


def runs(fields: dict[str, Any]) -> None:
    try:
        work = ar.Inference(**fields)
    except ar.InputError:
        return
    made = generated(work)
    check(made)
    folded, plain = (ar.simulate(design(work), fold=fold) for fold in ("auto", "off"))
    assert folded.makespan_ps == plain.makespan_ps
    assert float(np.nanmax(folded.memory.peak)) <= max(each.total for each in inference_footprint(work)) + 1000


@given(workloads())
@draws(16)
def test_any_layout(fields: dict[str, Any]) -> None:
    runs(fields)


@pytest.mark.exam
@given(workloads())
@settings(max_examples=1000)
def test_any_layout_at_length(fields: dict[str, Any]) -> None:
    runs(fields)


@pytest.mark.parametrize("fields", [{"tp": 4, "dp": 2}, {"pp": 2, "tp": 2, "micro_batches": 2}])
def test_written_traces_run_as_the_workload_does(fields: dict[str, Any], tmp_path: Path) -> None:
    work = inference(model=BASE, batch=4, prompt=16, generated=3, **fields)
    base = design(work)
    write_generated(generated(work), tmp_path / "w")
    groups = tmp_path / "w.groups.json"
    files = ar.Trace(str(tmp_path / "w.*.et"), groups=str(groups) if groups.exists() else None)
    assert ar.simulate(ar.replace(base, "workload", files)).makespan_ps == ar.simulate(base).makespan_ps
