"""Lowering with what is kept of other designs gives what lowering alone gives."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import astrarium as ar
from astrarium.design import Design
from astrarium.lower import lower
from astrarium.lower.kept import Kept
from astrarium.lower.work import from_generated, rank_count
from astrarium.search.searchfile import load_space
from astrarium.simulate import simulate
from astrarium.workload.generate import generate

SPACES = Path(__file__).parents[2] / "examples" / "cosmic" / "spaces"


def _same(one: Any, other: Any) -> bool:
    """Whether two Plans, or parts of them, are equal to the last bit."""
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, msgspec.Struct):
        return type(one) is type(other) and all(_same(getattr(one, name), getattr(other, name))
                                                for name in one.__struct_fields__)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def _plans(design: Design, kept: Kept) -> tuple[Any, Any]:
    ranks = rank_count(design)
    alone = lower(design, from_generated(generate(design.workload, ranks), ranks))
    work = kept.works.get((design.workload, ranks),
                          lambda: from_generated(generate(design.workload, ranks, kept.forms), ranks))
    return alone, lower(design, work, kept=kept)


@pytest.mark.parametrize("space", ["full", "network", "collective", "workload"])
def test_a_plan_does_not_depend_on_what_is_kept(space: str) -> None:
    kept, rng, drawn = Kept(), random.Random(1), load_space(SPACES / f"{space}.yaml")
    for _ in range(10):
        alone, shared = _plans(drawn.design(drawn.sample(rng)), kept)
        assert _same(alone, shared)


def test_columns_are_shared_by_networks_under_which_groups_lie_alike() -> None:
    drawn, kept, rng = load_space(SPACES / "network.yaml"), Kept(), random.Random(2)
    first = drawn.design(drawn.sample(rng))
    sizes = set()
    for _ in range(10):
        design = drawn.design(drawn.sample(rng))
        _plans(design, kept)
        sizes.add(tuple(dim.npus for dim in design.network.flat))
    work = kept.works.get((first.workload, 1024), lambda: pytest.fail("the workload was not kept"))
    assert len(sizes) >= 2
    kinds = [key[0] for key in work.lowered._held]
    assert kinds.count("programs") == 1
    assert kinds.count("kinds") == len(sizes)
    assert kinds.count("columns") < len(sizes) + 1


def _trained(number: int) -> Design:
    """One of many designs whose workloads take 4 MB each and more."""
    work = ar.Transformer("llama3-8b", tp=2, pp=4, dp=2, global_batch=64 + 2 * number, micro_batch=1, seq=512)
    return ar.Design(workload=work, compute=ar.Roofline(peak="989 TFLOP/s"), memory=ar.Memory(bandwidth="3 TB/s"),
                     network=ar.Network([ar.Switch(16, bandwidth="50 GB/s", latency="1 us")]))


def test_caches_are_bounded_in_bytes() -> None:
    """Issue 35 line 12b: 128 workloads of 25 MB were kept. What is counted is what goes with the caches."""
    kept = Kept(25 << 20)
    found = [simulate(_trained(number), record=False, kept=kept).makespan_ps for number in range(8)]
    assert kept.budget.bytes <= kept.budget.most
    assert 1 <= len(kept.works) < 8
    assert found[7] == simulate(_trained(7), record=False).makespan_ps == \
        simulate(_trained(7), record=False, kept=kept).makespan_ps
    large = Kept()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(4):
            simulate(_trained(number), record=False, kept=large)
        counted = large.budget.bytes
        del large
        taken = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert counted == pytest.approx(taken, rel=0.3)


def test_traces_are_within_the_bound(root: Path) -> None:
    design = ar.load_design(root / "examples" / "quickstart" / "design.yaml")
    kept = Kept()
    one = simulate(design, record=False, kept=kept).makespan_ps
    assert len(kept.traces) == 1
    assert kept.budget.bytes > 10_000
    assert one == simulate(design, record=False, kept=kept).makespan_ps == simulate(design).makespan_ps
