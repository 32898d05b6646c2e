"""What collectives take at least: below every simulation, close to those that have the links to themselves."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.draws import draws

import astrarium as ar
from astrarium.bounds.timed import wires_of
from astrarium.bounds.wires import Wires
from astrarium.errors import AstrariumError
from astrarium.fabric.in_switch import InSwitch
from astrarium.vocab import CommOp
from astrarium.workload.mesh import Mesh, mesh_of

SHAPES = ("ring", "switch", "fully_connected", "mesh")
ALGORITHMS = ("ring", "direct", "halving_doubling", "ring_two_way")
OPS = {"all_reduce": CommOp.ALL_REDUCE, "reduce_scatter": CommOp.REDUCE_SCATTER, "all_gather": CommOp.ALL_GATHER,
       "all_to_all": CommOp.ALL_TO_ALL}
SIZE = 64_000_000


def _drawn(rng: random.Random) -> tuple[ar.Network, ar.Collective, str]:
    """Two dims, and all that a design may say of a collective over them."""
    dims = [{"shape": rng.choice(SHAPES), "npus": rng.choice([2, 4, 8]), "latency": "10 ns",
             "bandwidth_per_npu": f"{rng.choice([10, 50, 400])} GB/s", "efficiency": rng.choice([1, 0.8])}
            for _ in range(2)]
    op = rng.choice(list(OPS))
    named = {op: [rng.choice(ALGORITHMS[:2] if op == "all_to_all" else ALGORITHMS) for _ in dims]}
    collective = ar.Collective(choice="none", chunks=rng.choice([1, 3, 16]),
                               composition=rng.choice(["baseline", "blueconnect", "themis"]), **named)
    return ar.config.decode(ar.Network, {"dims": dims}), collective, op


def _made(rng: random.Random) -> tuple[ar.Network, ar.Collective, str]:
    while True:
        try:
            return _drawn(rng)
        except AstrariumError:      # an operation that an algorithm lacks
            continue


def test_no_collective_takes_less() -> None:
    rng, close, seen = random.Random(4), 0, 0
    while seen < draws(150).max_examples:
        network, collective, op = _made(rng)
        design = ar.Design(workload=ar.SingleCollective(op, f"{SIZE} B"), network=network, collective=collective)
        try:
            took = ar.simulate(design).makespan_ps / 1000
        except AstrariumError:
            continue
        seen += 1
        size = SIZE / network.npus if op == "all_gather" else SIZE
        least = wires_of(network, collective).bound(OPS[op], size, ("dp",), mesh_of("megatron", dp=network.npus))
        assert least <= took * (1 + 1e-6), design
        close += least > 0.9 * took
    assert close > seen // 4


def _within(dims: list[Any], tp: int, op: CommOp, collective: ar.Collective) -> float:
    network = ar.Network(dims)
    mesh = mesh_of("megatron", tp=tp, dp=network.npus // tp)
    return wires_of(network, collective).bound(op, 1e9, ("tp",), mesh)


@pytest.mark.parametrize("choice", ["none", "auto"])
def test_a_few_members_of_a_dim_use_a_few_of_its_links(choice: str) -> None:
    """Four of sixteen fully connected NPUs reach each other by three of fifteen links, whatever is chosen."""
    dims = [ar.FullyConnected(16, bandwidth_per_npu="150 GB/s", latency="1 us"),
            ar.Switch(4, bandwidth="900 GB/s", latency="1 us")]
    found = _within(dims, 4, CommOp.REDUCE_SCATTER, ar.Collective(choice=choice))
    assert found == pytest.approx(1e9 * 3 / 4 / (150 * 3 / 15), rel=1e-6)


def test_a_ring_one_way_round_uses_one_link() -> None:
    ring = [ar.Ring(8, bandwidth_per_npu="100 GB/s", latency="1 us")]
    for algorithm, rate in (("ring", 50), ("ring_two_way", 100)):
        collective = ar.Collective(all_gather=[algorithm], choice="none")
        assert _within(ring, 8, CommOp.ALL_GATHER, collective) == pytest.approx(7e9 / rate, rel=1e-6)


def test_one_chunk_takes_its_phases_one_after_the_other() -> None:
    dims = [ar.Switch(4, bandwidth="100 GB/s", latency="1 us"), ar.Switch(4, bandwidth="25 GB/s", latency="1 us")]
    for chunks, expected in ((1, 0.75 / 100 + 0.75 / 4 / 25), (1000, 0.75 / 100)):
        collective = ar.Collective(choice="none", composition="blueconnect", chunks=chunks)
        assert _within(dims, 16, CommOp.REDUCE_SCATTER, collective) == pytest.approx(1e9 * expected, rel=1e-2)


@pytest.mark.parametrize("algorithm", ["nvls", "sharp"])
def test_phases_in_switches_send_less(algorithm: str) -> None:
    """Of 64 chunks some are on their way to a switch that adds while others come back from it."""
    switch = ar.Switch(8, bandwidth="10 GB/s", latency="0 ns", in_switch=InSwitch(rate="1000 TB/s"))
    network = ar.Network([switch, ar.Switch(4, bandwidth="1 TB/s", latency="0 ns")])
    collective = ar.Collective(choice="none", composition="blueconnect", all_reduce=[algorithm, "direct"], chunks=64)
    work = ar.SingleCollective("all_reduce", f"{SIZE} B")
    took = ar.simulate(ar.Design(workload=work, network=network, collective=collective)).makespan_ps / 1000
    least = wires_of(network, collective).bound(CommOp.ALL_REDUCE, SIZE, ("dp",), mesh_of("megatron", dp=32))
    assert 0 < least <= took


def test_what_collectives_need_of_ports_adds_up() -> None:
    """Of two operations of one group on the links that it uses, of those of different groups on all links."""
    network = ar.Network([ar.Ring(4, bandwidth_per_npu="100 GB/s", latency="1 us"),
                          ar.Switch(2, bandwidth="50 GB/s", latency="1 us")])
    collective, mesh = ar.Collective(choice="none"), mesh_of("megatron", tp=4, dp=2)
    wires = wires_of(network, collective)
    ring = wires.streams(CommOp.REDUCE_SCATTER, ("tp",), mesh) + 4 * wires.streams(CommOp.ALL_GATHER, ("tp",), mesh) / 4
    assert ring.max() == pytest.approx((0.75 + 3.0) / 50)       # every byte to the next member: one link
    both = wires.ports(CommOp.ALL_REDUCE, ("tp",), mesh) + wires.ports(CommOp.ALL_REDUCE, ("dp",), mesh)
    assert both[2:] == pytest.approx([1.5 / 100, 1.0 / 50])


def test_groups_that_a_larger_mesh_may_cut_count_for_all_links() -> None:
    """A mesh of four on hosts of six: the second group of a larger one lies in two of them."""
    network = ar.Network([ar.FullyConnected(6, bandwidth_per_npu="100 GB/s", latency="1 us"),
                          ar.Switch(4, bandwidth="100 GB/s", latency="1 us")])
    few, whole = Mesh(("tp",), (4,)), mesh_of("megatron", tp=4, dp=6)
    wires = Wires(network, ar.Collective(choice="none"))
    for mesh, rate in ((few, 100 + 100), (whole, 3 / 5 * 100 + 100)):     # of the whole one all groups are known
        assert wires.bound(CommOp.REDUCE_SCATTER, 1e9, ("tp",), mesh) == pytest.approx(1e9 * 0.75 / rate)
        assert not wires.ports(CommOp.REDUCE_SCATTER, ("tp",), mesh)[2:].any()


def test_collectives_of_given_times_need_one_port() -> None:
    network = ar.Network([ar.Switch(8, bandwidth="450 GB/s", latency="1 us", fabric="dgx_h100_nvswitch"),
                          ar.Switch(4, bandwidth="50 GB/s", latency="2 us", fabric="infiniband_ndr")])
    wires = wires_of(network, ar.Collective(model="measured"))
    mesh = mesh_of("megatron", tp=8, dp=4)
    assert np.array_equal(wires.ports(CommOp.ALL_REDUCE, ("tp",), mesh), [0.0])
    assert wires.ports(CommOp.ALL_REDUCE, ("dp",), mesh)[0] > 0
    reduced, gathered = (wires.streams(op, ("tp",), mesh) for op in (CommOp.ALL_REDUCE, CommOp.ALL_GATHER))
    assert reduced[1] == gathered[0] == 0 < min(reduced[0], gathered[1])
