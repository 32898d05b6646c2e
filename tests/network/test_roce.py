"""RoCE of a design: thresholds and increases by rate, links inside hosts, what `run` says of them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.commands import Run

import astrarium as ar
from astrarium.config import ConfigError
from astrarium.engine.plan import NetworkPlan, RoceRules
from astrarium.lower import lower
from astrarium.network.deadlock import wait_cycle
from astrarium.network.packets import Packets
from astrarium.network.roce import Roce, RoceRate, steps, told
from astrarium.network.roce_rates import ROWS
from astrarium.trace import TraceBuilder, traces_of_bytes

RAIL = {"rail": {"latency": "600 ns"}, "spine": {"latency": "600 ns"}}


def lowered(network: ar.Network) -> NetworkPlan:
    design = ar.Design(workload=ar.Trace("in memory"), network=network)
    return lower(design, traces_of_bytes([TraceBuilder().encode()] * network.npus)).network


def rails(pcie: object = "free", **roce: object) -> ar.Network:
    fabric = ar.blueprint("dgx_h100_rail", hosts=2, links={"pcie": pcie, **RAIL})
    return ar.Network(fabric=fabric, backend="packets",
                      packets=Packets(transport=Roce(**roce)))      # type: ignore[arg-type]


def switches(*rates: str, **roce: object) -> ar.Network:
    dims = [ar.Switch(4, bandwidth=rate, latency="500 ns") for rate in rates]
    return ar.Network(dims, backend="packets", packets=Packets(transport=Roce(**roce)))      # type: ignore[arg-type]


def test_each_rate_has_its_row_and_others_are_in_proportion() -> None:
    assert [told(Roce(), row.rate) for row in ROWS] == list(ROWS)
    near = told(Roce(), 48.0)
    assert (near.kmin, near.kmax, near.pmax) == pytest.approx((768_000, 3_072_000, 0.2))
    assert told(Roce(), 450.0).kmin == pytest.approx(7_200_000)
    assert told(Roce(), 1.0).kmin == pytest.approx(1_000)
    assert steps(Roce(), 50.0) == pytest.approx((0.05, 0.25))


def test_fields_by_hand_win_over_rates_and_rates_over_the_built_in_ones() -> None:
    rates = [RoceRate(rate="100 Gb/s", kmin="1 kB", kmax="4 kB", pmax=0.5)]
    assert [told(Roce(rates=rates), rate).kmax for rate in (12.5, 25.0)] == [4_000, 8_000]
    by_hand = told(Roce(rates=rates, kmin="2 kB", pmax=0.1), 12.5)
    assert (by_hand.kmin, by_hand.kmax, by_hand.pmax) == (2_000, 4_000, 0.1)
    assert steps(Roce(additive="1 Gb/s", hyper="0 GB/s"), 50.0) == (0.125, 0.0)


def test_the_engine_has_a_row_for_each_rate() -> None:
    rules = lowered(switches("100 Gb/s", "400 Gb/s", hyper="0 GB/s")).packets.transport
    assert isinstance(rules, RoceRules)
    assert rules.by_rate == pytest.approx((12.5, 400_000, 1_600_000, 200_000, 0.125, 0.0125, 0.0,
                                           50.0, 800_000, 3_200_000, 200_000, 0.125, 0.05, 0.0))


@pytest.mark.parametrize(("fields", "words"), [
    ({"kmin": "1 MB"}, r"kmin: 1 MB is more than kmax at 40 Gb/s; expected up to 200 kB"),
    ({"kmin": "2 kB", "kmax": "1 kB"}, "kmax: 1 kB is less than kmin"),
    ({"pmax": 1.5}, "pmax: 1.5 is more than 1"),
    ({"rates": [RoceRate(rate="40 Gb/s", kmin="2 kB", kmax="1 kB", pmax=0.1)]}, r"rates\[0\].kmax: 1 kB is less"),
    ({"rates": [RoceRate(rate="40 Gb/s", kmin="2 kB", kmax="3 kB", pmax=2.0)]}, r"rates\[0\].pmax: 2.0 is more"),
    ({"inside": [2]}, r"inside\[0\]: there is no dim 2; expected 0 to 0"),
    ({"inside": ["nvlink"]}, r"inside\[0\]: there is no dim nvlink"),
], ids=["kmin", "kmax", "pmax", "row", "share", "dim", "name"])
def test_what_does_not_fit_is_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        switches("40 Gb/s", **fields)


def inside_of(plan: NetworkPlan) -> list[bool]:
    assert plan.graph is not None
    found = np.frombuffer(plan.packets.inside or bytes(plan.graph.source.size), np.uint8)
    return [bool(each) for each in found]


def test_links_of_a_host_are_no_hops() -> None:
    """NVLink by its tier, PCIe as it joins two parts of one device; a design may say which."""
    plan = lowered(rails({"latency": "100 ns"}))
    assert plan.graph is not None
    rate = plan.graph.bandwidth
    assert inside_of(plan) == (rate != 50.0).tolist()
    assert {round(float(each)) for each in rate[np.array(inside_of(plan))]} == {63, 450}
    assert inside_of(lowered(rails(inside=["nvlink", "rail"]))).count(True) == 2 * 2 * 16
    assert not any(inside_of(lowered(rails(inside=[]))))
    with pytest.raises(ConfigError, match=r"inside\[0\]: the fabric has no link nvlik.*did you mean 'nvlink'"):
        rails(inside=["nvlik"])


def test_a_tier_of_the_design_counts_before_the_device() -> None:
    plan = lowered(rails({"latency": "100 ns", "tier": "scale_out"}))
    assert plan.graph is not None
    assert {round(float(each)) for each in plan.graph.bandwidth[np.array(inside_of(plan))]} == {450}


@pytest.mark.parametrize(("rates", "given", "inside"), [
    (("450 GB/s", "50 GB/s"), None, [1, 0]), (("50 GB/s", "50 GB/s"), None, []), (("450 GB/s",), None, []),
    (("450 GB/s", "50 GB/s", "25 GB/s"), None, [1, 0, 0]), (("50 GB/s", "50 GB/s", "25 GB/s"), [0, 1], [1, 1, 0])])
def test_the_innermost_dim_is_a_host_if_it_is_faster(rates: tuple[str, ...], given: list[int] | None,
                                                     inside: list[int]) -> None:
    assert list(lowered(switches(*rates, inside=given)).packets.inside) == inside


def test_sprayed_dims_have_it_per_link() -> None:
    dims = [ar.Ring(3, bandwidth="450 GB/s", latency="500 ns"), ar.Switch(2, bandwidth="50 GB/s", latency="500 ns")]
    plan = lowered(ar.Network(dims, backend="packets", packets=Packets(transport="roce", spray=True)))
    assert plan.graph is not None
    assert inside_of(plan) == (plan.graph.bandwidth == 450.0).tolist()


def test_a_fabric_that_is_dims_has_it_per_dim() -> None:
    """Hosts of two XPUs on one switch each are a dim; so are the two rails, without a leaf of another rail."""
    rails_only = ar.blueprint("dgx_h100_rail_only", hosts=2, links={"pcie": "free", "rail": {"latency": "600 ns"}})
    network = ar.Network(fabric=rails_only, backend="packets", packets=Packets(transport="roce"))
    plan = lowered(network)
    assert plan.graph is None
    assert list(plan.packets.inside) == [1, 0]


def test_run_prints_what_a_design_took(tmp_path: object, run: Run) -> None:
    path = tmp_path / "design.yaml"     # type: ignore[operator]
    path.write_text("""\
workload: {source: collective, op: all_reduce, payload: 1 MB}
network:
  backend: packets
  packets: {transport: roce}
  dims:
    - {shape: switch, npus: 4, bandwidth: 450 GB/s, latency: 500 ns}
    - {shape: switch, npus: 2, bandwidth: 400 Gb/s, latency: 500 ns}
""")
    said = run("run", str(path)).err
    assert ("network.packets.transport: RoCE at 400 Gb/s: no marks up to 800 kB (kmin), 20 % at 3.2 MB (pmax, kmax), "
            "all above; increases of 400 Mb/s (additive) and 2 Gb/s (hyper)") in said
    assert "network.packets.transport: RoCE has no hop inside hosts: dims[0] (inside)" in said


def test_a_ring_inside_hosts_cannot_deadlock() -> None:
    """PFC may deadlock a ring; packets wait inside hosts without limit."""
    dims = [ar.Ring(4, bandwidth="450 GB/s", latency="500 ns"), ar.Switch(2, bandwidth="50 GB/s", latency="500 ns")]
    for graph in (False, True):
        networks = [ar.Network(dims, backend="packets", packets=Packets(transport=Roce(inside=inside), spray=graph))
                    for inside in (None, [])]
        plans = [lowered(network) for network in networks]
        assert [bool(wait_cycle(plan, pausing=True)) for plan in plans] == [False, True]
