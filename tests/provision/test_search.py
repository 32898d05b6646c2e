"""Provisioning is at most 0.1 % worse than what agents find in 10,000 designs with the same knobs and money."""

from __future__ import annotations

import pytest
from tests.provision.test_provision import design, one_collective

import astrarium as ar
from astrarium.network.cost import network_cost
from astrarium.provision import Budget, dollars_per_bandwidth, provision


def shares(made: ar.Design, money: float) -> ar.Space:
    """All ways to spend the money."""
    prices = dollars_per_bandwidth(made).tolist()
    spent = " + ".join(f"{price!r} * w{place}" for place, price in enumerate(prices))
    knob = {"from": 1.0, "to": 1e4, "log": True}
    return ar.Space(made, variables={f"w{place}": knob for place in range(len(prices))},
                    derived={f"network.dims[{place}].bandwidth_per_npu": f"{money!r} * w{place} / ({spent})"
                             for place in range(len(prices))})


def check(made: ar.Design, trials: int) -> None:
    money = network_cost(made.network)
    answer = provision(made, Budget(money=money))
    for agent in ("random", "annealing", "genetic"):
        study = ar.search(shares(made, money), "makespan", agent=agent, trials=trials // 3, seed=1)
        assert answer.best.time <= 1.001 * study.objectives()["makespan"]


def test_a_few_searched_designs() -> None:
    check(one_collective(**{"collective.chunks": 4}), 90)


@pytest.mark.exam
def test_10_000_searched_designs_of_one_collective() -> None:
    check(one_collective(), 10_002)


@pytest.mark.exam
def test_10_000_searched_designs_of_training() -> None:
    check(design(), 10_002)
