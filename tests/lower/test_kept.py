"""Lowering with what is kept of other designs gives what lowering alone gives."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from astrarium.design import Design
from astrarium.lower import lower
from astrarium.lower.kept import Kept
from astrarium.lower.native_work import from_generated, rank_count
from astrarium.search.spacefile import load_space
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
