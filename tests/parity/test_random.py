"""200 random SPMD programs on random systems: the same integers as ASTRA-sim, folded and unfolded."""

from __future__ import annotations

from pathlib import Path

import pytest

from .cases import RANDOM, Case, load, pairs, same

USABLE = pairs(load(RANDOM), usable=True)
ALL = [pytest.param(case, backend, id=f"{case.name}-{backend}") for case, backend in USABLE]


@pytest.mark.parametrize(("case", "backend"), ALL)
def test_random(case: Case, backend: str, tmp_path: Path) -> None:
    same(case, backend, tmp_path, "off", "auto")
