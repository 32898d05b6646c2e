"""Why two serving designs differ: parts and knobs add up, and go where an oracle says they belong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Run

from astrarium.config import replace_all
from astrarium.errors import InputError
from astrarium.search.explain_serving import explain_serving
from astrarium.search.subject import load_base
from astrarium.serving import serve
from astrarium.serving.breakdown import recorded
from astrarium.serving.design import ServingDesign, dump_serving

DESIGN = """
workload: {source: inference, model: gpt2-small, phase: decode, context: 1}
network: {dims: [{shape: switch, npus: 1, bandwidth: 450 GB/s, latency: 500 ns}]}
compute: {model: roofline, peak: 989.4 TFLOP/s}
memory: {capacity: 80 GB, bandwidth: 3.35 TB/s}
"""
SERVING = """
design: design.yaml
requests: {kind: poisson, rate: 4000, count: 150, seed: 1, prompt: 60, output: 12}
policy: {overhead: 10 us, stream_offset: 50 us}
"""
APART = """
workload: {source: disaggregated, model: gpt2-small, prefill: {dp: 2}, decode: {tp: 2}, batch: 2, prompt: 1,
           generated: 1}
network: {dims: [{shape: switch, npus: 4, bandwidth: 450 GB/s, latency: 500 ns}]}
compute: {model: roofline, peak: 989.4 TFLOP/s}
memory: {capacity: 80 GB, bandwidth: 3.35 TB/s}
"""


@pytest.fixture
def base(tmp_path: Path) -> ServingDesign:
    """A serving design of one NPU."""
    (tmp_path / "design.yaml").write_text(DESIGN)
    (tmp_path / "serving.yaml").write_text(SERVING)
    found = load_base(tmp_path / "serving.yaml")
    assert isinstance(found, ServingDesign)
    return found


def sums(design: ServingDesign) -> dict[str, float]:
    """Figures of `serve` in ps: what the parts of a design have to add up to."""
    served = serve(design, design.requests, design.policy)
    found = served.summary()
    return {"ttft": found["ttft_mean_ns"] * 1e3, "tpot": found["tpot_mean_ns"] * 1e3,
            "npu_time": served.npus / found["output_tokens_per_s"] * 1e12}


CHANGES: dict[str, Any] = {"a policy": {"policy.max_tokens": 64}, "several": {
    "policy.schedule": "prefill_first", "memory.bandwidth": "2 TB/s", "workload.formats.weights": "fp8"}}


@pytest.mark.parametrize("name", ["a policy", pytest.param("several", marks=pytest.mark.exam)])
def test_parts_and_knobs_add_up(base: ServingDesign, name: str) -> None:
    other = replace_all(base, CHANGES[name])
    found = explain_serving(base, other)
    before, after = sums(base), sums(other)
    for figure, parts in found.parts.items():
        assert sum(part.before for part in parts) == pytest.approx(before[figure], rel=1e-9)
        assert sum(part.after for part in parts) == pytest.approx(after[figure], rel=1e-9)
    for figure, each in found.knobs.items():
        assert sum(change.contribution for change in each.changes) == each.difference
        if figure != "tokens_per_second":
            assert each.difference == pytest.approx(after[figure] - before[figure], abs=2)
    kinds = {part.name for part in found.parts["ttft"]}
    assert {"queue", "to and from the client", "steps with prompts: gemm", "steps with prompts: host"} <= kinds
    if name == "a policy":
        assert not [part for parts in found.parts.values() for part in parts if part.same_steps]


def test_a_lone_user_takes_the_same_steps(base: ServingDesign) -> None:
    """Whatever steps take, a single user's requests follow each other: all that differs is their time, where weights
    are read."""
    alone = {"requests": {"kind": "closed_loop", "concurrency": 1, "count": 12, "prompt": 60, "output": 12}}
    found = explain_serving(replace_all(base, alone), replace_all(base, {**alone, "memory.bandwidth": "1 TB/s"}))
    for part in (*found.parts["ttft"], *found.parts["tpot"]):
        assert part.other_steps == pytest.approx(0, abs=1)
    assert max(found.parts["tpot"], key=lambda part: part.same_steps).name == "decode steps: gemm"


def test_pools_have_a_transfer(tmp_path: Path, base: ServingDesign) -> None:
    (tmp_path / "design.yaml").write_text(APART)
    design = load_base(tmp_path / "serving.yaml")
    assert isinstance(design, ServingDesign)
    found = recorded(design).parts()
    assert {name: sum(parts.values()) for name, parts in found.items()} == pytest.approx(sums(design), rel=1e-9)
    assert found["ttft"]["transfer of the cache"] > 0
    assert not [name for name in found["tpot"] if name.startswith("steps with prompts") and found["tpot"][name]]


def test_the_command(base: ServingDesign, tmp_path: Path, run: Run) -> None:
    dump_serving(replace_all(base, {"policy.max_tokens": 64}), tmp_path / "other.yaml")
    words = ("explain", str(tmp_path / "serving.yaml"), str(tmp_path / "other.yaml"))
    shown, plain = run(*words), json.loads(run(*words, "--json").out)
    assert "policy.max_tokens  2048  64" in shown.out
    assert "steps with prompts: gemm" in shown.out
    change = plain["by_knob"]["ttft_mean_ns"]
    assert change["after"] - change["before"] == pytest.approx(change["changes"][0]["contribution"])
    assert run("explain", str(tmp_path / "serving.yaml"), str(tmp_path / "design.yaml")).code == 1


def test_a_design_that_cannot_serve_is_refused(base: ServingDesign) -> None:
    with pytest.raises(InputError, match="no room"):
        explain_serving(base, replace_all(base, {"memory.capacity": "100 MB"}))
