"""Provisioning of designs: the answer is the best of a grid, budgets hold, bad input is named."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import astrarium as ar
from astrarium.errors import InputError, UnsupportedError
from astrarium.network.cost import network_cost
from astrarium.provision import Budget, dollars_per_bandwidth, provision, with_bandwidths
from astrarium.provision.budget import Feasible
from astrarium.provision.pattern import pattern_search


def design(**changes: Any) -> ar.Design:
    made = ar.Design(
        workload=ar.Transformer(model="llama3-8b", global_batch=8, tp=4, dp=8, zero=1, recompute="full"),
        compute=ar.Roofline(peak="794 TFLOP/s"), memory=ar.Memory(capacity="80 GB", bandwidth="3.35 TB/s"),
        network=ar.Network([ar.Ring(4, latency="500 ns", bandwidth="100 GB/s"),
                            ar.FullyConnected(2, latency="1 us", bandwidth="50 GB/s"),
                            ar.Switch(4, latency="2 us", bandwidth="50 GB/s")]),
        collective=ar.Collective(choice="none", composition="blueconnect", chunks=8))
    return ar.replace_all(made, changes)


def one_collective(**changes: Any) -> ar.Design:
    made = design(workload={"source": "collective", "op": "all_reduce", "payload": "64 MB"})
    return ar.replace_all(made, changes)


def test_the_answer_spends_the_money_and_beats_drawn_allocations() -> None:
    made = design()
    prices = dollars_per_bandwidth(made)
    found = provision(made, Budget(money=network_cost(made.network)))
    assert found.best.network_cost == pytest.approx(network_cost(made.network), rel=1e-9)
    assert found.best.time < found.equal.time
    rng = np.random.default_rng(0)
    for share in rng.dirichlet(np.ones(3), 25):
        bandwidths = np.maximum(share * network_cost(made.network) / prices, 0.1)
        time = float(ar.simulate(with_bandwidths(made, bandwidths.tolist()), record=False).makespan)
        assert time >= found.best.time


def test_prices_are_those_of_the_cost_model() -> None:
    made = design()
    bandwidths = np.array([dim.npu_bandwidth for dim in made.network.flat])
    assert float(dollars_per_bandwidth(made) @ bandwidths) == pytest.approx(network_cost(made.network), rel=1e-12)


@pytest.mark.parametrize("budget", [
    pytest.param(Budget(money=40_000.0, floor="1 GB/s"), marks=pytest.mark.exam),
    Budget(bandwidth="300 GB/s", spend_all=True), Budget(bandwidth="300 GB/s", money=60_000.0, floor="1 GB/s")])
def test_time_times_cost_is_the_least_of_a_grid(budget: Budget) -> None:
    made = one_collective(**{"collective.chunks": 64, "compute.price": 100.0})
    prices = dollars_per_bandwidth(made)
    found = provision(made, budget, "time_x_cost")
    assert found.best.cost == pytest.approx(float(prices @ np.array(found.best.bandwidths)) + 32 * 100.0)
    total = np.inf if budget.bandwidth is None else float(budget.bandwidth)
    steps = np.geomspace(1, 300, 6)
    for first, second in itertools.product(steps, steps):
        for third in [total - first - second] if budget.spend_all else steps:
            point = np.array([first, second, third])
            if third > 0.1 and point.sum() <= total and (budget.money is None or prices @ point <= budget.money):
                time = float(ar.simulate(with_bandwidths(made, point.tolist()), record=False).makespan)
                assert found.best.product <= time * float(prices @ point + 32 * 100.0)


def test_weights_of_workloads_count() -> None:
    """Two workloads that need different dims: the heavier one gets its bandwidth."""
    inner = design(**{"workload.zero": 0, "workload.dp": 8})
    outer = one_collective(**{"workload.op": "all_to_all"})
    budget = Budget(bandwidth="300 GB/s")
    alone = [provision(each, budget, most_simulations=80).best.bandwidths[0] for each in (inner, outer)]
    both = [provision([inner, outer], budget, weights=weights, most_simulations=80).best.bandwidths[0]
            for weights in ([1e6, 1e-6], [1e-6, 1e6])]
    assert both == pytest.approx(alone, rel=2e-3)
    assert abs(alone[0] / alone[1] - 1) > 0.05


def test_npus_with_prices_make_the_network_worth_more() -> None:
    """With dear NPUs time x cost buys more bandwidth."""
    budget = Budget(money=2e5, floor="1 GB/s")
    cheap, dear = (provision(one_collective(**{"compute.price": price}), budget, "time_x_cost")
                   for price in (10.0, 10_000.0))
    assert dear.best.network_cost > 2 * cheap.best.network_cost
    assert dear.best.cost == pytest.approx(dear.best.network_cost + 320_000.0)


@pytest.mark.parametrize(("arguments", "path", "said"), [
    ({}, "Budget.money", "is missing"), ({"money": 0.0}, "Budget.money", "0"),
    ({"money": -5.0}, "Budget.money", "-5"), ({"bandwidth": "0 GB/s"}, "Budget.bandwidth", "0"),
    ({"bandwidth": "10 GB/s", "floor": "0 GB/s"}, "Budget.floor", "0"),
    ({"money": 5.0, "spend_all": True}, "Budget.spend_all", "without a total"),
    ({"bandwidth": "10 GB/s", "money": 5.0, "spend_all": True}, "Budget.spend_all", "both"),
    ({"bandwidth": "10 GB/s", "ceiling": ["1 MB/s"]}, "Budget.ceiling[0]", "not above the floor")])
def test_budgets_that_make_no_sense(arguments: dict[str, Any], path: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        Budget(**arguments)
    assert str(caught.value).startswith(path)


@pytest.mark.parametrize(("budget", "more", "path", "said"), [
    ({"money": 100.0}, {}, "Budget.money", "cannot buy 100 MB/s in every dim"),
    ({"bandwidth": "2 GB/s", "floor": "1 GB/s"}, {}, "Budget.bandwidth", "cannot buy"),
    ({"bandwidth": "9 GB/s", "ceiling": ["1 GB/s"]}, {}, "Budget.ceiling", "has 1 entries"),
    ({"bandwidth": "9 GB/s", "ceiling": ["1 GB/s"] * 3, "spend_all": True}, {}, "Budget.ceiling", "spend_all"),
    ({"bandwidth": "9 GB/s"}, {"objective": "cost"}, "objective", "not known"),
    ({"bandwidth": "9 GB/s"}, {"prices": [1.0]}, "prices", "has 1 entries"),
    ({"bandwidth": "9 GB/s"}, {"prices": [1.0, -1.0, 1.0]}, "prices[1]", "is no price"),
    ({"bandwidth": "9 GB/s"}, {"weights": [1.0, 1.0]}, "weights", "has 2 entries"),
    ({"bandwidth": "9 GB/s"}, {"weights": [0.0]}, "weights[0]", "more than 0")])
def test_questions_that_have_no_answer(budget: dict[str, Any], more: dict[str, Any], path: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("[", r"\[")) as caught:
        provision(one_collective(), Budget(**budget), **more)
    assert str(caught.value).startswith(path)


@pytest.mark.parametrize(("changes", "path"), [
    ({"collective": {"model": "measured"}}, "collective.model"),
    ({"network.dims[2].shape": "mesh"}, "network.dims[2].shape"),
    ({"network.dims": [{"shape": "torus", "npus": [2, 2], "bandwidth": "50 GB/s", "latency": "1 us"}]},
     "network.dims[0]")])
def test_designs_without_an_answer(changes: dict[str, Any], path: str) -> None:
    """Times that do not depend on bandwidths, a shape without a price, a dim that is several."""
    with pytest.raises(UnsupportedError) as caught:
        provision(one_collective(**changes), Budget(money=1e5))
    assert str(caught.value).startswith(path)


def test_workloads_on_unlike_networks() -> None:
    with pytest.raises(InputError, match=r"^workloads\[1\]: has other network dims"):
        provision([one_collective(), one_collective(**{"network.dims[0].npus": 2})], Budget(money=1e5))


def test_the_search_ends_at_the_last_digits() -> None:
    feasible = Feasible(np.ones((1, 2)), np.array([10.0]), np.full(2, 0.1), np.full(2, np.inf))
    best, count = pattern_search(lambda at: max(3 / float(at[0]), 1 / float(at[1])), np.array([5.0, 5.0]), feasible,
                                 True, 200)
    assert best == pytest.approx([7.5, 2.5], rel=1e-4)
    assert count <= 200


def test_ceilings_and_a_total_hold() -> None:
    feasible = Feasible(np.zeros((0, 2)), np.zeros(0), np.array([1.0, 1.0]), np.array([np.inf, 4.0]), 10.0)
    best, _ = pattern_search(lambda at: 1 / float(at[0]) + 100 / float(at[1]), feasible.fitted(np.ones(2), True),
                             feasible, True, 200)
    assert best == pytest.approx([6.0, 4.0], rel=1e-5)
