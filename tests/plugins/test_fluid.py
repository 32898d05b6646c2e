"""The fluid network: its exam, and the closed forms of shared ports."""

from __future__ import annotations

import pytest

from astrarium.engine import HAVE_CORE, execute
from astrarium.engine.plan import Backend, Dim, NetworkPlan, Shape
from astrarium.engine.plugins import FluidNetwork, Plugins
from astrarium.engine.plugins.exams import EXAM_FABRIC, exam_network
from astrarium.vocab import CommOp

from ..engine.plans import collective, native_collective, plan_of  # noqa: TID252

ENGINES = [pytest.param(False, marks=pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here"), id="core"),
           pytest.param(True, id="pure")]


def test_it_passes_the_exam() -> None:
    exam_network(lambda: FluidNetwork(EXAM_FABRIC), latency=500_000)


def test_flows_into_one_port_share_it() -> None:
    network = FluidNetwork(NetworkPlan(Backend.FOREIGN, (Dim(Shape.SWITCH, 4, 125.0, 100.0),)))
    ends: list[int] = []
    for source in (0, 1, 2):
        network.sim_send(125_000, source, 3, lambda: ends.append(network.sim_get_time()))
    network.advance(10**9)
    assert ends == [3 * 1_000_000 + 200_000] * 3  # a third of 125 B/ns each, then two hops


@pytest.mark.parametrize("pure", ENGINES)
def test_where_nobody_shares_it_takes_what_ports_take(pure: bool) -> None:
    network = NetworkPlan(Backend.PORTS, (Dim(Shape.SWITCH, 8, 125.0, 100.0),))
    ring = native_collective("ring", CommOp.ALL_REDUCE, 8, 1 << 16)
    plan = plan_of([[collective(0)] for _ in range(8)], network, collectives=(ring,))
    fluid = execute(plan, plugins=Plugins(network=FluidNetwork), pure=pure)
    ports = execute(plan, pure=pure, fold=False)
    assert ports.makespan > 0
    assert abs(fluid.makespan - ports.makespan) <= 14  # a ps per step of the ring
