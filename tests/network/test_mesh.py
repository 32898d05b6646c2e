"""A line in closed form against contention that stores whole messages: the same time, as they go from NPU to NPU."""

from __future__ import annotations

import pytest

import astrarium as ar
from astrarium.errors import InputError

ALGORITHMS = ("ring", "ring_two_way", "direct", "halving_doubling", "double_binary_tree", "bruck", "binomial_tree")
OPS = ("all_reduce", "all_gather", "all_to_all", "reduce_scatter", "broadcast")


def time(npus: int, op: str, algorithm: str, backend: str) -> int:
    """Makespan in ps of 16 MB on a line of 50 GB/s and 500 ns."""
    network = ar.Network([ar.Mesh(npus, bandwidth="50 GB/s", latency="500 ns")], backend,
                         switching="store_and_forward" if backend == "contention" else None)
    design = ar.Design(workload=ar.SingleCollective(op, "16 MB"), network=network,
                       collective=ar.Collective(**{op: [algorithm]}, choice="none"))
    return ar.simulate(design, record=False).makespan_ps


@pytest.mark.parametrize("op", OPS)
def test_both_back_ends_take_the_same_time(op: str) -> None:
    """The ring's message from the last to the first loads every link once, as it passes. Only where messages of several
    sizes or ways wait at one NPU may the ports of closed form take longer, by less than a half."""
    for npus in (3, 4, 8, 16):
        for algorithm in ALGORITHMS:
            try:
                closed, contention = (time(npus, op, algorithm, backend) for backend in ("closed_form", "contention"))
            except InputError:      # the algorithm has no such operation
                continue
            most = 1.5 if algorithm in ("direct", "bruck") else 1
            assert contention <= closed <= most * contention, (npus, algorithm)


def test_a_line_of_two_dims_and_both_engines() -> None:
    network = ar.Network([ar.Mesh(4, bandwidth="50 GB/s", latency="500 ns"),
                          ar.Mesh(3, bandwidth="25 GB/s", latency="1 us")])
    for algorithm in ("ring", "direct"):
        design = ar.Design(workload=ar.SingleCollective("all_to_all", "1 MB"), network=network,
                           collective=ar.Collective(all_to_all=[algorithm], choice="none"))
        core, pure, whole = ar.simulate(design), ar.simulate(design, pure=True), ar.simulate(design, fold="off")
        assert core.makespan_ps == pure.makespan_ps == whole.makespan_ps
        assert whole.outcome.link_bytes.sum() == pure.outcome.link_bytes.sum()
