"""Streams and placement."""

from __future__ import annotations

import pytest

import astrarium as ar
from astrarium.engine.plan import Lane


def test_lanes_stand_where_the_engine_looks() -> None:
    lanes = ar.System(compute_streams=2, comm_streams=3, cpu_threads=4, p2p_streams=5, copy_streams=6).lanes(7)
    assert [lanes[lane] for lane in (Lane.COMPUTE, Lane.COMM, Lane.CPU, Lane.P2P, Lane.COPY)] == [2, 3, 4, 5, 6]


def test_collectives_have_a_stream_for_each_process_group() -> None:
    assert [ar.System().lanes(groups)[Lane.COMM] for groups in (0, 1, 4)] == [1, 1, 4]


def test_placement() -> None:
    assert ar.System().npu_of(5) == 5
    assert ar.System(placement=[2, 0, 1]).npu_of(0) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ar.System(placement=[0, 1, 0]), r"System.placement\[2\]: NPU 0 already runs rank 0"),
        (lambda: ar.System(placement=[0, -1]), r"System.placement\[1\]: -1 is impossible"),
        (lambda: ar.System(placement="identiti"), "did you mean 'identity'"),
        (lambda: ar.System(comm_streams=0), "System.comm_streams: 0 is impossible; expected 1 or more"),
    ],
)
def test_what_is_refused(make: object, message: str) -> None:
    with pytest.raises(ar.InputError, match=message):
        make()  # type: ignore[operator]
