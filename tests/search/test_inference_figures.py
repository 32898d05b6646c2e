"""TTFT and TPOT as objectives of a search."""

from __future__ import annotations

from pathlib import Path

import pytest

import astrarium as ar
from astrarium.cost import FIGURES


@pytest.mark.parametrize(("figure", "best"), [("ttft", 1), ("tpot", 8)])
def test_prefill_wants_replicas_and_decode_wants_tp(figure: str, best: int, root: Path) -> None:
    """Prefill of many prompts is bound by compute, which replicas have without all_reduces; decode by reading weights,
    which tp shares out."""
    design = ar.load_design(root / "examples" / "inference" / "h100.yaml")
    space = ar.Space(design, {"workload.tp": [1, 2, 4, 8], "workload.dp": [1, 2, 4, 8]},
                     where="workload.tp * workload.dp == 8")
    study = ar.search(space, minimize=figure, agent="random", trials=60, seed=0)
    assert study.best is not None
    assert [1, 2, 4, 8][study.best.point[0]] == best


def test_a_workload_without_phases_has_none(root: Path) -> None:
    design = ar.load_design(root / "examples" / "quickstart" / "design.yaml")
    figure = FIGURES["tpot"].of_result
    assert figure is not None
    with pytest.raises(ar.InputError, match="no decode"):
        figure(ar.simulate(design))
