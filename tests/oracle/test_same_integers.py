"""The compiled core and the pure-Python engine run the same Plan to the same integers."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.draws import draws
from tests.plans.draw import random_plan
from tests.plans.hand import collective, delay, native_collective, plan_of

from astrarium import engine
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Backend, Dim, NetworkPlan, Plan, Shape
from astrarium.errors import StallError
from astrarium.oracle import execute
from astrarium.vocab import CommOp

pytestmark = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")

SEEDS = st.integers(0, 2**32 - 1)
LINKS = ("link_dim", "link_from", "link_to", "link_bytes", "link_busy")


def rows(outcome: Outcome) -> list[tuple[int, ...]]:
    """Traffic as sorted rows."""
    return sorted(zip(*(getattr(outcome, name).tolist() for name in LINKS), strict=True))


def assert_same(plan: Plan) -> None:
    try:
        ours = execute(plan, record=True)
    except StallError:
        with pytest.raises(StallError):
            engine.execute(plan, fold=False)
        return
    theirs = engine.execute(plan, record=True, fold=False)
    for name in ("finish", "busy", "node_ptr", "start", "end", "use_width", "use_busy"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    assert rows(ours) == rows(theirs)


@given(SEEDS)
@draws(50)
def test_native_programs(seed: int) -> None:
    assert_same(random_plan(seed, ends=False))


@pytest.mark.parametrize("shape", [Shape.RING, Shape.MESH, Shape.RING_ONE_WAY])
def test_tails_and_heads_that_come_at_once(shape: Shape) -> None:
    """Cut through: a message ends at the neighbour as the head of the next one, which goes further, comes there."""
    draw = random.Random(3)
    for _ in range(25):
        n = draw.choice([4, 5, 6, 8])
        network = NetworkPlan("contention", (Dim(shape, n, draw.choice([1.0, 10.0]), draw.choice([0.0, 1.0, 10.0])),),
                              cut_through=True)
        every = native_collective("direct", CommOp.ALL_TO_ALL, n, n * draw.choice([8, 100]),
                                  chunks=draw.choice([1, 2, 3]), active=draw.choice([0, 1, 2]))
        ranks = [[delay(draw.choice([0, 0, 1000, 5000])), collective(0, 0)] for _ in range(n)]
        assert_same(plan_of(ranks, network, collectives=[every]))


def test_many_instants_that_are_pending_at_once() -> None:
    """Many more than the compiled clock looks through one by one."""
    draw = random.Random(1)
    network = NetworkPlan(Backend.PORTS, (Dim(Shape.SWITCH, 500, 1.0, 1.0),))
    times = [draw.randrange(1, 10**9) for _ in range(501)]
    plan = plan_of([[delay(first), delay(then, 0)] for first, then in pairwise(times)], network)
    assert_same(plan)
