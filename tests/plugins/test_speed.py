"""A Python network plug-in answers 100 thousand sends a second, receives and callbacks included."""

from __future__ import annotations

import time

import pytest
from tests.plans.hand import collective, native_collective, plan_of

from astrarium.engine import HAVE_CORE, execute
from astrarium.engine.plugins import Plugins
from astrarium.vocab import CommOp

from .common import fabric, steady


@pytest.mark.exam
@pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here")
def test_sends_per_second() -> None:
    plan = plan_of([[collective(0)] for _ in range(64)], fabric(64),
                   collectives=[native_collective("direct", CommOp.ALL_TO_ALL, 64, 1 << 20, chunks=4)])
    best = 0.0
    for _ in range(3):
        start = time.process_time()
        execute(plan, plugins=Plugins(network=steady(1_000_000)))
        best = max(best, 64 * 63 * 4 / (time.process_time() - start))
    assert best >= 100_000
