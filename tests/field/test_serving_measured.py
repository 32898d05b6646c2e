"""Serving with measured kernels on several replicas, and with prefill and decode apart.

Source: users' report, issue 35 line 12: "names no kernel" for dp of 2 and for pools.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astrarium as ar
from astrarium.compute.measured import Measured
from astrarium.serving import Buckets, ClosedLoop, Poisson, RequestTrace, serve
from astrarium.serving.scheduler import Job, Scheduler
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.disaggregated import Disaggregated, Pool


def design(work: Inference | Disaggregated) -> ar.Design:
    return ar.Design(workload=work, compute=Measured(device="h100_sxm"),
                     memory=ar.Memory(bandwidth="3.35 TB/s", capacity="80 GB"),
                     network=ar.Network([ar.Switch(work.ranks, bandwidth="450 GB/s", latency="500 ns")]))


def server(dp: int) -> ar.Design:
    return design(Inference("llama3-8b", tp=2, dp=dp, batch=dp, phase="decode", context=1))


@pytest.mark.parametrize("model", ["measured", "roofline"])
def test_a_replica_takes_the_times_of_a_server_with_its_requests_alone(
        model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    taken: dict[int, list[int]] = {}
    add = Scheduler.add

    def noted(self: Scheduler, job: Job, most: int) -> None:
        taken.setdefault(id(self), []).append(job.number)
        add(self, job, most)

    def on(dp: int) -> ar.Design:
        base = server(dp)
        return base if model == "measured" else ar.replace(base, "compute", ar.Roofline(peak="989 TFLOP/s"))

    stream = Poisson(rate=40, count=12, seed=3, prompt=300, output=12)
    with monkeypatch.context() as patched:
        patched.setattr(Scheduler, "add", noted)
        both = serve(on(2), stream)
    assert len(taken) == 2
    for numbers in taken.values():
        file = tmp_path / f"{numbers[0]}.csv"
        rows = (f"{int(both.arrival[number]) / 1e12:.12f},300,12" for number in numbers)
        file.write_text("arrival,prompt,output\n" + "\n".join(rows) + "\n")
        alone = serve(on(1), RequestTrace(path=str(file)))
        start = both.arrival[numbers].min()
        np.testing.assert_array_equal(alone.first + start, both.first[numbers])
        np.testing.assert_array_equal(alone.finish + start, both.finish[numbers])


def test_pools_take_measured_steps_and_the_transfer_of_the_cache() -> None:
    fields: dict[str, Any] = {"prompt": 512, "generated": 15, "contexts": "each"}
    work = Disaggregated(model="llama3-8b", prefill=Pool(), decode=Pool(), **fields)
    served = serve(design(work), ClosedLoop(concurrency=1, count=1, prompt=512, output=16), None,
                   Buckets(context=1))
    alone = ar.simulate(design(Inference("llama3-8b", **fields)))
    prefill, decode = alone.phases
    cache = 512 * 131072 / 450 + 500        # ns: 128 KiB a token of LLaMA 3 8B in bf16, over 450 GB/s
    assert int(served.first[0]) == pytest.approx(prefill.end + 1000 * cache, abs=1_000_000)      # ps
    assert int(served.finish[0]) == pytest.approx(decode.end + 1000 * cache, rel=1e-4)
    assert served.gaps.max() < 1.01 * served.gaps.min()
