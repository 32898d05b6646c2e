"""Users' report, issue 35 line 0: a search on `contention` took 15 to 20 times the CPU time of a plain run of the same
design (Llama 3 70B on 256 GPUs: 180 million events without a record, 28 million with one; here with an eighth of the
micro-batches)."""

from __future__ import annotations

import pytest

import astrarium as ar

pytestmark = pytest.mark.skipif(not ar.engine.HAVE_CORE, reason="the shortcuts are the compiled core's")


@pytest.fixture(scope="module")
def design() -> ar.Design:
    return ar.Design(
        workload=ar.Transformer("llama3-70b", tp=8, pp=4, dp=8, zero=1, tp_sequence=True, seq=4096, micro_batch=1,
                                global_batch=64),
        network=ar.Network([ar.Switch(8, bandwidth="450 GB/s", latency="500 ns"),
                            ar.Switch(32, bandwidth="50 GB/s", latency="2 us")], backend="contention"),
        compute=ar.Roofline(peak="989 TFLOP/s"), memory=ar.Memory(capacity="80 GB", bandwidth="3.35 TB/s"))


def test_a_run_without_a_record_takes_no_more_events(design: ar.Design) -> None:
    """The same attempts lead to the same answer; as much or more of the run is counted."""
    recorded, bare = (ar.simulate(design, record=record) for record in (True, False))
    assert bare.makespan_ps == recorded.makespan_ps
    assert bare.outcome.events == recorded.outcome.events < 10_000_000
    assert bare.outcome.counted >= recorded.outcome.counted
    assert bare.outcome.how == recorded.outcome.how
    assert bare.outcome.how[0].startswith("one rank per class of equal ranks: given up because of ")
    assert "timed alone" in bare.outcome.how[-1]


def test_a_trial_of_a_search_finds_what_a_run_does(design: ar.Design) -> None:
    space = ar.Space(design, {"network.dims[1].bandwidth": ["50 GB/s"]})
    study = ar.search(space, "makespan", agent="grid", trials=1)
    assert study.objectives() == {"makespan": ar.simulate(design, record=False).makespan_ps / 1000}
