"""Bandwidths in nccl-tests' conventions (its doc/PERFORMANCE.md)."""

from __future__ import annotations

import pytest

from astrarium.collective.bandwidth import algbw, bus_factor, busbw, payload
from astrarium.errors import InputError, UnsupportedError
from astrarium.vocab import CommOp


@pytest.mark.parametrize(("op", "factor"), [
    (CommOp.ALL_REDUCE, 14 / 8), (CommOp.ALL_GATHER, 7 / 8), (CommOp.REDUCE_SCATTER, 7 / 8),
    (CommOp.ALL_TO_ALL, 7 / 8), (CommOp.BROADCAST, 1), (CommOp.REDUCE, 1), (CommOp.GATHER, 7 / 8)])
def test_factors(op: CommOp, factor: float) -> None:
    assert bus_factor(op, 8) == factor


def test_payload_of_an_all_gather_is_its_output() -> None:
    assert payload(CommOp.ALL_GATHER, 100, 8) == 800
    assert payload(CommOp.ALL_REDUCE, 100, 8) == 100
    assert algbw(CommOp.ALL_GATHER, 100, 8, 10.0) == 80.0
    assert busbw(CommOp.ALL_GATHER, 100, 8, 10.0) == 70.0


def test_a_barrier_has_none_and_no_time_is_refused() -> None:
    with pytest.raises(UnsupportedError):
        bus_factor(CommOp.BARRIER, 8)
    with pytest.raises(InputError):
        algbw(CommOp.ALL_REDUCE, 1, 2, 0.0)
