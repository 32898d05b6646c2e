"""Sobol indices: on functions whose indices are known, and beside the sums over every design of small spaces."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.commands import Run
from tests.search.designs import small_space

from astrarium.errors import InputError
from astrarium.search import Space, search
from astrarium.search.agents.saltelli import factors_of, sample_blocks
from astrarium.search.axes import Point
from astrarium.search.sobol import Estimate, Index, Sobol, estimated, sobol_indices
from astrarium.search.studyfile import load_study

Function = Callable[[Point], float]


def indices(space: Space, function: Function, blocks: int = 512, logarithm: bool | None = False) -> Sobol:
    sample = list(itertools.islice(sample_blocks(space, 1), blocks))
    return estimated(space, sample, [[function(point) for point in block] for block in sample], logarithm)


def by_name(found: Sobol) -> dict[str, Index]:
    return {" ".join(index.knobs): index for index in found.indices}


def near(found: Estimate | None, true: float, within: float) -> bool:
    """Whether an estimate is near the truth, and its interval, a third wider, has it."""
    assert found is not None
    margin = (found.high - found.low) / 6
    return abs(found.value - true) < within and found.low - margin <= true <= found.high + margin


def test_g_function() -> None:
    """I. M. Sobol's, its parameters from A. Saltelli and T. Homma (1992), here over 10 values a knob: a product, whose
    indices follow from the variance of each term."""
    weights, values = (0.0, 1.0, 4.5, 9.0, 99.0), 10
    space = Space(None, variables={f"x{number}": range(values) for number in range(len(weights))})

    def term(value: int, weight: float) -> float:
        return (abs(4 * (value + 0.5) / values - 2) + weight) / (1 + weight)

    spread = [float(np.var([term(value, weight) for value in range(values)])) for weight in weights]
    whole = math.prod(1 + each for each in spread) - 1
    found = by_name(indices(space, lambda point: math.prod(map(term, point, weights))))
    for number, own in enumerate(spread):
        index = found[f"x{number}"]
        assert near(index.first, own / whole, 0.04)
        assert near(index.total, own * (1 + whole) / (1 + own) / whole, 0.08)
    assert list(found)[:2] == ["x0", "x1"]


def test_ishigami() -> None:
    """T. Ishigami and T. Homma (1990): a continuum each; x2 matters only together with x0."""
    space = Space(None, variables={f"x{number}": {"from": -math.pi, "to": math.pi} for number in range(3)})
    found = by_name(indices(space, lambda x: math.sin(x[0]) + 7 * math.sin(x[1])**2 + 0.1 * x[2]**4 * math.sin(x[0])))
    for name, first, total in (("x0", 0.3139, 0.5576), ("x1", 0.4424, 0.4424), ("x2", 0.0, 0.2437)):
        assert near(found[name].first, first, 0.06)
        assert near(found[name].total, total, 0.1)


TIED = Space(None, variables={"a": range(5), "b": range(5), "c": range(4)}, where="a + b <= 5")


def exact(space: Space, function: Function) -> tuple[dict[int, float], dict[tuple[int, ...], float]]:
    """First order per axis and total per factor by definition, over every design that has a value."""
    points = [point for point in space.points() if math.isfinite(function(point))]
    variance = float(np.var([function(point) for point in points]))
    first, total = {}, {}
    for place in range(len(space.axes)):
        groups = [[function(point) for point in points if point[place] == value]
                  for value in range(space.axes[place].size)]
        means = [[float(np.mean(group))] * len(group) for group in groups if group]
        first[place] = float(np.var(list(itertools.chain(*means)))) / variance
    for factor in factors_of(space):
        pairs = [(function(one) - function(other))**2 for one in points for other in points
                 if all(one[place] == other[place] for place in range(len(one)) if place not in factor)]
        total[factor] = sum(pairs) / 2 / len(pairs) / variance
    return first, total


@pytest.mark.parametrize("refused", [False, True])
def test_tied_knobs_and_refused_designs(refused: bool) -> None:
    """a and b share a constraint, so they are one factor; what a design that is refused would be worth is not known."""
    def function(point: Point) -> float:
        a, b, c = point
        return math.nan if refused and a == 4 and c > 1 else a * 1.0 + b * c

    first, total = exact(TIED, function)
    found = indices(TIED, function)
    assert (found.refused > 0) == refused
    index = by_name(found)
    for place, name in enumerate("abc"):
        assert near(index[name].first, first[place], 0.05)
    assert near(index["a b"].total, total[0, 1], 0.08)
    assert near(index["c"].total, total[2,], 0.08)
    assert index["a b"].first is None
    assert index["a"].total is None
    if not refused:
        assert index["c"].runs is None
        return
    share = len([point for point in TIED.points() if not math.isfinite(function(point))]) / TIED.count
    fours = share * 2       # of the designs with a = 4, half are refused
    assert near(index["c"].runs, fours / 4 / (share * (1 - share)), 0.15)


def test_too_few_designs_that_run_are_refused() -> None:
    with pytest.raises(InputError, match="too few designs run: a factor has only 0 pairs"):
        indices(TIED, lambda point: float(sum(point)) if point[2] == 0 and point[0] == 4 else math.nan, 30)
    with pytest.raises(InputError, match="the same for every design"):
        indices(TIED, lambda point: 1.0, 30)


def test_objectives_above_zero_are_analysed_by_their_logarithm() -> None:
    space = Space(None, variables={"a": range(4), "b": range(4)})
    found = indices(space, lambda point: math.exp(3 * point[0] + point[1]), logarithm=None)
    assert found.logarithm
    assert near(by_name(found)["a"].first, 0.9, 0.02)


def test_a_study_and_its_report(tmp_path: Path, run: Run) -> None:
    """The sample goes on where it stopped, and the report computes the indices from its whole blocks."""
    path = tmp_path / "s.study"
    width = len(factors_of(small_space())) + 2
    for trials in (50, 20 * width + 3):
        search(small_space(), "makespan", agent="saltelli", trials=trials, seed=3, study=path)
        if trials == 50:
            with pytest.raises(InputError, match="too few"):
                sobol_indices([load_study(path)])
            assert "too few" in run("report", str(path)).out
    found = sobol_indices([load_study(path)])
    assert found.blocks == 20
    assert found.designs == 20 * width
    assert "Sobol indices of log(makespan)" in run("report", str(path)).out
    page = tmp_path / "s.html"
    run("report", str(path), "--html", str(page))
    assert "first order" in page.read_text(encoding="utf-8")


def test_a_sample_larger_than_its_space_ends(tmp_path: Path) -> None:
    """Every block of a small space is known: the sample is as long as the study."""
    base = small_space().base
    assert base is not None
    space = Space(base, {"collective.chunks": [1, 2, 3, 4], "network.dims[0].latency": ["1 ns", "2 ns", "3 ns"]})
    search(space, "collective.chunks * 2 + network.dims[0].latency", agent="saltelli", trials=401, start=(),
           study=tmp_path / "s")
    found = sobol_indices([load_study(tmp_path / "s")])
    assert found.blocks == 100
    # 2 chunks of four values, and latency of three: variances 4 * 1.25 and 2 / 3
    assert near(by_name(found)["collective.chunks"].first, 5 / (5 + 2 / 3), 0.1)
