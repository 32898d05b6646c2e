"""LIBRA's own cases: its published allocations, and what its released code finds.

The released code ran unmodified, its model (gurobipy) evaluated and minimised by SciPy's differential evolution and
Nelder-Mead in place of Gurobi, with 500 GB/s in all; `OWN_CODE` has its bandwidths' gains over equal ones.
"""

from __future__ import annotations

import math

import pytest
from tests.provision.libra import (
    ARTIFACT,
    ARTIFACT_NETWORKS,
    PUBLISHED,
    RELEASED,
    RELEASED_NETWORKS,
    artifact_prices,
    design_of,
    released_prices,
    traces_of,
)

from astrarium.provision import Budget, Provisioned, provision, with_bandwidths
from astrarium.simulate import simulate

QUICK = [("time", "2D", "1T"), ("time_x_cost", "2D", "17B")]
OWN_CODE = {
    ("Turing_NLG", "3D", "time"): 1.01907, ("Turing_NLG", "3D", "time_x_cost"): 5.26236,
    ("Turing_NLG", "4D", "time"): 1.02104, ("Turing_NLG", "4D", "time_x_cost"): 7.60325,
    ("GPT_3", "3D", "time"): 1.05953, ("GPT_3", "3D", "time_x_cost"): 5.20481,
    ("GPT_3", "4D", "time"): 1.07286, ("GPT_3", "4D", "time_x_cost"): 6.75419,
    ("MSFT_1T", "3D", "time"): 1.21212, ("MSFT_1T", "3D", "time_x_cost"): 4.50251,
    ("MSFT_1T", "4D", "time"): 1.24223, ("MSFT_1T", "4D", "time_x_cost"): 5.16205,
}


def asked(objective: str, sizes: tuple[int, ...], case: str, prices: list[float], total: str) -> Provisioned:
    work = {**ARTIFACT, **RELEASED}[case]
    budget = Budget(bandwidth=total, spend_all=objective == "time_x_cost")
    return provision(design_of(sizes), budget, objective, prices=prices,
                     traces=[traces_of(work, math.prod(sizes))])


def published_gain(objective: str, network: str, case: str) -> float:
    """Of the published bandwidths over equal ones, both simulated."""
    sizes, prices = ARTIFACT_NETWORKS[network], artifact_prices(network)
    design, traces = design_of(sizes), traces_of(ARTIFACT[case], math.prod(sizes))

    def value(bandwidths: list[float]) -> float:
        time = float(simulate(with_bandwidths(design, bandwidths), record=False, traces=traces).makespan)
        return time if objective == "time" else time * sum(map(float.__mul__, prices, bandwidths))

    return value([100 / len(sizes)] * len(sizes)) / value(list(PUBLISHED[objective, network, case]))


def check_published(objective: str, network: str, case: str) -> None:
    found = asked(objective, ARTIFACT_NETWORKS[network], case, artifact_prices(network), "100 GB/s")
    wanted = published_gain(objective, network, case)
    assert found.gain >= wanted * (1 - 5e-4)            # never worse, to the chunks' rounding
    assert found.gain == pytest.approx(wanted, rel=0.05)


@pytest.mark.parametrize(("objective", "network", "case"), QUICK)
def test_some_published_gains(objective: str, network: str, case: str) -> None:
    check_published(objective, network, case)


@pytest.mark.exam
@pytest.mark.parametrize(("objective", "network", "case"), PUBLISHED)
def test_all_published_gains(objective: str, network: str, case: str) -> None:
    check_published(objective, network, case)


def check_own_code(case: str, network: str, objective: str) -> None:
    found = asked(objective, RELEASED_NETWORKS[network], case, released_prices(network), "500 GB/s")
    assert found.gain == pytest.approx(OWN_CODE[case, network, objective], rel=0.005)


def test_one_gain_of_the_released_code() -> None:
    check_own_code("MSFT_1T", "3D", "time")


@pytest.mark.exam
@pytest.mark.parametrize(("case", "network", "objective"), OWN_CODE)
def test_all_gains_of_the_released_code(case: str, network: str, objective: str) -> None:
    check_own_code(case, network, objective)
