"""A training step beside the figures that STAGE publishes for the same flags (issue 29 of astra-sim/stage)."""

from __future__ import annotations

import pytest

import astrarium as ar
from astrarium.workload.generate import generate


def test_sizes_are_stages_elements_in_bytes() -> None:
    """--dp 4 --tp 4 --pp 2 --num_stacks 4: 2 bytes an element, 2 FLOPs a multiply-add; attention has its square."""
    model = ar.Decoder(layers=4, d_model=8192, heads=64, ffn=28672, vocab=32000, seq=1024, gated=False,
                       activation="gelu", norm="layer", positions="none")
    work = ar.Transformer(model, global_batch=64, dp=4, tp=4, pp=2, tp_sequence=True, order="stage")
    trace = generate(work).classes[0]
    assert trace.names is not None
    node = {trace.names(number).split("forward.")[-1]: number for number in range(trace.type.size)}
    assert int(trace.comm_size[node["layer.h.all_gather"]]) == 2 * 33_554_432
    assert float(trace.num_ops[node["layer.q+k+v"]]) == pytest.approx(2 * 824_633_720_832)
    assert float(trace.num_ops[node["layer.attention"]]) >= 4 * 16 * 1024**2 * 2048
