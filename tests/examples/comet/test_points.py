"""Points of a study: footprints, spread memory, phases, and times against closed forms."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from comet import PHASES, Lab, decompose, spread_of
from comet.hybrid import hybrid_bandwidth
from hypothesis import given
from hypothesis import strategies as st
from tests.examples.comet.book import TEXT, book

from astrarium.config import replace_all
from astrarium.errors import InputError
from astrarium.units import Bytes
from astrarium.workload.flops import executed_flops


def test_footprint_is_comets_arithmetic(lab: Lab) -> None:
    """2 bytes a parameter over MP, 14 over all nodes (ZeRO-2), but for a bucket and what no split divides."""
    case = lab.case("small")
    parameters = case.footprint(1).parameters
    for split in case.splits:
        held = case.footprint(split)
        states = held.weights + held.states
        assert math.isclose(states, 2 * parameters / split + 12 * parameters / 8, rel_tol=0.02)
        assert case.counted(held) == pytest.approx(held.total)


def test_spread(lab: Lab) -> None:
    plain, expanded = lab.cluster("A0"), lab.cluster("A1")
    assert spread_of(1e8, expanded) == spread_of(1e8, plain)
    assert spread_of(1e8, plain).bandwidth == 1000
    assert not spread_of(1.3e8, plain).fits
    found = spread_of(1.3e8, expanded)
    assert (found.local, found.expanded, found.fits) == (1.2e8, 1e7, True)
    assert found.bandwidth == hybrid_bandwidth((1.2e8, 1e7), (1000, 500))
    assert not spread_of(1.13e9, expanded).fits


@given(st.floats(1e3, 1e12), st.floats(1e3, 1e12))
def test_more_bytes_are_never_faster(one: float, other: float) -> None:
    from comet import Cluster, Expansion

    from astrarium.network.config import Switch

    cluster = Cluster(peak="1 TFLOP/s", capacity="80 GB", bandwidth="2000 GB/s", dims=[
        Switch(8, bandwidth="1 GB/s", latency="1 us")], expansion=Expansion(bandwidth="500 GB/s"))
    low, high = sorted((one, other))
    assert spread_of(low, cluster).bandwidth >= spread_of(high, cluster).bandwidth * (1 - 1e-12)


def test_phases_make_the_whole_time(lab: Lab) -> None:
    case = lab.case("small")
    for split in case.splits:
        point = lab.point(case, lab.cluster("A1"), split, parts=True)
        assert point.parts is not None
        assert math.isclose(point.parts.total, point.seconds * 1e9, rel_tol=1e-9)
        assert point.parts.compute["recomputation"] == 0
    alone = lab.point(case, lab.cluster("A1"), 1, nodes=1, parts=True)
    assert alone.parts is not None
    assert sum(alone.parts.exposed.values()) == 0


def test_compute_is_flops_over_peak_where_memory_is_fast(lab: Lab) -> None:
    """And it is what the decomposition adds up to, phase by phase."""
    case = lab.case("small")
    cluster = replace_all(lab.cluster("A0"), {"bandwidth": "10 PB/s", "buffer": None, "capacity": Bytes("1 TB")})
    point = lab.point(case, cluster, 4, parts=True)
    workload = case.strategy(4)
    rows = decompose(workload)
    assert point.parts is not None
    for phase in PHASES[:4]:
        flops = sum(row.flops * row.layers for row in rows if row.phase == phase)
        assert math.isclose(point.parts.compute[phase], flops / 1e5, rel_tol=1e-4)
    products = sum(2 * math.prod(shape) * row.layers for row in rows for shape in row.products)
    attention = executed_flops(workload) / workload.ranks - products
    assert 0 <= attention < 0.2 * products


def test_time_is_that_of_the_collectives_where_compute_is_fast(lab: Lab) -> None:
    """MP over one pod: every all_reduce of the decomposition takes 2 (n - 1) / n of its bytes at the bandwidth of the
    pod, and what its messages wait."""
    case = lab.case("small")
    fast = replace_all(lab.cluster("A0"), {"peak": "100 EFLOP/s", "bandwidth": "1000 PB/s", "buffer": None})
    point = lab.point(case, fast, 4, nodes=4, parts=True)
    moved = [size for row in decompose(case.strategy(4, 4)) for op, size, axes in row.collectives * row.layers
             if op == "all_reduce" and axes == ("tp",)]
    wire = sum(2 * 3 / 4 * size / 100 for size in moved)
    assert point.parts is not None
    inside = sum(point.parts.exposed[phase] for phase in PHASES[:4])
    assert wire < inside < 1.05 * wire + len(moved) * 12_000


def test_weight_gradients_are_the_products_of_forward(lab: Lab) -> None:
    """dX and dW cost what forward costs, product by product."""
    rows = [row for row in decompose(lab.case("small").strategy(4)) if row.layer == "layer"]
    size = {row.phase: sum(2 * math.prod(shape) for shape in row.products) for row in rows}
    assert size["forward"] == size["input gradient"] == size["weight gradient"]


def test_recomputation_is_a_phase_of_its_own(tmp_path: Path) -> None:
    found = book(tmp_path).changed({"cases.small.workload.recompute": "full"})
    rows = {row.phase: row for row in decompose(Lab(found).case("small").strategy(4)) if row.layer == "layer"}
    assert rows["recomputation"].flops == rows["forward"].flops
    assert rows["recomputation"].collectives == rows["forward"].collectives
    point = Lab(found).point(Lab(found).case("small"), Lab(found).cluster("A1"), 4, parts=True)
    assert point.parts is not None
    assert 0 < point.parts.compute["recomputation"] < point.parts.compute["forward"]     # the head runs once


def test_an_update_that_does_not_count(tmp_path: Path) -> None:
    lab = Lab(book(tmp_path))
    other = lab.of(book(tmp_path, TEXT.replace("update: {value: true", "update: {value: false")))
    one, two = (each.point(each.case("small"), each.cluster("A0"), 2, parts=True) for each in (lab, other))
    assert one.parts is not None
    update = one.parts.compute["update"] + one.parts.exposed["update"]
    assert update > 0
    assert math.isclose(two.seconds * 1e9, one.seconds * 1e9 - update, rel_tol=1e-9)


def test_measured_kernels_take_the_place_of_the_roofline(lab: Lab) -> None:
    import astrarium as ar

    cluster = replace_all(lab.cluster("A0"), {"compute": ar.Measured(device="a100_sxm_80gb"),
                                              "bandwidth": "2039 GB/s"})
    case = lab.case("small")
    assert lab.point(case, cluster, 4).seconds != lab.point(case, lab.cluster("A0"), 4).seconds


@pytest.mark.parametrize(("nodes", "shape"), [(8, [4, 2]), (4, [4]), (2, [2]), (1, [1])])
def test_networks_of_fewer_nodes(lab: Lab, nodes: int, shape: list[int]) -> None:
    assert [dim.npus for dim in lab.cluster("A0").network(nodes).flat] == shape


def test_refusals(lab: Lab) -> None:
    for nodes in (6, 16):
        with pytest.raises(InputError, match="nodes"):
            lab.cluster("A0").network(nodes)
    with pytest.raises(InputError, match=r"clusters\.A7.*A0, A1, B0"):
        lab.cluster("A7")
    with pytest.raises(InputError, match=r"cases\.large"):
        lab.case("large")
    with pytest.raises(InputError, match="3 does not divide 8 nodes"):
        lab.case("small").strategy(3)
    wrong = lab.of(lab.book.changed({"clusters.A0.peak": "fast"}))
    with pytest.raises(InputError, match=r"clusters\.A0\.peak"):
        wrong.cluster("A0")
