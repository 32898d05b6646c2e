"""The highest rate within limits: on a grid, from wherever the search starts; limits as text."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from msgspec import Struct

from astrarium.errors import InputError
from astrarium.serving import Served
from astrarium.serving.find import TOLERANCE, find_rate, rate_of, step_of
from astrarium.serving.slo import Limit, Slo, limit_of, slo_of

LIMIT = Limit("tpot", "p99", 30e6)


class Queue(Struct, frozen=True):
    """A server whose TPOT is `least / (1 - rate / capacity)` of its limit; saturated from the capacity on."""

    capacity: float
    least: float

    def worst(self, served: Any) -> tuple[float, Limit]:
        return (math.inf if served >= self.capacity else self.least / (1 - served / self.capacity)), LIMIT


@pytest.mark.parametrize("start", [0.4, 3.0, 5.9, 6.1, 8.0, 200.0])
def test_the_same_rate_from_any_start(start: float) -> None:
    found = find_rate(lambda rate: cast(Any, rate), cast(Slo, Queue(10.0, 0.4)), start)
    assert found.best is not None
    assert found.beyond is not None
    assert found.best.rate <= 6.0 < found.beyond.rate == pytest.approx(found.best.rate * (1 + TOLERANCE))
    assert len(found.tried) <= 12
    assert len({each.rate for each in found.tried}) == len(found.tried)


def test_a_guess_that_is_near_takes_few_tries() -> None:
    assert len(find_rate(lambda rate: cast(Any, rate), cast(Slo, Queue(10.0, 0.4)), 6.3).tried) <= 6


def test_no_rate_holds_and_all_do() -> None:
    none = find_rate(lambda rate: cast(Any, rate), cast(Slo, Queue(10.0, 1.1)), 5.0)
    assert none.best is None
    assert none.beyond is not None
    assert none.beyond.rate < 0.1
    every = find_rate(lambda rate: cast(Any, rate), cast(Slo, Queue(1e9, 0.1)), 5.0)
    assert every.beyond is None
    assert every.best is not None
    assert every.best.rate > 300


def test_the_grid() -> None:
    assert step_of(rate_of(17)) == 17
    assert step_of(rate_of(17) * 1.001) == 18


def test_limits_as_text() -> None:
    slo = slo_of("ttft_p99=2s, tpot_mean=30ms")
    assert slo.limits == (Limit("ttft", "p99", 2e9), Limit("tpot", "mean", 30e6))
    assert str(slo) == "TTFT p99 2 s, TPOT mean 30 ms"
    assert limit_of("ttft", "p90=1s", "ttft") == Limit("ttft", "p90", 1e9)
    assert (slo.limits[0].share, slo.limits[1].share) == (0.99, 1.0)


@pytest.mark.parametrize(("text", "part"), [
    ("ttft=2s", "such as ttft_p99=2s"), ("ttft_=2s", "such as ttft_p99=2s"), ("tftf_p99=2s", "did you mean 'ttft'"),
    ("ttft_p99", "no limit"), ("ttft_p98=1s", "p99"), ("ttft_p99=0s", "more than 0"),
    ("ttft_p99=1s,ttft_p99=2s", "twice"), ("ttft_p99=2", "unit")])
def test_limits_that_are_refused(text: str, part: str) -> None:
    with pytest.raises(InputError, match=part):
        slo_of(text)


def test_limits_that_requests_keep_together() -> None:
    """Of four requests each keeps one limit but one, which keeps both: each alone holds for half of them."""
    ps = np.array([1e9, 1e9, 3e9, 3e9]), np.array([3e9, 1e9, 1e9, 3e9])
    served = SimpleNamespace(ttft=ps[0], tpot=ps[1], saturated=False, window=None, within=lambda _: np.full(4, True),
                             latencies=lambda _: {"ttft": (ps[0], None), "tpot": (ps[1], None)})
    alone, both = slo_of("ttft_p50=2ms,tpot_p50=2ms"), slo_of("ttft_good50=2ms,tpot_good50=2ms")
    assert alone.worst(cast(Served, served))[0] == 0.5
    assert both.worst(cast(Served, served))[0] == 1.5
    ps[1][0] = 1e9
    assert both.worst(cast(Served, served))[0] == 0.5
    with pytest.raises(InputError, match="of tokens"):
        slo_of("itl_good90=2ms")
