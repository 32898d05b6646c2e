"""Recorded GPU work to timings: which calls count, and where all the rest of the time went."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astrarium.compute.recorded import UNOWNED, recorded_timings
from astrarium.profile.launches import COMMUNICATION, COPY, Launches, Operator, Tensor

MM = Operator("aten::mm", (Tensor((64, 32), "BFloat16"), Tensor((32, 16), "BFloat16")), None)
ADD = Operator("aten::add", (Tensor((4, 8), "BFloat16"),) * 2, None)


def run(*operations: tuple[int, int, int, str], calls: Sequence[Operator] = (), tick: int = 1) -> Launches:
    """Operations (start us, end us, call or -1, what else they are)."""
    start, end, owner = (np.array([each[place] for each in operations], np.int64) for place in range(3))
    return Launches("made", [f"k{n}" for n in range(len(operations))], [each[3] for each in operations], 1000 * start,
                    1000 * end, owner, lambda number: calls[number], tick)


def nothing(_: object) -> str:
    return ""


def test_a_call_is_the_sum_of_its_kernels_and_a_row_the_median_of_its_calls() -> None:
    found = recorded_timings([run((0, 30, 0, ""), (30, 35, 0, ""), (40, 80, 1, ""), (90, 140, 2, ""),
                                  calls=[MM, MM, MM])], nothing)
    (timing,) = found.timings
    assert (timing.kernel.shape, timing.ns) == ((1, 64, 16, 32), 40_000)
    assert (found.used.operations, found.used.ns, found.unused) == (4, 125_000, {})


def test_what_is_not_used_is_counted_once_and_named() -> None:
    found = recorded_timings([run((0, 30, 0, ""), (30, 90, 1, COMMUNICATION), (90, 95, -1, COPY), (95, 100, -1, ""),
                                  (100, 105, 1, ""), (110, 150, 2, ""),
                                  calls=[MM, ADD, Operator("mine::op", None, None)])], nothing)
    assert {why: (share.operations, share.ns) for why, share in found.unused.items()} == {
        COMMUNICATION: (1, 60_000), "operator mine::op, which no rule makes a kernel of": (1, 40_000),
        COPY: (1, 5_000), UNOWNED: (1, 5_000), "moves bytes in less than 10 us": (1, 5_000)}
    assert next(iter(found.unused)) == COMMUNICATION
    assert found.used.ns == 30_000


def test_a_kernel_that_ran_beside_another_is_no_row() -> None:
    found = recorded_timings([run((0, 100, 0, ""), (50, 150, -1, COMMUNICATION), (200, 300, 1, ""),
                                  (250, 300, -1, COPY), (400, 500, 2, ""), (498, 600, -1, COMMUNICATION),
                                  calls=[MM, MM, MM])], nothing)
    assert [len(ns) for ns in found.times.values()] == [2]      # a copy, and 2 % of the time, do not count
    assert found.unused["ran beside another kernel"].ns == 100_000


def test_times_that_rounding_spoils_are_left_out() -> None:
    operations = (0, 19, 0, ""), (20, 40, 1, "")
    found = recorded_timings([run(*operations, calls=[MM, MM], tick=1000)], nothing)
    assert found.used.operations == 1
    assert next(iter(found.unused)).startswith("shorter than 20 us")
    assert recorded_timings([run(*operations, calls=[MM, MM])], nothing).used.operations == 2


def test_what_a_device_has_no_rates_for_is_left_out() -> None:
    found = recorded_timings([run((0, 30, 0, ""), calls=[MM])], lambda kernel: f"no {kernel.precision}")
    assert (found.timings, list(found.unused)) == ([], ["no bf16"])
