"""DeepSeek-V3 at tp 8 without ep: a layer of experts reduces tokens x d once.

Source: users' report, issue 36: 58 all_reduces of 7.34 MB in a decode step of 64 sequences, where engines have 0.92 MB.
"""

from __future__ import annotations

from typing import Literal

import pytest

from astrarium.vocab import CommOp
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.passes import inference


@pytest.mark.parametrize("fusion", [True, "engine"])
def test_every_all_reduce_of_a_decode_step_is_tokens_times_d(fusion: bool | Literal["engine"]) -> None:
    """One of the embedding, two a layer; the sampler's two of a number a row are smaller (engines gather logits)."""
    made = inference(Inference(model="deepseek-v3", tp=8, batch=64, phase="decode", context=1500, fusion=fusion))
    trace = made.classes[0]
    sizes = trace.comm_size[trace.comm_type == CommOp.ALL_REDUCE].tolist()
    assert sorted(sizes, reverse=True)[:1 + 2 * 61] == [64 * 7168 * 2] * (1 + 2 * 61)
    assert sizes[1 + 2 * 61:] == ([] if fusion == "engine" else [64 * 4] * 2)
