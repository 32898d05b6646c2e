"""`comm_streams: auto`: a stream for each process group that a rank has collectives in."""

from __future__ import annotations

from typing import Any

import pytest

import astrarium as ar
from astrarium.engine.plan import Lane
from astrarium.lower import Kept, lower, lower_jobs, read_jobs, read_work
from astrarium.trace import TraceBuilder, traces_of_bytes
from astrarium.vocab import CommOp

NETWORK = ar.Network([ar.Switch(2, bandwidth="100 GB/s", latency="1 us"),
                      ar.Switch(4, bandwidth="50 GB/s", latency="1 us")])
SIZES = {"global_batch": 16, "seq": 256}


def streams_of(workload: Any, **sections: Any) -> int:
    """Collectives in flight at once on an NPU."""
    design = ar.Design(**{"workload": workload, "network": NETWORK, "compute": ar.Roofline(peak="100 TFLOP/s"),
                          "memory": ar.Memory(bandwidth="1 TB/s"), **sections})
    kept = Kept()
    plan = lower_jobs(design, read_jobs(design, {}, kept), None, kept) if isinstance(workload, ar.Jobs) else \
        lower(design, read_work(design, {}, kept))
    return int(plan.lanes[Lane.COMM])


@pytest.mark.parametrize(("layout", "streams"), [
    ({"dp": 8}, 1), ({"tp": 2, "dp": 4}, 2), ({"tp": 8}, 1), ({"tp": 2, "cp": 2, "dp": 2, "zero": 1}, 3),
])
def test_an_axis_each(layout: dict[str, int], streams: int) -> None:
    work = ar.Transformer({"like": "llama3-8b", "layers": 2}, **SIZES, **layout)  # type: ignore[arg-type]
    groups = streams_of(work)
    # Collectives of all ranks, such as the norm of the gradients, are one group more where no axis has all ranks.
    assert groups in (streams, streams + 1)
    assert streams_of(work, system=ar.System(comm_streams=1)) == 1


def test_jobs_share_the_most_that_one_needs() -> None:
    network = ar.Network([ar.Switch(16, bandwidth="100 GB/s", latency="1 us")])
    model = {"like": "llama3-8b", "layers": 2}
    one = ar.Transformer(model, tp=2, dp=4, **SIZES)  # type: ignore[arg-type]
    two = ar.Transformer(model, tp=8, **SIZES)  # type: ignore[arg-type]
    both = ar.Jobs([ar.Job(workload=one, npus=8), ar.Job(workload=two, npus=8)])
    alone = ar.Network([ar.Switch(8, bandwidth="100 GB/s", latency="1 us")])
    assert streams_of(both, network=network) == streams_of(one, network=alone) > streams_of(two, network=alone)


def test_traces_count_their_groups_and_involved_dims() -> None:
    def traces(make: Any) -> Any:
        builders = [TraceBuilder() for _ in range(8)]
        for builder in builders:
            make(builder)
        return traces_of_bytes([builder.encode() for builder in builders])

    def lanes(make: Any) -> int:
        design = ar.Design(workload=ar.Trace("in memory"), network=NETWORK)
        return int(lower(design, traces(make)).lanes[Lane.COMM])

    def one(builder: TraceBuilder) -> None:
        builder.coll("sum", CommOp.ALL_REDUCE, 4096)
        builder.coll("again", CommOp.ALL_REDUCE, 8192)

    def by_dims(builder: TraceBuilder) -> None:
        builder.coll("inner", CommOp.ALL_REDUCE, 4096, involved_dim=[True, False])
        builder.coll("outer", CommOp.ALL_REDUCE, 4096, involved_dim=[False, True])

    assert (lanes(one), lanes(by_dims), lanes(lambda builder: builder.comp("x", 3))) == (1, 2, 1)
