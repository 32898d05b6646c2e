"""Units that share a port, clusters that need all units of one, stores with rates of their own, persistent products."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.plans.gpu import machine, one

from astrarium.config import decode
from astrarium.errors import InputError
from astrarium.gpu import Gemm, Gpu, gemm_launch
from astrarium.gpu.engine import Launch, Operation, OpKind, Stream, Workgroup, run_launch, together
from astrarium.gpu.engine._native import have_core

BOTH = [True] + [False] * have_core()
FOUR = {"unit_router": (0,) * 4, "unit_port": (0, 1, 0, 1)}


def pauses(times: list[int], on: dict[str, Any], **stream: Any) -> Launch:
    """A pause per workgroup."""
    groups = tuple(Workgroup((Operation(OpKind.NOP, time=time),)) for time in times)
    return Launch(machine(**on), 1, (groups,), (), (), (Stream(**stream),))


@pytest.mark.parametrize("pure", BOTH)
def test_what_units_of_a_port_load_comes_in_one_line_after_the_other(pure: bool) -> None:
    """A unit alone has the port's rate; two of one port halve it, two of different ports do not."""
    on = machine(**FOUR, unit_data=5000, wavefronts_per_unit=8)

    def time(size: int, units: tuple[int, ...]) -> int:
        loads = one(OpKind.LOAD, size, on=on, workgroups=len(units), wavefronts=8, unroll=8)
        return run_launch(replace(loads, streams=(Stream(8, 8, units),)), pure=pure).makespan

    for units, each in (((0,), 5000), ((0, 1), 5000), ((0, 2), 10_000)):
        assert (time(2000, units) - time(1000, units)) / 1000 == pytest.approx(each, rel=0.01)


@pytest.mark.parametrize("pure", BOTH)
def test_stores_have_rates_of_their_own(pure: bool) -> None:
    for changes, each in (({"unit_store": 9000}, 9000), ({"hbm_store": 40_000}, 40_000 / 4)):
        on = machine(unit_router=(0,), **changes)
        short, long = (run_launch(one(OpKind.STORE, size, hbm=True, on=on, wavefronts=8, unroll=8), pure=pure).makespan
                       for size in (1000, 2000))
        assert (long - short) / 1000 == pytest.approx(each, rel=0.01)
        loads = [run_launch(one(OpKind.LOAD, 1000, hbm=True, on=m, wavefronts=8, unroll=8), pure=pure).makespan
                 for m in (on, machine(unit_router=(0,)))]
        assert loads[0] == loads[1]


@pytest.mark.parametrize("pure", BOTH)
def test_a_cluster_begins_when_all_units_of_a_port_are_free(pure: bool) -> None:
    """A pause of 70 ns on unit 0 leaves port 1 to the first cluster, and the second one waits for both units."""
    first = pauses([70_000], FOUR, units=(0,), places=2)
    second = pauses([20_000, 50_000, 10_000, 10_000], FOUR, places=2, cluster=2)
    ran = run_launch(together([first, second]), pure=pure, record=1000)
    assert ran.recorded is not None
    assert list(ran.recorded.units[0]) == [0, 1, 3, 1, 3]
    assert ran.workgroup_starts[0].tolist() == [1000, 1000, 1000, 52_000, 52_000]
    assert ran.workgroup_ends[0].tolist() == [71_000, 21_000, 51_000, 62_000, 62_000]


@pytest.mark.parametrize(("on", "count", "stream", "words"), [
    (FOUR, 2, {"cluster": 4}, r"streams\[0\].cluster: 4; expected 1, or the units of each port"),
    (FOUR, 2, {"cluster": 2, "units": (0, 1)}, r"cluster: 2; expected 1, or the units"),
    (FOUR, 2, {"cluster": 0}, r"cluster: 0"), (FOUR, 3, {"cluster": 2}, "expected a divisor of its 3 workgroups"),
    ({"unit_port": (0,)}, 1, {}, r"machine\.unit_port: 1 entries; expected none, or 2"),
    ({"hbm_store": -1}, 1, {}, r"machine\.hbm_store: -1")])
def test_clusters_and_ports_that_cannot_be_are_refused(on: dict[str, Any], count: int, stream: dict[str, Any],
                                                       words: str) -> None:
    with pytest.raises(InputError, match=words):
        run_launch(pauses([10] * count, on, **stream))


def test_workgroups_go_to_all_groups_and_then_to_the_other_unit_of_each_port() -> None:
    found = decode(Gpu, {"like": "h100_sxm"}).machine(1).unit_port
    assert found[:17] == (*range(8), *range(8), 8)
    assert sorted(found) == sorted([*range(66)] * 2)
    with pytest.raises(InputError, match="units_per_port: 5 does not divide 132 units"):
        decode(Gpu, {"like": "h100_sxm", "units_per_port": 5})


def test_a_persistent_product_shares_its_tiles_out_when_it_starts() -> None:
    """264 tiles on 131 units take three waves instead of two; where each unit has two from the start, those of the unit
    that is taken come last: four."""
    gpu = decode(Gpu, {"like": "h100_sxm"})
    tiles = Gemm(m=128 * 132, n=256 * 2, k=256, peak="100 TFLOP/s")
    each, shared = (gemm_launch(replace(tiles, persistent=persistent), gpu) for persistent in (False, True))
    assert (len(each.grids[0]), len(shared.grids[0])) == (264, 132)
    alone = [run_launch(launch) for launch in (each, shared)]
    assert alone[0].requests.tolist() == alone[1].requests.tolist()
    assert alone[0].makespan == pytest.approx(alone[1].makespan, rel=0.1)
    taken = Launch(each.machine, 1, ((Workgroup((Operation(OpKind.NOP, time=3 * alone[0].makespan),)),),), (), (),
                   (Stream(units=(0,), places=gpu.workgroups_per_unit),))
    ends = [int(run_launch(together([taken, launch])).workgroup_ends[0][1:].max()) for launch in (each, shared)]
    assert ends[0] / alone[0].makespan == pytest.approx(1.5, rel=0.05)
    assert ends[1] / alone[1].makespan == pytest.approx(2, rel=0.07)
