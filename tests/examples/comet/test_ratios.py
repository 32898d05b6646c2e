"""Best strategies, ratios between clusters, sweeps, sensitivities, and the parameter that gives a ratio."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from comet import (
    Lab,
    answers,
    by_split,
    capacities,
    compared,
    expansion_ratios,
    expansions,
    faster,
    networks,
    ratio,
    scaled,
    sensitivities,
    spread_ratio,
)

from astrarium.errors import InputError

CASE = "small"


def test_best_is_the_fastest_that_fits(lab: Lab) -> None:
    case, cluster = lab.case(CASE), lab.cluster("A1")
    points = [lab.point(case, cluster, split) for split in case.splits]
    best = lab.best(case, cluster)
    assert best is not None
    assert best.seconds == min(point.seconds for point in points if point.fits)
    assert lab.best(case, capacities(cluster, ["1 MB"])["1 MB"]) is None
    held = {point.split: point.fits for point in (lab.point(case, lab.cluster("A0"), split) for split in case.splits)}
    assert len(set(held.values())) == 2      # some strategies fit without expanded memory, some do not


def test_ratios_are_those_of_the_points(lab: Lab) -> None:
    case = lab.case(CASE)
    times = {name: point.seconds for name in ("A0", "A1", "B0") if (point := lab.best(case, lab.cluster(name)))}
    assert spread_ratio(lab, CASE, tuple(times)) == (times["A0"] / times["B0"], "A0", "B0")
    assert ratio(lab, CASE, "clusters") == times["A0"] / times["B0"]
    (found,) = expansion_ratios(lab, CASE, [["A0", "A1"]]).values()
    assert found[0] == times["A0"] / times["A1"] == ratio(lab, CASE, "expansion")


def test_clusters_that_hold_nothing_have_no_ratio(lab: Lab) -> None:
    none = lab.of(lab.book.changed({"clusters.A0.capacity": "1 MB"}))
    with pytest.raises(InputError, match="none of A0 holds a strategy of small"):
        spread_ratio(none, CASE, ["A0"])
    with pytest.raises(InputError, match=r"clusters\.A0.*holds no strategy"):
        expansion_ratios(none, CASE, [["A0", "A1"]])


def test_bounds(lab: Lab) -> None:
    """No resource that is twice as fast gains more than 2x, none loses (ties of an overlap aside)."""
    rows = {row.cluster: row for row in compared(lab, CASE, ("A0", "A1", "B0"))}
    for row in rows.values():
        assert all(0.99 < gain < 2.0001 for gain in row.gains.values())
        assert row.gains[row.bound] == max(row.gains.values())
    assert "expansion" not in rows["A0"].gains


def test_sweeps(lab: Lab) -> None:
    cluster = lab.cluster("A1")
    grid = by_split(lab, CASE, scaled(cluster, "peak", [0.5, 1, 2]), unfit=True)
    for column in zip(*grid.points):
        seconds = [point.seconds for point in column if point is not None]
        assert len(seconds) == 3
        assert seconds[0] >= seconds[1] >= seconds[2]
    assert by_split(lab, CASE, capacities(cluster, ["1 MB", "1 GB"])).points[0] == (None,) * 4
    wide = by_split(lab, CASE, expansions(cluster, ["1 GB/s", "1000 GB/s"]))
    assert all(point is not None and point.fits for row in wide.points for point in row)
    best = wide.best(1)
    assert best is not None
    assert best.seconds == min(point.seconds for point in wide.points[1] if point)
    net = networks(lab, CASE, cluster, [1, 2], [1, 8])
    corner = net.points[0][0]
    own = lab.best(lab.case(CASE), cluster)
    assert corner is not None
    assert own is not None
    assert corner.seconds == own.seconds
    assert faster(cluster, {"dims[1]": 8}).links[1].bandwidth == 80


def test_sensitivities_are_studies_of_changed_books(lab: Lab, tmp_path: Path) -> None:
    fast, zero = sensitivities(lab, CASE, ("clusters",))
    alone = Lab(lab.book.changed({"cases.small.workload.zero": 1}))
    assert zero.ratios == {"clusters": ratio(alone, CASE, "clusters")}
    (pair,) = expansion_ratios(alone, CASE, [["A0", "A1"]]).values()
    assert (zero.name, zero.moved) == ("ZeRO-1", (pair[1].split, pair[2].split))
    assert fast.name == "faster"


def test_an_answer_gives_the_ratio(lab: Lab) -> None:
    (found,) = answers(lab, CASE)
    assert found.factor is not None
    there = ratio(lab.of(lab.book.scaled({"clusters.B0.peak": found.factor})), CASE, "clusters")
    assert math.isclose(there, 1.5, rel_tol=0.02)
    assert found.low <= 1.5 <= found.high


def test_a_ratio_out_of_reach_has_no_answer(lab: Lab) -> None:
    far = lab.of(lab.book.changed({"published.clusters": 1000.0}))
    (found,) = answers(far, CASE)
    assert found.factor is None
    assert found.high < 1000


def test_points_are_simulated_once(lab: Lab) -> None:
    case, cluster = lab.case(CASE), lab.cluster("A0")
    lab.point(case, cluster, 4)
    before = lab.simulated
    lab.point(case, cluster, 4)
    lab.of(lab.book).point(case, cluster, 4)
    assert lab.simulated == before == 1
