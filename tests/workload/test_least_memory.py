"""The least memory of a step: below the peak of every simulation, equal to the footprint if nothing overlaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import astrarium as ar
from astrarium.memory.tiers import HERE
from astrarium.memory.usage import held_by, usage
from astrarium.workload.assemble import assemble
from astrarium.workload.footprint import training_footprint
from astrarium.workload.least_memory import least_memory
from astrarium.workload.training import recipe_of

from .test_assembly import EVERY, _made, _run


@settings(max_examples=12)
@given(EVERY)
def test_no_order_of_nodes_needs_less(case: dict[str, object]) -> None:
    """In program order, and as the engine runs them on slow links."""
    made = _made(case)
    least, generated = least_memory(made), assemble(made)
    peaks = []
    for trace, tensors in zip(generated.classes, generated.tensors, strict=True):
        assert tensors is not None
        nodes = np.arange(len(trace.node_id))
        peaks.append(usage(held_by(tensors, (), HERE), nodes, nodes + 1)[1].max())
    assert least <= max(peaks)
    assert least <= _run(made, generated).peak_memory


@pytest.mark.parametrize(("more", "share"), [
    ({}, 1.0), ({"schedule": "gpipe"}, 1.0), ({"schedule": "interleaved", "virtual_stages": 3}, 1.0),
    ({"schedule": "zero_bubble"}, 1.0), ({"recompute": "full"}, 1.0), ({"recompute": "selective"}, 1.0),
    ({"pp": 1, "dp": 4, "zero": 3}, 0.9)])
def test_is_close_to_the_footprint(more: dict[str, Any], share: float) -> None:
    """Only weights that ZeRO 3 gathers and messages are left out."""
    work = ar.Transformer("gpt2-small", **{"global_batch": 8, "pp": 4, "micro_batch": 1, **more})
    most = max(stage.total for stage in training_footprint(work))
    assert share * most * (1 - 1e-3) <= least_memory(recipe_of(work)) <= most * (1 + 1e-6)
