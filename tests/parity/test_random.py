"""200 random SPMD programs on random systems: the same integers as ASTRA-sim, folded, unfolded and in pure Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from .cases import RANDOM, Case, load, pairs, same

USABLE = pairs(load(RANDOM), usable=True)
ALL = [pytest.param(case, backend, id=f"{case.name}-{backend}") for case, backend in USABLE]


@pytest.mark.parametrize("mode", ["off", "auto", "pure"])
@pytest.mark.parametrize(("case", "backend"), ALL)
def test_random(case: Case, backend: str, mode: str, tmp_path: Path) -> None:
    """`off` and `auto` are the compiled core's folding; `pure` is the pure-Python engine."""
    same(case, backend, tmp_path, fold=mode == "auto", pure=mode == "pure")
