"""The nineteen axes of co-design: one search of all of them, and each of its knobs changes what a design gives."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from typing import Any

import pytest
from tests.loading import ROOT

import astrarium as ar
from astrarium.config import replace_all
from astrarium.cost.energy import energy
from astrarium.cost.price import system_cost
from astrarium.search import search
from astrarium.search.searchfile import SearchFile, load_search

FILE = ROOT / "examples" / "search" / "nineteen.yaml"
GUIDE = ROOT / "docs" / "guides" / "search_axes.md"
SMALL = {"workload.model.layers": 2, "workload.model.d_model": 512, "workload.model.ffn": 2048, "workload.seq": 256,
         "workload.global_batch": 32, "compute.power": "300 W"}
ALL_DIMS = {"workload.tp": 1, "workload.pp": 1, "workload.dp": 32, "workload.micro_batch": 1, "network.dims[0].npus": 4,
            "network.dims[1].npus": 2, "collective.chunks": 2}
QUEUED = {"workload.pp": 1, "workload.dp": 16, "workload.zero": 2, "workload.bucket": "1 MB", "collective.chunks": 2,
          "system.comm_streams": 1}
STATED: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("collective.all_reduce[0]", "collective.all_reduce[1]", "collective.all_reduce[2]",
                     "collective.composition", "network.dims[0].shape"), ALL_DIMS),
    **dict.fromkeys(("collective.scheduling", "system.comm_streams", "workload.bucket"), QUEUED)}
"""Knob -> the changes of the small design beside which it is changed: with more than one dim to cross, or more than one
collective to order."""
TOGETHER: dict[str, dict[Any, dict[str, Any]]] = {
    "workload.tp": {1: {"workload.dp": 16}, 4: {"workload.dp": 4}}, "workload.pp": {1: {"workload.dp": 16}},
    "workload.dp": {4: {"workload.tp": 4}, 16: {"workload.tp": 1}},
    "network.dims[0].npus": {4: {"network.dims[1].npus": 2}}, "network.dims[1].npus": {2: {"network.dims[0].npus": 4}},
    "compute.rows": {64: {"compute.columns": 64, "compute.arrays": 16}},
    "workload.model.layers": {4: {}}}
"""Knob -> a value of it -> what changes with it: as many NPUs, as many elements of arrays."""


@cache
def example() -> SearchFile:
    return load_search(FILE)


@cache
def figures(*changes: tuple[str, Any]) -> tuple[float, ...]:
    """Time, energy, money and memory of the small design with changes."""
    base = example().space.base
    assert base is not None
    design = replace_all(base, {**SMALL, **dict(changes)})
    result = ar.simulate(design)
    return result.makespan_ps, energy(design, result).total, system_cost(design), result.peak_memory or 0


def sections() -> dict[str, list[str]]:
    """Axis, as the comments of the example name it -> its knobs."""
    found: dict[str, list[str]] = {}
    for line in FILE.read_text().partition("choices:")[2].partition("derived:")[0].splitlines():
        if head := re.match(r"  # (\d+ [^:]+)", line):
            found[head[1]] = []
        elif knob := re.match(r"  ([a-z][^:]+):", line):
            found[list(found)[-1]].append(knob[1])
    return found


def test_the_example_has_a_knob_of_each_axis() -> None:
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", GUIDE.read_text(), re.MULTILINE)
    assert list(sections()) == [f"{number} {name}" for number, name in rows]
    assert len(rows) == 19
    assert all(sections().values())
    assert list(chain(*sections().values())) == [axis.name for axis in example().space.axes]


@pytest.mark.parametrize("knob", list(chain(*sections().values())))
def test_each_knob_changes_what_a_design_gives(knob: str) -> None:
    """The last of its values that makes a difference is enough."""
    beside = STATED.get(knob, {})
    values = TOGETHER.get(knob) or {value: {} for axis in example().space.axes if axis.name == knob
                                    for value in axis.values}
    before = figures(*beside.items())
    assert any(figures(*{**beside, knob: value, **with_it}.items()) != before
               for value, with_it in reversed(values.items()))


def test_all_axes_in_one_search() -> None:
    found = example()
    study = search(found.space, found.minimize, require=found.require, agent="random", trials=4, seed=1)
    assert study.best is not None
    assert found.space.design(study.best.point).network.npus == 32
