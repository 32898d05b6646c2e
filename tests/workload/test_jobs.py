"""Jobs in designs: where rules place them, and what is refused before anything runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import astrarium as ar
from astrarium import registry
from astrarium.config import dumps, loads
from astrarium.workload.config import Live
from astrarium.workload.generate import generate
from astrarium.workload.jobs import Jobs

SIZES = (4, 4)


def job(count: int | str | list[int] | None = 4, **more: Any) -> ar.Job:
    """A job of one all_reduce."""
    return ar.Job(ar.SingleCollective("all_reduce", "1 MB"), count, **more)


def where(*jobs: ar.Job, sizes: tuple[int, ...] = SIZES) -> list[list[int]]:
    """The NPUs of each."""
    return [npus.tolist() for npus in ar.Jobs(jobs).placed(sizes)]


def test_rules() -> None:
    assert where(job(3), job(5)) == [[0, 1, 2], [3, 4, 5, 6, 7]]
    assert where(job(8, placement="spread"), job(8, placement="spread")) == [[*range(0, 16, 2)], [*range(1, 16, 2)]]
    assert where(job(4, placement="spread"), job(4, placement="spread")) == [[0, 4, 8, 12], [1, 5, 9, 13]]
    assert where(job(4, placement="rail_aligned"), job(8, placement="rail_aligned")) == [
        [0, 4, 8, 12], [1, 2, 5, 6, 9, 10, 13, 14]]
    assert where(job(3, placement="rail_aligned"), job(2, placement="rail_aligned")) == [[0, 4, 8], [1, 5]]
    assert where(job(16, placement="rail_aligned")) == [[*range(16)]]
    assert where(job("0:16:5"), job([3, 1])) == [[0, 5, 10, 15], [3, 1]]


def test_lists_are_placed_before_rules() -> None:
    assert where(job(4), job([2, 0]), job("8:10")) == [[1, 3, 4, 5], [2, 0], [8, 9]]


def test_random_places_come_from_the_seed() -> None:
    first, again, other = (where(job(8, placement="random", seed=seed))[0] for seed in (1, 1, 2))
    assert first == again != other
    assert first == sorted(set(first))


@given(st.lists(st.tuples(st.sampled_from(registry.names("placement")), st.integers(1, 12)), min_size=1, max_size=5),
       st.sampled_from([(4, 4), (2, 3, 4), (8, 2), (16,), (1, 16)]))
def test_every_rule_gives_free_npus(jobs: list[tuple[str, int]], sizes: tuple[int, ...]) -> None:
    """All of them, each once, the same each time; or it says why not."""
    made = [job(count, placement=rule, seed=count if rule == "random" else None) for rule, count in jobs]
    total, wanted = int(np.prod(sizes)), sum(count for _, count in jobs)
    if wanted > total:
        with pytest.raises(ar.InputError, match=r"NPUs are left|ranks on|rail_aligned"):
            where(*made, sizes=sizes)
        return
    try:
        found = where(*made, sizes=sizes)
    except ar.InputError as error:
        assume("rail_aligned" not in str(error))
        raise
    taken = [npu for npus in found for npu in npus]
    assert [len(npus) for npus in found] == [count for _, count in jobs]
    assert len(set(taken)) == len(taken)
    assert set(taken) <= set(range(total))
    assert where(*made, sizes=sizes) == found


@given(st.integers(1, 16))
def test_spread_takes_the_same_of_every_group(count: int) -> None:
    (npus,) = where(job(count, placement="spread"))
    per_host = np.bincount(np.array(npus) // 4, minlength=4)
    assert per_host.max() - per_host.min() <= 1


def test_ranks_come_from_the_workload() -> None:
    work = ar.Transformer({"like": "llama3-8b", "layers": 2}, tp=2, dp=4, global_batch=4, seq=128)
    assert where(ar.Job(work)) == [[*range(8)]]
    assert where(ar.Job(work, "8:16")) == [[*range(8, 16)]]


class Deciding(Live, frozen=True):
    """Decides as it runs."""

    tag = "deciding"

    def feed(self, desk: object) -> Any:
        raise AssertionError


def design(*jobs: ar.Job, **more: Any) -> ar.Design:
    network = ar.Network([ar.Switch(4, bandwidth="100 GB/s", latency="0 ns"),
                          ar.Ring(4, bandwidth="50 GB/s", latency="0 ns")])
    return ar.Design(workload=ar.Jobs(jobs), network=network, **more)


WORK = ar.Transformer({"like": "llama3-8b", "layers": 2}, tp=2, dp=4, global_batch=4, seq=128)


def test_jobs_are_generated_one_by_one() -> None:
    with pytest.raises(ar.InputError, match=r"workload.source: 'jobs' is not generated; expected one of transformer"):
        generate(ar.Jobs([job()]))


@pytest.mark.parametrize(("make", "message"), [
    (lambda: ar.Jobs([]), r"Jobs.jobs: is empty; expected at least one job"),
    (lambda: job(None), r"Job.npus: is missing, and source: collective is of any number of ranks"),
    (lambda: job(0), r"Job.npus: 0 NPUs; expected at least one"),
    (lambda: where(job(4), sizes=(2**13, 2**12)),
     r"jobs: are placed NPU by NPU, and there are 33,554,432; expected a network of at most 16,777,216 NPUs"),
    (lambda: job(-2), r"Job.npus: -2 is impossible; expected 0 or more"),
    (lambda: job(start="-1 ns"), r"Job.start: '-1 ns' is not a time; expected a finite number, 0 or more"),
    (lambda: job(start="1e8 s"), r"Job.start: is more than 2\^63 ps; expected at most 106 days"),
    (lambda: job(placement="rail"), r"Job.placement: 'rail' is not known; .*did you mean 'rail_aligned'"),
    (lambda: job(placement="random"), r"Job.seed: is missing; expected a whole number"),
    (lambda: job(seed=3), r"Job.seed: has no effect; expected placement: random"),
    (lambda: job([1], placement="packed"), r"Job.placement: packed cannot be combined with a list of NPUs; expected "
                                            "one of the two"),
    (lambda: ar.Job(ar.Jobs([job()])), r"Job.workload.source: jobs inside a job"),
    (lambda: ar.Job(Deciding()), r"Job.workload.source: 'deciding' decides as it runs"),
    (lambda: ar.Job(WORK, 4), r"Job.npus: is 4; expected 8, the ranks of the job's workload"),
    (lambda: ar.Jobs([job(name="a"), job(), job(name="a")]), r"Jobs.jobs\[2\].name: 'a' is that of jobs\[0\]"),
    (lambda: design(job([1, 2]), job([3, 2])), r"workload.jobs\[1\].npus: NPU 2 is also in jobs\[0\]"),
    (lambda: design(job([1, 2, 1])), r"workload.jobs\[0\].npus: NPU 1 is twice in it"),
    (lambda: design(job([1, 16])), r"workload.jobs\[0\].npus: there is no NPU 16; expected 0 to 15"),
    (lambda: design(job([])), r"workload.jobs\[0\].npus: means no NPU"),
    (lambda: design(job("4")), r"workload.jobs\[0\].npus: '4' is not a slice"),
    (lambda: design(job("0:8:0")), r"workload.jobs\[0\].npus: '0:8:0' is not a slice"),
    (lambda: design(job("8:20")), r"workload.jobs\[0\].npus: 8:20 ends after the last NPU; expected an end of .* 16"),
    (lambda: design(job("8:4")), r"workload.jobs\[0\].npus: means no NPU"),
    (lambda: design(ar.Job(WORK, "0:4")), r"workload.jobs\[0\].npus: 4 NPUs; expected 8, the ranks of its workload"),
    (lambda: design(job(17)), r"workload.jobs\[0\].npus: 17 ranks on 16 NPUs; expected at most 16"),
    (lambda: design(job(10), job(8)), r"workload.jobs\[1\].npus: 8 ranks, and 6 of 16 NPUs are left"),
    (lambda: design(job(10), ar.Job(WORK)), r"workload.jobs\[1\].workload: 8 ranks, and 6 of 16 NPUs are left"),
    (lambda: design(job([0, 5, 10, 15]), job(4, placement="rail_aligned"), job(8, placement="rail_aligned")),
     r"workload.jobs\[2\].placement: rail_aligned: 8 NPUs are free, but not so that it suits 8 ranks"),
    (lambda: design(job(), system=ar.System(placement=[0, 1])), r"system.placement: cannot be combined with jobs"),
    (lambda: design(job(), stack="megatron-lm"), r"stack: does not reach the workloads of jobs"),
    (lambda: design(job(), compat="astra_sim"), r"workload.source: jobs do not exist under compat: astra_sim"),
])
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ar.InputError, match=message):
        make()


def test_a_file_names_the_line_of_a_job() -> None:
    text = ("workload:\n  source: jobs\n  jobs:\n    - {workload: {source: collective, op: all_reduce, payload: 1 MB}, "
            "npus: 2}\n    - {workload: {source: colective, op: all_reduce, payload: 1 MB}, npus: 2}\n"
            "network: {dims: [{shape: ring, npus: 8, bandwidth: 50 GB/s, latency: 0 ns}]}\n")
    message = r"x.yaml:5: workload.jobs\[1\].workload.source: 'colective' is not known; .*did you mean 'collective'"
    with pytest.raises(ar.InputError, match=message):
        loads(ar.Design, text, "x.yaml")
    found = loads(ar.Design, text.replace("colective", "collective"))
    assert isinstance(found.workload, Jobs)
    assert loads(ar.Design, dumps(found)) == found
