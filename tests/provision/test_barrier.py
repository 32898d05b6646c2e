"""The convex program against closed forms, and against an open solver where one is installed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astrarium.provision.barrier import Feasible, least_time
from astrarium.provision.cuts import CuttingPlanes

DIMS = st.integers(1, 5)
NUMBER = st.floats(1e-2, 1e2)


def free(prices: list[float], money: float) -> Feasible:
    """A budget without floors worth the name."""
    dims = len(prices)
    return Feasible(np.array([prices]), np.array([money]), np.full(dims, 1e-9), np.full(dims, np.inf))


def inside(prices: list[float], money: float) -> np.ndarray:
    return 0.5 * money / (len(prices) * np.array(prices))


@settings(max_examples=25)
@given(st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=5), NUMBER, st.floats(0, 1e3))
def test_one_cut_is_cauchys_inequality(dims: list[tuple[float, float]], money: float, constant: float) -> None:
    """sum(g / b) under sum(c b) = M is least at b ~ sqrt(g / c): (sum sqrt(g c))^2 / M, a dollar saves 1 / M of it."""
    slope, prices = (np.array(each) for each in zip(*dims))
    found = least_time(np.array([constant]), slope[None, :], free(list(prices), money), inside(list(prices), money))
    least = float(np.sqrt(slope * prices).sum()) ** 2 / money
    assert found.time == pytest.approx(constant + least, rel=1e-6)
    assert found.bound <= constant + least * (1 + 1e-9)
    wanted = np.sqrt(slope / prices) * money / np.sqrt(slope * prices).sum()
    assert found.bandwidths == pytest.approx(wanted, rel=1e-2)
    assert found.worth[0] == pytest.approx(least / money, rel=1e-3, abs=1e-6 * constant / money)


@settings(max_examples=12)
@given(st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=4), NUMBER)
def test_largest_of_dims_is_proportional(dims: list[tuple[float, float]], money: float) -> None:
    """max(a / b) under sum(c b) = M is least where all are equal: T = sum(a c) / M. Found by cutting planes."""
    loads, prices = (np.array(each) for each in zip(*dims))

    def oracle(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        row = int((loads * y).argmax())
        return np.zeros(1), np.where(np.arange(loads.size) == row, loads, 0.0)[None, :]

    found = CuttingPlanes(oracle).least(free(list(prices), money), inside(list(prices), money))
    assert found.time == pytest.approx(float(loads @ prices) / money, rel=1e-5)
    assert found.bound <= found.time


def test_ceilings_and_floors_hold() -> None:
    feasible = Feasible(np.array([[1.0, 1.0]]), np.array([10.0]), np.array([1.0, 1.0]), np.array([np.inf, 4.0]))
    found = least_time(np.zeros(1), np.array([[1.0, 100.0]]), feasible, np.array([2.0, 2.0]))
    assert found.bandwidths == pytest.approx([6.0, 4.0], rel=1e-5)


def test_a_total_is_spent_exactly() -> None:
    """A price row that binds leaves the rest of the total to the cheap dim, however little that helps."""
    feasible = Feasible(np.array([[1.0, 10.0]]), np.array([28.0]), np.full(2, 0.1), np.full(2, np.inf), 10.0)
    found = least_time(np.zeros(1), np.array([[1.0, 100.0]]), feasible, np.array([9.0, 1.0]))
    assert float(found.bandwidths.sum()) == pytest.approx(10.0, rel=1e-9)
    assert found.bandwidths == pytest.approx([8.0, 2.0], rel=1e-5)


@pytest.mark.exam
def test_an_open_solver_agrees() -> None:
    cvxpy = pytest.importorskip("cvxpy", reason="pip install cvxpy: Clarabel is the rival")
    rng = np.random.default_rng(0)
    for _ in range(30):
        dims, cuts = int(rng.integers(1, 5)), int(rng.integers(1, 12))
        constant, slope = rng.uniform(0, 10, cuts), rng.uniform(0, 10, (cuts, dims)) * (rng.random((cuts, dims)) < 0.7)
        prices = rng.uniform(0.1, 10, dims)
        feasible = Feasible(np.vstack([prices, np.ones(dims)]), np.array([50.0, 40.0]), np.full(dims, 0.01),
                            np.full(dims, np.inf))
        bandwidths = cvxpy.Variable(dims)
        time = cvxpy.max(constant + slope @ cvxpy.inv_pos(bandwidths))
        problem = cvxpy.Problem(cvxpy.Minimize(time), [
            feasible.rows @ bandwidths <= feasible.limits, bandwidths >= 0.01])
        problem.solve(solver=cvxpy.CLARABEL)
        found = least_time(constant, slope, feasible, np.full(dims, 0.02))
        assert found.time == pytest.approx(problem.value, rel=1e-6)
