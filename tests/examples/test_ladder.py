"""The step of the ladder runs on every back end with one changed word, and its rungs agree where nothing is shared."""

from __future__ import annotations

from pathlib import Path

import pytest

import astrarium as ar

RUNGS = ("closed_form", "contention", "fluid", "packets")


def makespans(file: Path, backends: tuple[str, ...] = RUNGS) -> list[float]:
    design = ar.load_design(file)
    return [float(ar.simulate(ar.replace(design, "network.backend", name)).makespan) for name in backends]


def test_rails_share_nothing_and_all_rungs_agree(root: Path) -> None:
    found = makespans(root / "examples" / "ladder" / "step.yaml")
    assert found == pytest.approx([found[0]] * len(found), rel=5e-3)


def test_hashed_ways_collide_below_closed_form(root: Path) -> None:
    first, *below = makespans(root / "examples" / "ladder" / "clos.yaml", RUNGS[:3])
    assert below == pytest.approx([below[0]] * len(below), rel=2e-2)
    assert below[0] > 1.9 * first
