"""GPU launches: two engines agree, folding changes nothing, nothing is lost, nobody is faster than its stations."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws
from tests.plans.gpu import machine, one, random_launch

from astrarium.errors import InputError, StallError, Wait
from astrarium.gpu.engine import Buffer, Finished, Launch, Operation, OpKind, Place, Stream, Workgroup, run_launch
from astrarium.gpu.engine._native import have_core

launches = st.randoms(use_true_random=False).map(random_launch)
needs_core = pytest.mark.skipif(not have_core(), reason="no compiled core here")
COLUMNS = ("ends", "workgroup_starts", "workgroup_ends", "requests", "outstanding", "latency", "channel_requests",
           "hbm_requests", "port_packets")


def outcome(launch: Launch, *, pure: bool, fold: bool = True, threads: int = 1) -> Finished | tuple[Wait, ...]:
    """What came of a launch, or who waits for ever."""
    try:
        return run_launch(launch, pure=pure, fold=fold, threads=threads)
    except StallError as error:
        return error.waits


def same(ours: Finished | tuple[Wait, ...], theirs: Finished | tuple[Wait, ...]) -> None:
    if isinstance(ours, tuple) or isinstance(theirs, tuple):
        assert ours == theirs
        return
    for name in COLUMNS:
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name


@needs_core
@given(launches)
@draws(100)
def test_both_engines_give_the_same_integers(launch: Launch) -> None:
    ours, theirs = (outcome(launch, pure=pure, fold=False) for pure in (True, False))
    same(ours, theirs)
    if isinstance(ours, Finished) and isinstance(theirs, Finished):
        assert ours.events == theirs.events


@given(launches)
@draws(50)
def test_folding_changes_nothing(launch: Launch) -> None:
    pure = not have_core()
    folded, full = outcome(launch, pure=pure), outcome(launch, pure=pure, fold=False)
    if launch.symmetric and isinstance(folded, Finished) and isinstance(full, Finished):
        assert folded.simulated == 1
        assert folded.events * launch.gpus == full.events
        same(folded, full)
    else:
        assert isinstance(folded, tuple) == isinstance(full, tuple)


@needs_core
@given(launches, st.sampled_from([2, 3, 8]))
@draws(50)
def test_threads_change_nothing(launch: Launch, threads: int) -> None:
    one, several = (outcome(launch, pure=False, fold=False, threads=count) for count in (1, threads))
    same(one, several)
    if isinstance(one, Finished) and isinstance(several, Finished):
        assert one.events == several.events


def test_threads_are_at_least_one() -> None:
    with pytest.raises(InputError, match="threads: 0; expected 1 to 256"):
        run_launch(one(OpKind.LOAD, 1), threads=0)


@given(launches)
@draws(50)
def test_requests_are_conserved_and_no_station_is_faster_than_its_rate(launch: Launch) -> None:
    ran, m = outcome(launch, pure=not have_core()), launch.machine
    if not isinstance(ran, Finished):
        return
    assert int(ran.channel_requests.sum()) == ran.total_requests
    assert np.array_equal(ran.outstanding, ran.latency)         # Little: L = lambda W, both over the whole run
    time = ran.ends - np.array([launch.start(g) for g in range(launch.gpus)])
    window = ran.makespan - min(launch.start(g) for g in range(launch.gpus))
    assert (ran.outstanding <= time * (m.limit_unit * m.computes + m.engine_limit * m.engines)).all()
    assert (ran.channel_requests * m.channel <= window).all()
    assert (ran.port_packets @ np.array([m.port_data, m.port_control]) <= window).all()
    control, data = min(m.unit_control, m.engine_control), min(m.unit_data, m.engine_data)
    assert (ran.requests @ np.array([control, data, control]) <= time * len(m.unit_router)).all()
    assert (ran.hbm_requests <= ran.channel_requests).all()
    stored = 0 if m.write_back == 0 else m.write_back * m.hbm
    assert (ran.hbm_requests * m.hbm <= window + stored).all()


@given(launches)
@draws(50)
def test_every_remote_request_passes_ports_twice(launch: Launch) -> None:
    ran = outcome(launch, pure=not have_core())
    if not isinstance(ran, Finished):
        return
    data = control = 0
    for gpu in range(launch.gpus):
        for op in (op for group in launch.grid(gpu) for op in group.operations):
            for places in (op.sources, op.targets):
                lines = sum(op.size * launch.buffers[p.buffer].lines for p in places if p.peer)
                data, control = data + lines, control + lines       # a store and its ack, or a read and its answer
            control += 2 * (op.kind == OpKind.RELEASE and op.peer > 0)
    assert ran.port_packets.sum(axis=(0, 1)).tolist() == [data, control]


@needs_core
@given(launches)
@draws(50)
def test_both_engines_record_the_same_and_recording_changes_nothing(launch: Launch) -> None:
    try:
        ours, theirs = (run_launch(launch, pure=pure, fold=False, record=7000) for pure in (True, False))
    except StallError:
        return
    same(ours, theirs)
    same(ours, outcome(launch, pure=False, fold=False))
    mine, other = ours.recorded, theirs.recorded
    assert mine is not None
    assert other is not None
    assert [mine.over, mine.units] == [other.over, [list(each) for each in other.units]]
    assert np.array_equal(mine.port_busy, other.port_busy)
    m = launch.machine
    assert np.array_equal(mine.port_busy.sum(axis=2), ours.port_packets @ np.array([m.port_data, m.port_control]))
    assert (ours.port_use(m) <= 1).all()
    assert (ours.channel_use(m) <= 1).all()


@pytest.mark.parametrize("pure", [True, pytest.param(False, marks=needs_core)])
def test_bins_that_are_too_short_are_refused(pure: bool) -> None:
    launch = random_launch(Random(0))
    longest = run_launch(launch, pure=pure).makespan
    shortest = longest // 65_536 + 1
    assert shortest > 1
    assert run_launch(launch, pure=pure, record=shortest).recorded is not None
    with pytest.raises(InputError, match=rf"^record: {shortest - 1} ps; expected at least {shortest} ps"):
        run_launch(launch, pure=pure, record=shortest - 1)


# -- closed forms


def time_of(launch: Launch) -> int:
    return run_launch(launch).makespan


@pytest.mark.parametrize(("hbm", "more"), [(False, 0), (True, 201_500)])
def test_one_load_takes_its_way(hbm: bool, more: int) -> None:
    # dispatch, issue, network, channel, its latency, network, way in
    assert time_of(one(OpKind.LOAD, 1, hbm=hbm)) == 1000 + 500 + 60_000 + 700 + 100_000 + 60_000 + 1000 + more


@pytest.mark.parametrize(("kind", "out", "back", "unit"), [
    (OpKind.LOAD, 640, 5760, 1000), (OpKind.STORE, 5760, 640, 0)])
def test_one_remote_request_takes_its_way(kind: OpKind, out: int, back: int, unit: int) -> None:
    issue = 500 if kind == OpKind.LOAD else 1000
    chips = 4 * 60_000 + 700 + 100_000      # two ways on either chip, the channel
    expected = 1000 + issue + chips + 2 * 500_000 + out + back + unit
    assert time_of(one(kind, 1, gpus=3, peer=1)) == expected       # the switch cuts through: its queue costs no time


def test_a_load_of_all_gpus_waits_for_the_last_answer() -> None:
    """All three ask all at once: at each port two data packets go before the last answer, that to the own request."""
    there = 1000 + 500 + 60_000 + 500_000 + 640 + 60_000 + 700
    back = 100_000 + 60_000 + 2 * 5760 + 500_000 + 5760 + 60_000 + 1000
    assert time_of(one(OpKind.LOAD, 1, gpus=3, peer=3)) == there + back
    ran = run_launch(one(OpKind.STORE, 1, gpus=3, peer=3), fold=False)
    assert ran.port_packets.sum(axis=1).tolist() == [[1, 3]] * 3        # one line out, an answer to each GPU
    assert ran.channel_requests.sum(axis=1).tolist() == [3] * 3


def test_direct_links_take_as_long_as_a_switch_that_is_idle() -> None:
    direct = machine(switched=False)
    assert time_of(one(OpKind.LOAD, 1, gpus=3, peer=2, on=direct)) == time_of(one(OpKind.LOAD, 1, gpus=3, peer=2))


def readers(few: int, start: int, *, turns: bool) -> list[int]:
    """Times of GPUs 1 and 0, ps: GPU 1 reads 320 lines of GPU 0, which from `start` on reads `few` lines of GPU 2. The
    answers of GPU 0 and its own requests leave by one port."""
    on = machine(port_router=(0,), round_robin=turns, limit_workgroup=512)
    grids = tuple((Workgroup((Operation(OpKind.LOAD, size, (Place(0, 0, peer),)),) if size else ()),)
                  for size, peer in ((few, 2), (320, 2), (0, 0)))
    starts = (start, 0, 0)
    ends = run_launch(Launch(on, 3, grids, (Buffer("data", 320),), (), (Stream(8, 16),), starts)).ends
    return [int(ends[1]), int(ends[0]) - start]


@pytest.mark.parametrize("few", [1, 80])
def test_ports_that_take_turns_let_control_pass_data(few: int) -> None:
    """In order of arrival, requests wait for the answers with data that stand there; in turn, each waits for one, and
    the answers wait for no more than the requests' own time."""
    alone = readers(few, 10_000_000, turns=True)[1]
    (first, behind), (turned, beside) = (readers(few, 900_000, turns=turns) for turns in (False, True))
    assert behind - alone > 100 * 5760
    assert 0 < beside - alone <= (few + 1) * 5760
    assert 0 <= turned - first <= few * 640


@needs_core
@pytest.mark.parametrize("kind", [OpKind.LOAD, OpKind.STORE])
def test_copies_of_the_switch_take_turns_alike_in_both_engines(kind: OpKind) -> None:
    """Services are far longer than windows, and far shorter."""
    for data, control, latency in ((5760, 640, 7), (3, 2, 500_000)):
        on = machine(round_robin=True, port_data=data, port_control=control, link_latency=latency, credits=3)
        launch = one(kind, 9, gpus=3, peer=3, on=on, workgroups=2, wavefronts=2)
        folded, whole, twin = (outcome(launch, pure=pure, fold=fold) for pure, fold in (
            (False, True), (False, False), (True, True)))
        same(folded, whole)
        same(folded, twin)


def test_a_mesh_with_a_rate_takes_hops_and_one_service() -> None:
    far = {"rows": 2, "columns": 2, "unit_router": (0,), "channel_router": (3,), "hop": 7000}
    latency = time_of(one(OpKind.LOAD, 1, on=machine(**far)))
    assert latency == 1000 + 500 + 700 + 100_000 + 1000 + 2 * (60_000 + 2 * 7000)
    rated = time_of(one(OpKind.LOAD, 1, on=machine(**far, mesh_data=900, mesh_control=300)))
    assert rated == latency + 900 + 300


ROUND = 60_000 + 700 + 100_000 + 60_000       # of a load in L2 behind its issue
BOUND = {
    # in lock step: issue, a round, and all answers one after the other
    "wavefront's limit": (machine(limit_wavefront=16), {"unroll": 4}, 16 / (500 + ROUND + 16 * 1000)),
    "unit's limit": (machine(limit_unit=32, unit_router=(0,), instruction=1), {"wavefronts": 8, "unroll": 64},
                     32 / (ROUND + 1500)),
    "unit's way in": (machine(unit_router=(0,), unit_data=5000), {"wavefronts": 8, "unroll": 8}, 1 / 5000),
    "issue": (machine(unit_router=(0,), unit_control=5000), {"wavefronts": 8, "unroll": 8}, 1 / 5000),
    "channels": (machine(channel=9000), {"wavefronts": 8, "unroll": 8, "workgroups": 2}, 4 / 9000),
    "HBM": (machine(hbm=9000), {"wavefronts": 8, "unroll": 8, "workgroups": 2, "hbm": True}, 4 / 9000),
    "ports": (machine(link_latency=100_000), {"wavefronts": 8, "unroll": 8, "workgroups": 2, "gpus": 2, "peer": 1},
              2 / 5760),
    "credits": (machine(credits=8), {"wavefronts": 8, "unroll": 16, "workgroups": 2, "gpus": 2, "peer": 1},
                2 * 8 / (2 * 500_000 + 5760)),
    "mesh": (machine(columns=2, unit_router=(0,), channel_router=(1,) * 4, mesh_data=4000, mesh_control=10),
             {"wavefronts": 8, "unroll": 8}, 1 / 4000),
}


@pytest.mark.parametrize("name", BOUND)
@needs_core
def test_a_stream_runs_at_the_rate_of_what_binds_it(name: str) -> None:
    on, options, rate = BOUND[name]
    size = 20_000 if "limit" not in name and name != "credits" else 4000
    groups = options.get("workgroups", 1)
    idle = ((Workgroup(()),),) * (options.get("gpus", 1) - 1)
    launches = [one(OpKind.LOAD, part, on=on, **options) for part in (size // 2, size)]
    short, long = (time_of(replace(each, grids=each.grids + idle)) for each in launches)
    assert size // 2 * groups / (long - short) == pytest.approx(rate, rel=0.01)


def test_the_trap_requests_that_reserve_their_way_early_would_block_others() -> None:
    # Two GPUs store to each other while they load locally: the loads must not wait for what comes much later.
    local = one(OpKind.LOAD, 512, on=machine(link_latency=5_000_000), wavefronts=4, unroll=4)
    both = Launch(local.machine, 2, ((*local.grids[0], Workgroup((Operation(
        OpKind.STORE, 64, (), (Place(1, 0, 1),)),))),), (*local.buffers, Buffer("far", 64)), (),
                  (Stream(4, 4),))
    alone, beside = run_launch(local), run_launch(both)
    assert beside.workgroup_ends[0, 0] < 1.1 * alone.workgroup_ends[0, 0] < beside.workgroup_ends[0, 1] / 4


# -- who waits


def acquires(*operations: Operation, workgroups_per_unit: int = 2) -> Launch:
    return Launch(machine(workgroups_per_unit=workgroups_per_unit), 2, ((Workgroup(operations),) * 5,),
                  (Buffer("lines", 40, flagged=True),), ("go",), (Stream(2),))


@pytest.mark.parametrize("pure", [True, pytest.param(False, marks=needs_core)])
def test_who_waits_for_which_value_at_which_address_is_named(pure: bool) -> None:
    with pytest.raises(StallError) as error:
        run_launch(acquires(Operation(OpKind.RELEASE, peer=1), Operation(OpKind.ACQUIRE, value=7)), pure=pure)
    assert error.value.waits[0] == Wait("GPU 0, workgroup 0, operation 1 (acquire) waits for semaphore 'go' (line 40 "
                                        "of GPU 0) to be 7; it is 4")
    assert error.value.waits[-1].text.startswith("1 workgroups wait for a place")


@pytest.mark.parametrize("pure", [True, pytest.param(False, marks=needs_core)])
def test_a_line_that_nobody_stores_is_named(pure: bool) -> None:
    with pytest.raises(StallError) as error:
        run_launch(acquires(Operation(OpKind.LOAD, 20, (Place(0, 12, 1),))), pure=pure)
    assert error.value.waits[0] == Wait("GPU 0, workgroup 0, operation 0 (load) waits for a store to line 12 of buffer "
                                        "'lines' (line 12 of GPU 1); none came")


@pytest.mark.parametrize(("change", "words"), [
    ({"sources": (Place(0, 30),)}, "requests 30 to 50 of buffer 'lines'"),
    ({"sources": (Place(3, 0),)}, "in buffer 3"),
    ({"sources": (Place(0, 0, 3),)}, "at distance 3"),
    ({"size": 0}, "of 0 requests"),
    ({"sources": ()}, "has 0 sources"),
    ({"kind": OpKind.ACQUIRE, "semaphore": 1, "value": 1}, "of semaphore 1"),
    ({"kind": OpKind.ACQUIRE, "value": 0}, "of value 0"),
    ({"kind": OpKind.RELEASE, "peer": 5}, "at distance 5"),
    ({"kind": OpKind.NOP}, "of 0 ps"),
    ({"kind": OpKind.MEMCPY, "sources": (Place(0, 0),) * 2, "targets": (Place(0, 0),) * 3}, "2 sources and 3 targets"),
])
def test_broken_operations_are_refused_by_name(change: dict[str, object], words: str) -> None:
    fields: dict[str, object] = {"kind": OpKind.LOAD, "size": 20, "sources": (Place(0, 0),)}
    with pytest.raises(InputError, match=r"grids\[0\].workgroup\[0\].operation\[0\]") as error:
        run_launch(acquires(Operation(**{**fields, **change})))     # type: ignore[arg-type]
    assert words in str(error.value)


def test_a_workgroup_of_too_many_requests_is_refused() -> None:
    load = Operation(OpKind.LOAD, 1 << 29, (Place(0, 0),))
    long = Launch(machine(), 1, ((Workgroup((load, load)),),), (Buffer("data", 1 << 29),))
    with pytest.raises(InputError, match=r"workgroup\[0\]: about 2147483650 requests"):
        run_launch(long)


def test_limits_without_room_for_an_instruction_are_refused() -> None:
    with pytest.raises(InputError, match="limit_wavefront: 3; expected at least 4"):
        run_launch(one(OpKind.LOAD, 8, on=machine(limit_wavefront=3)))


def test_random_launches_reach_every_way_to_end() -> None:
    ends = {type(outcome(random_launch(Random(seed)), pure=not have_core())) for seed in range(40)}
    assert ends == {Finished, tuple}
