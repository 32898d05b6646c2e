"""Activities: shares, re-timing, bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium.engine.activities import NEVER, Activities
from astrarium.errors import InputError

MS = 10**9


def test_two_share_and_a_third_that_comes_later_takes_its_part() -> None:
    shares, ends = Activities(), {}
    shares.set_capacity("port", 1.0)                                    # 1 byte per ps
    for name in "ab":
        shares.start(1000, ["port"], lambda name=name: ends.setdefault(name, shares.now))  # type: ignore[misc]
    shares.advance(1000)                                                # each has 500 left
    shares.start(1000, ["port"], lambda: ends.setdefault("c", shares.now))
    shares.advance(MS)
    assert ends == {"a": 2500, "b": 2500, "c": 3000}                    # thirds until 2500, then c alone


def test_a_straggler_is_timed_again() -> None:
    shares, ends = Activities(), []
    shares.set_capacity("npu", 1.0)
    shares.start(1000, ["npu"], lambda: ends.append(shares.now))
    shares.advance(400)
    shares.set_capacity("npu", 0.25)                                    # a quarter of the speed from here on
    assert shares.next_time() == 400 + 600 * 4
    shares.advance(MS)
    assert ends == [2800]


def test_max_min_fairness() -> None:
    """b is held to 1 by its own port, so a gets what is left of the shared one."""
    shares, ends = Activities(), {}
    shares.set_capacity("shared", 4.0)
    shares.set_capacity("slow", 1.0)
    shares.start(3000, ["shared"], lambda: ends.setdefault("a", shares.now))
    shares.start(1000, ["shared", "slow"], lambda: ends.setdefault("b", shares.now))
    shares.advance(MS)
    assert ends == {"a": 1000, "b": 1000}


@given(works=st.lists(st.integers(0, 10**6), min_size=1, max_size=12), capacity=st.sampled_from([0.5, 1.0, 3.0, 0.05]))
def test_no_resource_carries_more_than_its_capacity_and_none_idles(works: list[int], capacity: float) -> None:
    shares, ends = Activities(), []
    shares.set_capacity("port", capacity)
    for work in works:
        shares.start(work, ["port"], lambda: ends.append(shares.now))
    shares.advance(10**12)
    assert len(ends) == len(works)
    assert shares.next_time() == NEVER
    bound = sum(works) / capacity
    assert bound * (1 - 1e-9) - 1 <= max(ends) <= bound * (1 + 1e-9) + len(works)


def test_refusals() -> None:
    shares = Activities()
    with pytest.raises(InputError, match="capacity"):
        shares.set_capacity("port", 0.0)
    with pytest.raises(InputError, match="nowhere"):
        shares.start(1, ["nowhere"], lambda: None)
