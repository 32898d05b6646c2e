"""Durations of both rule books against exact rational arithmetic and against plain C doubles."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium.compute.checked import LIMIT_PS, to_ps, truncated_ns
from astrarium.compute.durations import DURATIONS
from astrarium.compute.replay import replay_astra_sim, replay_native
from astrarium.compute.roofline import roofline_astra_sim, roofline_native
from astrarium.errors import InputError
from astrarium.units import FlopRate

COUNTS = st.integers(1, 10**13)
TERA = st.integers(1, 10**6).map(lambda n: n / 1000)
GIGA = st.integers(10**4, 10**7).map(lambda n: n / 1000)


def c_double_ns(ops: int, size: int, giga: float, tera: float) -> int:
    """The reference's expression, one rounded double operation after another, as a C program runs it."""
    peak = tera * 1000000000000.0
    bandwidth = giga * 1000000000.0
    intensity = float(ops) / float(size)
    memory = bandwidth * intensity
    return math.trunc(float(ops) / (min(memory, peak)) * 1e9)


@given(COUNTS, COUNTS, TERA, GIGA)
def test_compat_roofline_is_the_reference_double(ops: int, size: int, tera: float, giga: float) -> None:
    peak = float(FlopRate(f"{tera!r} TFLOP/s"))
    expected = c_double_ns(ops, size, giga, tera)
    if expected < 10**15:
        assert roofline_astra_sim([ops], [size], peak, giga).tolist() == [expected * 1000]


@given(COUNTS, COUNTS, TERA, GIGA)
def test_native_roofline_is_the_exact_time_rounded_once(ops: int, size: int, tera: float, giga: float) -> None:
    peak = tera * 1000.0
    rate = min(Fraction(peak), Fraction(giga) * Fraction(ops, size))
    exact = Fraction(ops) / rate * 1000
    if exact < 2**60:
        (found,) = roofline_native([ops], [size], peak, giga).tolist()
        assert abs(found - exact) <= Fraction(1, 2) + exact * Fraction(1, 2**51)


def test_a_node_by_hand() -> None:
    # 1e12 flop at 100 TFLOP/s: 10 ms. 1e9 bytes at 1000 GB/s: 1 ms. 1e9 flop on 1e9 bytes: memory bound, 1 ms.
    flops, size = [10**12, 10**9, 0, 10**12, 0], [10**9, 10**9, 10**9, 0, 0]
    assert roofline_native(flops, size, 1e5, 1000.0).tolist() == [10**10, 10**9, 10**9, 10**10, 0]
    assert roofline_astra_sim(flops, size, 1e5, 1000.0).tolist() == [10**10, 10**9, 0, 0, 0]


def test_compat_order_of_operations_matters() -> None:
    """Some node is a nanosecond off when it is computed in flop/ns: the reference's own order is kept."""
    ops = np.arange(1, 20000) * 312_000  # whole ns at 312 TFLOP/s
    size = np.ones(len(ops))
    found = roofline_astra_sim(ops, size, 312_000.0, 2039.0)
    per_ns = np.trunc(ops / np.minimum(2039.0 * (ops / size), 312_000.0)) * 1000
    assert set((per_ns - found).tolist()) == {0.0, 1000.0}


def test_replay() -> None:
    found, none = replay_native(np.array([5, 0, 7], np.uint64))
    assert (found.tolist(), none.tolist()) == ([5_000_000, 0, 7_000_000], [False, True, False])
    found, none = replay_native(np.array([5, 0], np.uint64), 1.5)
    assert (found.tolist(), none.tolist()) == ([5_000_000, 1500], [False, False])
    found, none = replay_native(np.array([0], np.uint64), 0.0)
    assert (found.tolist(), none.tolist()) == ([0], [False])
    found, none = replay_astra_sim(np.array([5, 0], np.uint64))
    assert (found.tolist(), none.tolist()) == ([5_000_000, 1000], [False, False])
    assert replay_native(np.zeros(0, np.uint64))[0].tolist() == []


@pytest.mark.parametrize(
    "micros", [np.array([2**63], np.uint64), np.array([LIMIT_PS // 10**6 + 1], np.uint64), np.array([-1])]
)
def test_a_clock_that_would_wrap_is_refused(micros: object) -> None:
    for replay in (replay_native, replay_astra_sim):
        with pytest.raises(InputError, match="us is impossible"):
            replay(micros)  # type: ignore[arg-type]


@pytest.mark.parametrize("ns", [math.nan, math.inf, -1.0, 1e16])
def test_no_number_becomes_a_wrong_time(ns: float) -> None:
    for convert in (to_ps, truncated_ns):
        with pytest.raises(InputError, match="is impossible"):
            convert([0.0, ns])


def test_rounding_is_half_to_even_once() -> None:
    assert to_ps([0.0005, 0.0015, 0.0025, 1.2344]).tolist() == [0, 2, 2, 1234]
    assert truncated_ns([0.999, 1.0, 17.9999]).tolist() == [0, 1000, 17000]


def test_the_table_has_both_rule_books() -> None:
    assert set(DURATIONS) == {"none", "astra_sim"}
    assert DURATIONS["none"].replay([0], None)[1].tolist() == [True]
    assert DURATIONS["astra_sim"].replay([0], None)[0].tolist() == [1000]


def test_local_accesses_wait_for_the_first_byte():
    """access time = latency + size / bandwidth (the memory model of ASTRA-sim's tutorial), beside F / peak."""
    import astrarium as ar
    from astrarium.compute.roofline import roofline_native

    found = roofline_native([0, 0, 4e6], [0, 1000, 1000], 1000.0, 50.0, 100.0)
    assert found.tolist() == [0, 120_000, 4_000_000]
    network = ar.Network([ar.Ring(2, bandwidth="1 GB/s", latency="1 ns")])
    memory = ar.Memory(bandwidth="1 TB/s", latency="7 ns")
    with pytest.raises(ar.InputError, match=r"memory.latency: has no effect"):
        ar.Design(workload=ar.SingleCollective("barrier", "1 B"), network=network, memory=memory)
    ar.Design(workload=ar.SingleCollective("barrier", "1 B"), network=network, memory=memory,
              compute=ar.Roofline(peak="1 TFLOP/s"))
