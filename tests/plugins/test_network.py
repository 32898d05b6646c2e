"""Networks behind the protocol: the exam, and runs through both engines."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.plugins.builtin import BuiltinNetwork

from astrarium.engine import HAVE_CORE, execute
from astrarium.engine.plan import Backend, NetworkPlan, Plan, Shape
from astrarium.engine.plugins import DelayNetwork, Plugins
from astrarium.engine.plugins.exams import EXAM_FABRIC, exam_network
from astrarium.errors import UnsupportedError

from .common import example, fabric, mixed_plan, pair_plan, steady

ENGINES = [pytest.param(False, marks=pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here"), id="core"),
           pytest.param(True, id="pure")]


@pytest.mark.parametrize("backend", [Backend.PORTS, "contention"])
def test_the_built_in_networks_pass_the_exam(backend: str) -> None:
    exam_network(lambda: BuiltinNetwork(EXAM_FABRIC, backend), latency=500_000)


def test_the_twin_in_python_and_a_plain_delay_pass_the_exam() -> None:
    toy = example("toy").Toy
    exam_network(lambda: toy(EXAM_FABRIC), latency=500_000)
    exam_network(lambda: DelayNetwork(lambda size, src, dst, now: 7), latency=7)


@pytest.mark.parametrize("pure", ENGINES)
def test_a_message_takes_what_the_plug_in_says(pure: bool) -> None:
    outcome = execute(pair_plan(), plugins=Plugins(network=steady(1234)), pure=pure)
    assert outcome.finish.tolist() == [1234, 1234]


@pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here")
@pytest.mark.parametrize("algorithm", ["ring", "direct", "halving_doubling", "double_binary_tree"])
def test_both_engines_agree(algorithm: str) -> None:
    plan, plugins = mixed_plan(8, algorithm), Plugins(network=example("toy").Toy)
    core, pure = (execute(plan, plugins=plugins, record=True, pure=pure) for pure in (False, True))
    assert core.end.tolist() == pure.end.tolist()
    assert core.start.tolist() == pure.start.tolist()
    assert core.makespan > 0


@pytest.mark.parametrize("pure", ENGINES)
@pytest.mark.parametrize("algorithm", ["ring", "direct", "halving_doubling", "double_binary_tree"])
def test_closed_form_as_a_plug_in_gives_the_same_integers(algorithm: str, pure: bool) -> None:
    """Hops take time here: else what arrives and what departs could meet in one instant."""
    plan = mixed_plan(8, algorithm)
    dims = tuple(replace(dim, latency=max(dim.latency, 0.5)) for dim in plan.network.dims)
    same(replace(plan, network=NetworkPlan(Backend.PORTS, dims)), pure)


@pytest.mark.parametrize("pure", ENGINES)
@pytest.mark.parametrize("shape", [Shape.SWITCH, Shape.FULLY_CONNECTED])
def test_contention_as_a_plug_in_gives_the_same_integers(shape: Shape, pure: bool) -> None:
    """Where messages in transit do not share links with those that depart."""
    plan = mixed_plan(8)
    dims = tuple(replace(dim, shape=shape) for dim in plan.network.dims)
    same(replace(plan, network=NetworkPlan("contention", dims)), pure)



def same(plan: Plan, pure: bool) -> None:
    own = execute(plan, fold=False, record=True, pure=pure)
    plugins = Plugins(network=lambda fabric: BuiltinNetwork(fabric, plan.network.backend))
    foreign = execute(plan, plugins=plugins, record=True, pure=pure)
    assert own.end.tolist() == foreign.end.tolist()
    assert own.finish.tolist() == foreign.finish.tolist()


def test_runs_are_independent() -> None:
    plugins = Plugins(network=example("toy").Toy)
    first, second = (execute(mixed_plan(), plugins=plugins).finish.tolist() for _ in range(2))
    assert first == second


def test_a_plan_for_a_plug_in_needs_one() -> None:
    with pytest.raises(UnsupportedError, match="network plug-in"):
        execute(pair_plan())


def test_astra_sims_rule_book_takes_no_plug_ins() -> None:
    from astrarium.engine.plan import Order, Policy

    plan: Plan = replace(pair_plan(), policy=Policy(order=Order.ASTRA_SIM))
    with pytest.raises(UnsupportedError, match="ASTRA-sim"):
        execute(plan, plugins=Plugins(network=steady()))


def test_the_fabric_is_the_plans() -> None:
    seen = []

    def make(network: NetworkPlan) -> DelayNetwork:
        seen.append(network.dims)
        return DelayNetwork(lambda size, src, dst, now: 1)

    execute(pair_plan(), plugins=Plugins(network=make))
    assert seen == [fabric(2).dims]
