"""Number formats under measured kernels: each changes the time, or is refused by name.

Source: users' report, issue 35 line 5: int4, fp8 and bf16 weights all took 6.723 ms a token on H100, and fp8
activations with an fp8 cache were refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import astrarium as ar
from astrarium import catalog
from astrarium.cli.dispatch import dispatch
from astrarium.compute.measured import Measured
from astrarium.errors import InputError
from astrarium.serving import ClosedLoop, Policy, serve
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.formats import BYTES

MEMORY = {"a100_sxm": "a100_sxm_80gb", "b200_sxm": "b200"}


def design(device: str, workload: Any) -> ar.Design:
    chip = catalog.device(MEMORY.get(device, device))
    return ar.Design(workload=workload, compute=Measured(device=device), memory=ar.Memory(**chip.memory),
                     network=ar.Network([ar.Switch(workload.ranks, bandwidth="450 GB/s", latency="500 ns")]))


def milliseconds(device: str, model: str = "llama3-8b", fields: dict[str, Any] | None = None, **formats: Any) -> float:
    given = {"phase": "decode", "batch": 8, "context": 1024, **(fields or {})}
    return ar.simulate(design(device, Inference(model, formats=formats, **given))).makespan / 1e6


def test_narrow_weights_decode_faster_and_never_beyond_bandwidth() -> None:
    """LLaMA 3 8B reads 6.98e9 weights of layers and 0.53e9 of logits, these in bf16."""
    wide, narrow, both = (milliseconds("h100_sxm", **each) for each in (
        {}, {"weights": "fp8"}, {"weights": "fp8", "cache": "fp8"}))
    assert 0.6 * wide < narrow < 0.75 * wide
    assert (6.98 + 2 * 0.53) / 3.35 < both < narrow
    assert milliseconds("h200_sxm", fields={"batch": 1, "context": 2000}, weights="fp8",
                        cache="fp8") < 0.75 * milliseconds("h200_sxm", fields={"batch": 1, "context": 2000})
    wide, eight, four = (milliseconds("a100_sxm", weights=kind) for kind in ("bf16", "int8", "int4"))
    assert 0.5 * wide < four < eight < 0.75 * wide


def test_the_usual_fp8_deployment_runs() -> None:
    """The activations of the report are the operands of products; messages and the residual stream have 16 bits."""
    usual = {"weights": "fp8", "activations": "fp8", "cache": "fp8"}
    assert milliseconds("h100_sxm", **usual) == milliseconds("h100_sxm", weights="fp8", cache="fp8")
    assert milliseconds("h100_sxm", **usual) < 0.7 * milliseconds("h100_sxm")
    for fields in ({"phase": "prefill", "prompt": 2048}, {"phase": "prefill", "prompt": 2048, "chunk": 512}):
        given = {"context": None, "batch": 4, **fields}
        assert milliseconds("h100_sxm", fields=given, **usual) < 0.8 * milliseconds("h100_sxm", fields=given)


@pytest.mark.parametrize("device", ["a100_sxm", "h100_sxm", "b200_sxm"])
@pytest.mark.parametrize("field", ["weights", "messages", "cache"])
def test_no_format_is_ignored(device: str, field: str) -> None:
    plain = milliseconds(device)
    for kind in BYTES:
        try:
            found = milliseconds(device, **{field: kind})
        except InputError:
            continue
        assert (found == plain) == (BYTES[kind] == 2)


@pytest.mark.parametrize(("device", "formats", "fields", "message"), [
    ("h100_sxm", {"weights": "int4"}, {}, "gemm at w4a16"), ("a100_sxm", {"weights": "fp8"}, {}, "gemm at fp8"),
    ("a100_sxm", {"cache": "fp8"}, {}, "cache in fp8"), ("h100_sxm", {"sparse": "2:4"}, {}, "held in bf16 2:4"),
    ("h100_sxm", {"cache": "fp8"}, {"attention": "unfused"}, "held in fp8")])
def test_what_was_not_measured_is_refused_by_name(device: str, formats: dict[str, Any], fields: dict[str, Any],
                                                  message: str) -> None:
    with pytest.raises(InputError, match=message):
        milliseconds(device, fields=fields, **formats)


def test_what_formats_leave_open_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report's design, with a remark about what its products are taken to be."""
    file = tmp_path / "design.yaml"
    file.write_text("""
workload: {source: inference, model: llama3-8b, tp: 1, batch: 1, context: 2000, phase: decode,
           formats: {weights: fp8, cache: fp8}}
network: {dims: [{shape: switch, npus: 1, bandwidth: 450 GB/s, latency: 500 ns}]}
compute: {model: measured, device: h200_sxm}
memory: h200_sxm
""")
    assert dispatch(["check", str(file)]) == 0
    said = capsys.readouterr().err
    assert "products cast activations to fp8" in said
    assert "logits and routers are computed in bf16" in said


def test_experts_have_a_format_of_their_own() -> None:
    wide, four = (milliseconds("h100_sxm", "gpt-oss-20b", experts=kind) for kind in ("bf16", "mxfp4"))
    assert 0.3 * wide < four < 0.8 * wide
    assert milliseconds("h100_sxm", "qwen3-30b-a3b", experts="int4") < 0.7 * milliseconds("h100_sxm", "qwen3-30b-a3b")


def test_training_refuses_weights_that_its_products_do_not_take() -> None:
    def step(**precision: Any) -> float:
        work = ar.Transformer("llama3-8b", global_batch=1, seq=1024, precision=precision)
        return ar.simulate(design("h100_sxm", work)).makespan

    with pytest.raises(InputError, match="or products in fp8"):
        step(weights="fp8")
    assert step(weights="fp8", products="fp8") < step()


def test_a_server_in_fp8_is_faster() -> None:
    stream = ClosedLoop(concurrency=4, count=8, prompt=700, output=8)
    wide, narrow = (serve(design("h100_sxm", Inference("llama3-8b", phase="decode", context=1, formats=formats)),
                          stream, Policy(schedule="chunked", max_tokens=512))
                    for formats in ({}, {"weights": "fp8", "cache": "fp8"}))
    assert 0.5 * wide.span < narrow.span < 0.8 * wide.span
