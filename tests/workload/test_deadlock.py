"""Generated training runs to its end, whatever the scheduling and the number of streams (design/0011)."""

from __future__ import annotations

import pytest

import astrarium as ar
from astrarium import engine

from .layouts import drawn

core = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")


def reported(streams: int, scheduling: str) -> ar.Design:
    """The layout that was seen to stall: a stage of 4 ranks is half of the ring, so its members end at other times."""
    return ar.Design(
        workload=ar.Transformer("llama3-8b", pp=4, cp=2, dp=2, zero=3, seq=4096, global_batch=8, micro_batch=1),
        compute=ar.Roofline(peak="989 TFLOP/s"), memory=ar.Memory(bandwidth="3.35 TB/s"),
        network=ar.Network([ar.Ring(8, bandwidth="450 GB/s", latency="500 ns"),
                            ar.FullyConnected(2, bandwidth="97 GB/s", latency="2 us")]),
        system=ar.System(comm_streams=streams), collective=ar.Collective(scheduling=scheduling))


@core
@pytest.mark.parametrize("scheduling", ["lifo", "fifo", "priority"])
def test_the_reported_layout(scheduling: str) -> None:
    """One stream: program order. Two: nobody waits for each other, and the scheduling decides."""
    one, folded = (ar.simulate(reported(1, scheduling), record=False, fold=fold) for fold in ("off", "auto"))
    assert one.outcome.in_program_order
    assert folded.outcome.in_program_order
    assert folded.outcome.folded
    assert folded.outcome.finish[folded.outcome.row].tolist() == one.outcome.finish[one.outcome.row].tolist()
    two = ar.simulate(reported(2, scheduling), record=False)
    assert not two.outcome.in_program_order
    assert two.makespan_ps < one.makespan_ps < 1.2 * two.makespan_ps


def ends(design: ar.Design) -> bool:
    """Runs it folded, and unfolded where that is small; whether in program order."""
    folded = ar.simulate(design, record=False)
    if design.workload.ranks <= 32:
        whole = ar.simulate(design, record=False, fold="off")
        assert folded.outcome.finish[folded.outcome.row].tolist() == whole.outcome.finish[whole.outcome.row].tolist()
        assert folded.outcome.in_program_order == whole.outcome.in_program_order
    return folded.outcome.in_program_order


@core
def test_drawn_layouts() -> None:
    """None stalls; folded and unfolded integers are equal."""
    ordered = [ends(design) for design in drawn(13, 20, 16)]
    assert len(ordered) == 20


@core
@pytest.mark.exam
def test_many_drawn_layouts() -> None:
    """5,000 of them, about 1 % of which the scheduling alone does not bring to their end."""
    ordered = [ends(design) for design in drawn(1, 5000)]
    assert 10 <= sum(ordered) <= 200
