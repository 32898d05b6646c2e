"""Streams, placement, NPUs that are slow or out of service."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.commands import Run

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


def test_slow_npus_and_outages(run: Run, tmp_path: Path) -> None:
    """All wait for the NPU that is slow, or out of service for 1 ms; the path of before is read, with a note."""
    base = ar.Design(workload=ar.Transformer(ar.Decoder(layers=2, d_model=256, heads=4, ffn=1024, vocab=1000), seq=128,
                                             global_batch=4, dp=4),
                     network=ar.Network([ar.Ring(4, bandwidth="50 GB/s", latency="500 ns")]),
                     compute=ar.Roofline(peak="100 TFLOP/s"), memory=ar.Memory(bandwidth="1 TB/s", capacity="80 GB"))
    whole = ar.simulate(base)
    slow = ar.replace(base, "system.changes", [{"npu": 1, "speed": 0.5}])
    assert ar.simulate(slow).makespan > whole.makespan
    out = ar.replace(base, "system.changes", [{"at": "20 us", "npu": 1, "speed": 0},
                                              {"at": "1020 us", "npu": 1, "speed": 1}])
    assert round(float(ar.simulate(out).makespan - whole.makespan)) == 1_000_000
    old = ar.replace(base, "network.changes", [{"npu": 1, "speed": 0.5}])
    assert ar.simulate(old).makespan == ar.simulate(slow).makespan
    ar.dump_design(old, tmp_path / "old.yaml")
    said = run("run", tmp_path / "old.yaml")
    assert (said.code, "network.changes[0].npu: read as system.changes, npu: 1" in said.err) == (0, True)
    with pytest.raises(ar.InputError, match=r"system.changes\[0\].npu: there is no NPU 4; expected 0 to 3"):
        ar.simulate(ar.replace(slow, "system.changes[0].npu", 4))
    with pytest.raises(ar.InputError, match=r"system\.changes: does not exist under compat: astra_sim"):
        ar.replace(slow, "compat", "astra_sim")
