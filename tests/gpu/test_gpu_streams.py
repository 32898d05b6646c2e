"""Several kernels on a GPU at once: places, order, start; a unit's matrix pipe; copy engines; stores behind HBM."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.plans.gpu import machine, one

from astrarium.errors import InputError
from astrarium.gpu.engine import (
    Buffer,
    Launch,
    Machine,
    Operation,
    OpKind,
    Place,
    Stream,
    Workgroup,
    run_launch,
    together,
)
from astrarium.gpu.engine._native import have_core

BOTH = [True, pytest.param(False, marks=pytest.mark.skipif(not have_core(), reason="no compiled core here"))]
DISPATCH = 1000


def pauses(count: int, time: int, *, on: Machine, **stream: Any) -> Launch:
    """Workgroups that do nothing for so long."""
    group = Workgroup((Operation(OpKind.NOP, time=time),))
    return Launch(on, 1, ((group,) * count,), (), (), (Stream(**stream),))


@pytest.mark.parametrize("pure", BOTH)
def test_the_first_launch_takes_places_first_and_the_second_what_is_left(pure: bool) -> None:
    on = machine()      # two units with two places
    whole, small = pauses(2, 50_000, on=on, places=2), pauses(3, 70_000, on=on)
    ran = run_launch(together([whole, small]), pure=pure)
    assert ran.workgroup_starts[0].tolist() == [DISPATCH] * 2 + [51_000 + DISPATCH] * 3
    ran = run_launch(together([small, whole]), pure=pure)       # three places of four: none is whole until they end
    assert ran.workgroup_starts[0].tolist() == [DISPATCH] * 3 + [71_000 + DISPATCH] * 2


@pytest.mark.parametrize("pure", BOTH)
def test_what_comes_later_waits_for_a_place_but_goes_ahead_of_who_has_none(pure: bool) -> None:
    on = machine(unit_router=(0,))
    early, late = pauses(4, 50_000, on=on), pauses(1, 10_000, on=on, start=20_000)
    ran = run_launch(together([late, early]), pure=pure)
    assert ran.workgroup_starts[0].tolist() == [51_000 + DISPATCH, DISPATCH, DISPATCH, 51_000 + DISPATCH,
                                                62_000 + DISPATCH]
    idle = run_launch(late, pure=pure)
    assert idle.workgroup_ends[0].tolist() == [20_000 + DISPATCH + 10_000]


@pytest.mark.parametrize("pure", BOTH)
def test_workgroups_run_on_their_units_and_take_their_wavefronts(pure: bool) -> None:
    on = machine(unit_router=(0, 0, 0))
    left, right = pauses(2, 50_000, on=on, units=(2,)), pauses(2, 50_000, on=on, units=(1, 0), wavefronts=8)
    ran = run_launch(together([left, right]), pure=pure, record=1000)
    assert ran.recorded is not None
    assert list(ran.recorded.units[0]) == [2, 2, 1, 0]
    assert set(ran.workgroup_starts[0].tolist()) == {DISPATCH}
    crowded = replace(right, streams=(replace(right.streams[0], units=(1,)),))
    assert run_launch(crowded, pure=pure).workgroup_starts[0].tolist() == [DISPATCH, 51_000 + DISPATCH]


@pytest.mark.parametrize("pure", BOTH)
def test_a_launch_on_other_units_without_memory_changes_no_picosecond(pure: bool) -> None:
    on = machine(unit_router=(0,) * 4)
    loads = one(OpKind.LOAD, 300, gpus=3, peer=1, on=on, workgroups=4, wavefronts=2, unroll=2)
    loads = replace(loads, streams=(replace(loads.streams[0], units=(0, 1)),))
    beside = replace(pauses(9, 77_777, on=on, units=(2, 3), places=2), gpus=3)
    alone, both = run_launch(loads, pure=pure), run_launch(together([loads, beside]), pure=pure)
    assert both.workgroup_ends[:, :4].tolist() == alone.workgroup_ends.tolist()
    assert both.latency.tolist() == alone.latency.tolist()


def product(size: int, time: int, *, on: Machine, **stream: Any) -> Launch:
    """One workgroup that loads `size` requests of two panels and multiplies them."""
    multiply = Operation(OpKind.MULTIPLY, size, (Place(0, 0), Place(0, size)), time=time)
    return Launch(on, 1, ((Workgroup((multiply,)),),), (Buffer("panels", 2 * size),), (), (Stream(**stream),))


@pytest.mark.parametrize("pure", BOTH)
def test_a_step_of_a_product_takes_its_load_and_the_pipe(pure: bool) -> None:
    size, time = 4, 30_000
    ran = run_launch(product(size, time, on=machine()), pure=pure)
    first = DISPATCH + 500 + 60_000 + 700 + 100_000 + 60_000       # then answers come in without a gap
    assert ran.makespan == first + 2 * size * 1000 + size * time
    assert ran.requests[0].tolist() == [2 * size, 0, 0]


def test_a_unit_multiplies_one_step_at_a_time_and_loads_others_meanwhile() -> None:
    on, time = machine(workgroups_per_unit=1), 20_000
    for wavefronts in (4, 8):
        short, long = (run_launch(product(size, time, on=on, wavefronts=wavefronts, unroll=2)).makespan
                       for size in (4000, 8000))
        assert (long - short) / (4000 * time) == pytest.approx(1, rel=0.001)
    single = run_launch(product(4000, time, on=on, unroll=2)).makespan      # nobody loads meanwhile
    assert single > 4000 * time + 400 * 220_000


ENGINE = {"unit_router": (0, 0, 0), "engines": 1, "engine_data": 2000, "engine_control": 250, "engine_limit": 400,
          "engine_dispatch": 2_000_000}


@pytest.mark.parametrize("pure", BOTH)
def test_copy_engines_have_times_and_limits_of_their_own(pure: bool) -> None:
    on = machine(**ENGINE)
    load = one(OpKind.LOAD, 1, on=on)
    engine = replace(load, streams=(Stream(units=(2,)),))
    assert run_launch(load, pure=pure).makespan == 1000 + 500 + 60_000 + 700 + 100_000 + 60_000 + 1000
    assert run_launch(engine, pure=pure).makespan == 2_000_000 + 250 + 60_000 + 700 + 100_000 + 60_000 + 2000
    assert run_launch(one(OpKind.LOAD, 1, on=on, workgroups=9), pure=pure, record=1000).recorded is not None


def test_a_copy_engine_copies_at_its_rate() -> None:
    """Its way out carries a request to read and a line to store; the way in, an answer."""
    on = machine(**{**ENGINE, "engine_limit": 2000}, wavefronts_per_unit=8)
    times = []
    for size in (8000, 16_000):
        copy = Operation(OpKind.MEMCPY, size, (Place(0, 0),), (Place(1, 0),))
        launch = Launch(on, 1, ((Workgroup((copy,)),),), (Buffer("from", size), Buffer("to", size)), (),
                        (Stream(8, 60, (2,), 2),))
        times.append(run_launch(launch).makespan)
    assert (times[1] - times[0]) / 8000 == pytest.approx(2250, rel=0.01)


@pytest.mark.parametrize("pure", BOTH)
def test_compute_kernels_keep_off_copy_engines(pure: bool) -> None:
    ran = run_launch(one(OpKind.LOAD, 4, on=machine(**ENGINE), workgroups=5), pure=pure, record=1000)
    assert ran.recorded is not None
    assert set(ran.recorded.units[0]) == {0, 1}


@pytest.mark.parametrize("pure", BOTH)
def test_stores_are_acknowledged_before_hbm_has_them_up_to_a_limit(pure: bool) -> None:
    on = machine(hbm=9000, channel_router=(0,), interleave=1)
    through = run_launch(one(OpKind.STORE, 4, hbm=True, on=on), pure=pure)
    later = run_launch(one(OpKind.STORE, 4, hbm=True, on=replace(on, write_back=3)), pure=pure)
    cached = run_launch(one(OpKind.STORE, 4, on=on), pure=pure)
    assert through.makespan - later.makespan == 3 * 9000
    assert later.makespan > cached.makespan     # three lines may wait, and the fourth has been written
    assert later.hbm_requests.sum() == through.hbm_requests.sum() == 4
    ample = run_launch(one(OpKind.STORE, 4, hbm=True, on=replace(on, write_back=4)), pure=pure)
    assert ample.makespan == cached.makespan


def test_a_long_stream_of_stores_runs_at_the_rate_of_hbm() -> None:
    on = machine(hbm=9000, write_back=500)
    short, long = (run_launch(one(OpKind.STORE, size, hbm=True, on=on, wavefronts=8, unroll=8)).makespan
                   for size in (10_000, 20_000))
    assert (long - short) / 10_000 == pytest.approx(9000 / 4, rel=0.01)


@pytest.mark.parametrize(("change", "words"), [
    ({"units": (0, 7)}, r"streams\[0\].units: 2 of them; expected each once, of 0 to 1"),
    ({"units": (0, 0)}, r"streams\[0\].units"), ({"places": 3}, r"streams\[0\].places: 3; expected 1 to 2"),
    ({"wavefronts": 9}, r"streams\[0\].wavefronts: 9; expected 1 to 8"), ({"unroll": 0}, r"streams\[0\].unroll"),
    ({"start": -1}, r"streams\[0\].start")])
def test_broken_streams_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        run_launch(pauses(1, 10, on=machine(), **change))


def test_launches_on_other_machines_and_workgroups_of_no_stream_are_refused() -> None:
    here = pauses(1, 10, on=machine())
    with pytest.raises(InputError, match=r"launches\[1\]: other GPUs"):
        together([here, pauses(1, 10, on=machine(hop=2))])
    with pytest.raises(InputError, match=r"launches\[0\].starts: GPUs that start apart"):
        together([replace(here, gpus=2, starts=(0, 1))])
    with pytest.raises(InputError, match=r"workgroup\[0\].stream: 1; expected 0 to 0"):
        run_launch(replace(here, grids=((Workgroup((), 1),),)))
    with pytest.raises(InputError, match=r"machine\.engines: 2; expected less than the 2 units"):
        run_launch(pauses(1, 10, on=machine(engines=2, engine_limit=4)))
