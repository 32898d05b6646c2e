"""Profiled traces: ranks begin when they began, collectives are issued in recorded order, and replay together."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import astrarium as ar
from astrarium.cli.replay_design import replay_design
from astrarium.cli.trace_notes import trace_notes
from astrarium.compute.config import Replay
from astrarium.config import replace, replace_all
from astrarium.design import Design
from astrarium.engine import execute
from astrarium.errors import InputError
from astrarium.lower import lower
from astrarium.memory.config import Memory
from astrarium.network.config import Network, Switch
from astrarium.profile.clocks import clocks_of
from astrarium.result import Result
from astrarium.system.config import System
from astrarium.trace import TraceBuilder, check, read_traces
from astrarium.vocab import CommOp
from astrarium.workload.config import Trace

from .profiled import Recording

US = 1_000_000      # ps


def design(prefix: Path, ranks: int = 2, *, rate: str = "1 GB/s", streams: int = 1) -> Design:
    network = Network([Switch(ranks, bandwidth=rate, latency="0 ns")])
    return Design(workload=Trace(f"{prefix}.*.et"), compute=Replay(missing="0 ns"), memory=Memory(), network=network,
                  system=System(comm_streams=streams))


def both(chosen: Design) -> Result:
    """The result of the compiled core, after a look whether the Python engine gives the same integers."""
    result, pure = ar.simulate(chosen, fold="off"), ar.simulate(chosen, pure=True)
    assert np.array_equal(ar.simulate(chosen).outcome.finish.max(), result.outcome.finish.max())
    assert np.array_equal(result.outcome.start, pure.outcome.start)
    assert np.array_equal(result.outcome.end, pure.outcome.end)
    return result


def pair(prefix: Path, late: int = 5000, skew: int = 0) -> None:
    """Rank 0 begins at 0 and waits in an all_reduce from 10 us on; rank 1 begins `late` us later and comes after 10 us
    more; both end 2 us after. Rank 1's clock is `skew` us ahead."""
    first, second = Recording(0, 2, 10**15), Recording(1, 2, 10**15 + 1000 * (late + skew))
    done = first.coll(10, late + 2, 1000, [first.comp(0, 10)])
    first.comp(late + 12, 3, [done])
    done = second.coll(10, 2, 1000, [second.comp(0, 10)])
    second.comp(12, 3, [done])
    for each in (first, second):
        each.write(prefix)


def calls(result: Result) -> list[tuple[int, int]]:
    """Start and end of the collectives of rank 0 and then rank 1, us."""
    chosen = result.nodes.work == 1
    return [(start // US, end // US) for start, end in zip(result.nodes.start[chosen].tolist(),
                                                           result.nodes.end[chosen].tolist(), strict=True)]


# ------------------------------------------------------------ start offsets
def test_ranks_begin_when_they_began(tmp_path: Path) -> None:
    pair(tmp_path / "w")
    result = both(design(tmp_path / "w"))
    assert calls(result) == [(10, 5011), (5010, 5011)]      # 1,000 bytes at 1 GB/s: 1 us
    assert result.makespan_ps == 5014 * US
    assert int(result.ranks.bubble[result.outcome.row[1]]) == 5000 * US      # before its recording began
    assert result.path.shares()["wait"] == pytest.approx(5000 / 5014)


def test_or_together_where_asked(tmp_path: Path) -> None:
    pair(tmp_path / "w")
    result = both(replace(design(tmp_path / "w"), "workload.starts", "together"))
    assert calls(result) == [(10, 11), (10, 11)]


def test_astra_sims_rules_start_all_together(tmp_path: Path) -> None:
    pair(tmp_path / "w")
    chosen = replace(design(tmp_path / "w"), "collective.all_reduce", ["ring"])
    chosen = replace_all(chosen, {"compat": "astra_sim", "compute.missing": None})
    assert ar.simulate(chosen).makespan_ps < 100 * US


def test_replay_brings_members_together(tmp_path: Path) -> None:
    pair(tmp_path / "w")
    chosen = replay_design(str(tmp_path / "w.*.et"))
    result = both(chosen)
    assert calls(result) == [(10, 5012), (5010, 5012)]
    assert result.makespan_ps == 5015 * US
    result = both(replace(chosen, "workload.starts", "together"))      # nobody waits: what is left is the operation
    assert calls(result) == [(10, 12), (10, 12)]


def test_replay_without_clocks_takes_the_shortest_duration(tmp_path: Path) -> None:
    first, second = Recording(0, 2, None), Recording(1, 2, None)
    first.coll(10, 90, 1000, [first.comp(0, 10)])
    second.coll(40, 3, 1000, [second.comp(0, 40)])
    first.write(tmp_path / "w")
    second.write(tmp_path / "w")
    assert calls(both(replay_design(str(tmp_path / "w.*.et")))) == [(10, 43), (40, 43)]


def test_a_broadcast_keeps_its_recorded_times(tmp_path: Path) -> None:
    """Its root does not wait."""
    for rank, begin in ((0, 0), (1, 50)):
        one = Recording(rank, 2, 0)
        one.coll(begin, 10, 1000, [one.comp(0, begin or 1)], op=CommOp.BROADCAST)
        one.write(tmp_path / "w")
    assert calls(both(replay_design(str(tmp_path / "w.*.et")))) == [(1, 11), (50, 60)]


def test_replay_of_groups_that_contradict_each_other(tmp_path: Path) -> None:
    """They need not be there, so recorded times stand; a network needs them."""
    for rank in (0, 1):
        one = Recording(rank, 2, 0)
        one.groups(str([json.dumps([{"pg_name": "7", "ranks": [0, 1][::1 if rank else -1]}])]))
        one.coll(10 * rank + 1, 20 - 10 * rank, 1000, [one.comp(0, 10 * rank + 1)], group="7")
        one.write(tmp_path / "w")
    chosen = replay_design(str(tmp_path / "w.*.et"))
    result = both(chosen)
    assert calls(result) == [(1, 21), (11, 21)]
    assert isinstance(chosen.workload, Trace)
    assert "has other ranks than rank 0 gives it" in trace_notes(chosen, result)[0]
    with pytest.raises(InputError, match="has other ranks than rank 0 gives it"):
        ar.simulate(design(tmp_path / "w"))


# ------------------------------------------------------------ clocks
def test_a_clock_that_is_ahead_is_seen_and_corrected(tmp_path: Path) -> None:
    pair(tmp_path / "w", skew=777)
    traces = read_traces(tmp_path / "w")
    clocks = clocks_of(traces, {})
    assert clocks is not None
    assert clocks.ahead.tolist() == [0, 777_000]
    assert clocks.begin.tolist() == [0, 5_000_000]
    assert any("clock of rank 1 is 777 us ahead of that of rank 0" in line for line in clocks.lines)
    assert calls(both(design(tmp_path / "w"))) == [(10, 5011), (5010, 5011)]


def test_clocks_are_compared_from_group_to_group(tmp_path: Path) -> None:
    """Groups 0-1 and 1-2; ranks 1 and 2 are 700 us ahead, rank 3 shares no group."""
    ahead, groups = (0, 700, 700, 0), {"5": [0, 1], "6": [1, 2]}
    for rank in range(4):
        one = Recording(rank, 4, 10**15 + 1000 * ahead[rank])
        one.groups(str([json.dumps([{"pg_name": name, "ranks": members} for name, members in groups.items()])]))
        last = one.comp(0, 10)
        for name in [name for name, members in groups.items() if rank in members]:
            last = one.coll(10 * int(name), 10, 8, [last], group=name)
        one.write(tmp_path / "w")
    clocks = clocks_of(read_traces(tmp_path / "w"), {"5": (0, 1), "6": (1, 2)})
    assert clocks is not None
    assert clocks.shift.tolist() == [0, 700_000, 700_000, 0]
    assert clocks.root.tolist() == [0, 0, 0, 3]
    assert clocks.begin.tolist() == [0, 0, 0, 0]
    assert "the clock of rank 2 is 700 us ahead of that of rank 0" in clocks.lines[2]
    assert clocks.lines[-1] == "1 of the 4 clocks could not be compared: no common collectives"


def test_noise_is_no_skew(tmp_path: Path) -> None:
    ends = (3, -4, 5, -2, 4, 6, -3)      # us by which rank 1 ends later
    for rank in (0, 1):
        one, before = Recording(rank, 2, 10**12), 0
        for number, more in enumerate(ends):
            before = one.coll(100 * number, 20 + (more if rank else 0), 8, [before] if before else ())
        one.write(tmp_path / "w")
    clocks = clocks_of(read_traces(tmp_path / "w"), {})
    assert clocks is not None
    assert clocks.shift.tolist() == [0, 0]
    assert clocks.ahead.tolist() == [0, 3000]
    assert clocks.lines[-1] == "clocks agree within 3 us (collectives end together)"


def test_recordings_that_nothing_connects(tmp_path: Path) -> None:
    for rank in (0, 1):
        one = Recording(rank, 2, rank * 10**12)
        one.comp(0, 10)
        one.write(tmp_path / "w")
    with pytest.raises(InputError, match=r"rank 1 was recorded 1000 s from rank 0.*starts: together"):
        ar.simulate(design(tmp_path / "w"))
    assert ar.simulate(replace(design(tmp_path / "w"), "workload.starts", "together")).makespan_ps == 10 * US


# ------------------------------------------------------------ order of issue
def two_threads(prefix: Path) -> None:
    """Operations of 3,000, 1,000, 2,000 and 500 bytes on two threads of each rank; which thread took which differs."""
    for rank in (0, 1):
        one = Recording(rank, 2, 0)
        root = one.comp(0, 1)
        first = one.coll(1, 10, 3000, [root])
        second = one.coll(2, 9, 1000, [root])
        one.coll(11, 5, 2000, [first if rank else second])
        one.coll(12, 5, 500, [second if rank else first])
        one.write(prefix)


@pytest.mark.parametrize("streams", [1, 2, 3, 64])
@pytest.mark.parametrize("scheduling", ["lifo", "fifo", "priority"])
def test_a_slow_network_does_not_change_the_order_of_a_group(tmp_path: Path, streams: int, scheduling: str) -> None:
    two_threads(tmp_path / "w")
    chosen = replace(design(tmp_path / "w", rate="1 MB/s", streams=streams), "collective.scheduling", scheduling)
    result = both(chosen)
    begun = [start for start, _ in calls(result)]
    for each in (begun[:4], begun[4:]):
        assert each == sorted(each)


@pytest.mark.parametrize("streams", [1, 2])
def test_groups_take_turns_on_few_streams(tmp_path: Path, streams: int) -> None:
    """Rank 0 is ready for group 7 first, rank 1 for group 8: with one stream each would wait for the other."""
    for rank in (0, 1):
        one = Recording(rank, 2, 0)
        one.groups(str([json.dumps([{"pg_name": name, "ranks": [0, 1]} for name in ("7", "8")])]))
        for place, group in enumerate(("7", "8")):
            late = 1 if place == rank else 30
            one.coll(40 + place, 5, 1000, [one.comp(0, late)], group=group, number=5 + place)
        one.write(tmp_path / "w")
    both(replace(design(tmp_path / "w", streams=streams), "system.compute_streams", 2))


def test_other_traces_keep_their_rules_and_the_error_names_the_remedy(tmp_path: Path) -> None:
    """Nobody recorded them: what becomes ready first is issued first, and that may differ between ranks."""
    for rank in (0, 1):
        one = TraceBuilder()
        first = one.coll("first", CommOp.ALL_REDUCE, 3000, duration=1)
        second = one.coll("second", CommOp.ALL_REDUCE, 1000, duration=1)
        one.coll("third", CommOp.ALL_REDUCE, 2000, after=[first if rank else second])
        one.coll("fourth", CommOp.ALL_REDUCE, 500, after=[second if rank else first])
        one.write(tmp_path / f"w.{rank}.et")
    plan = lower(design(tmp_path / "w", streams=64), read_traces(tmp_path / "w"))
    for pure in (False, True):
        with pytest.raises(InputError, match=r"all_reduce of 500 bytes.*all_reduce of 2000 bytes|"
                                             r"all_reduce of 2000 bytes.*all_reduce of 500 bytes") as found:
            execute(plan, pure=pure)
        assert "the one before it" in str(found.value)
        assert "collective.scheduling: fifo" in str(found.value)


def test_operations_are_numbered_where_they_are_issued(tmp_path: Path) -> None:
    """Two threads of rank 1 begin two operations the other way round."""
    for rank in (0, 1):
        one = Recording(rank, 2, 0)
        root = one.comp(0, 1)
        sizes = [(1000, 10), (2000, 11)]
        for place, (size, number) in enumerate(sizes[::-1] if rank else sizes):
            one.coll(1 + place, 9, size, [root], number=number)
        one.write(tmp_path / "w")
    for streams, micros in ((1, 4), (64, 5)):      # 2,000 bytes begin late on rank 1, where they wait for 1,000
        assert both(design(tmp_path / "w", streams=streams)).makespan_ps == micros * US
    assert not [found for found in check(read_traces(tmp_path / "w")) if found.code == "collective_order"]


def test_recordings_that_disagree_are_refused(tmp_path: Path) -> None:
    for rank in (0, 1):
        one = Recording(rank, 2, 0)
        root = one.comp(0, 1)
        for place, size in enumerate([2000, 1000] if rank else [1000, 2000]):
            one.coll(1 + 10 * place, 9, size, [root])
        one.write(tmp_path / "w")
    with pytest.raises(InputError, match="recordings disagree"):
        ar.simulate(design(tmp_path / "w"))


def test_what_ran_side_by_side_still_does(tmp_path: Path) -> None:
    """Two operations overlap in the recording; the third began after both."""
    for rank in (0, 1):
        one = Recording(rank, 2, 0)
        root = one.comp(0, 1)
        one.coll(1, 10, 1000, [root])
        one.coll(2, 10, 1000, [root])
        one.coll(13, 10, 1000, [root])
        one.write(tmp_path / "w")
    begun = [start for start, _ in calls(both(design(tmp_path / "w", streams=64)))][:3]
    assert begun[0] == begun[1] == 1
    assert begun[2] > 1


@pytest.mark.parametrize("start", [2**62 + 5, 2**63 - 1])
def test_times_that_cannot_be_meant_are_not_used(tmp_path: Path, start: int) -> None:
    pair(tmp_path / "w")
    late = Recording(1, 2, start)
    late.coll(2**50, 5, 1000, [late.comp(0, 10)])
    late.write(tmp_path / "w")
    assert clocks_of(read_traces(tmp_path / "w"), {}) is None
    assert calls(both(design(tmp_path / "w")))[0][0] == 10


def test_clocks_that_nothing_can_be_said_of(tmp_path: Path) -> None:
    pair(tmp_path / "w")
    Recording(1, 2, None).write(tmp_path / "w")
    assert clocks_of(read_traces(tmp_path / "w"), {}) is None


def test_a_step_that_was_cut_out_begins_when_it_began(tmp_path: Path) -> None:
    """Nodes without times, as those that define groups, stand at 0."""
    for rank, begin in ((0, 1000), (1, 4000)):
        one = Recording(rank, 2, 10**15)
        one.groups("[]")
        one.comp(begin, 10)
        one.write(tmp_path / "w")
    clocks = clocks_of(read_traces(tmp_path / "w"), {})
    assert clocks is not None
    assert clocks.begin.tolist() == [0, 3_000_000]


# ------------------------------------------------------------ what was not recorded
def test_notes_name_missing_ranks_and_bytes(tmp_path: Path) -> None:
    """A network simulates neither the ranks without a trace nor bytes that were not recorded."""
    for rank in (0, 1):
        one = Recording(rank, 8, 0)
        one.coll(20, 5, 0, [one.coll(10, 5, 1000, [one.comp(0, 10)])])
        one.coll(30, 1, 0, op=CommOp.BARRIER)
        one.write(tmp_path / "w")
    chosen = design(tmp_path / "w")
    part, sizes = trace_notes(chosen, ar.simulate(chosen))[-2:]
    assert part.startswith("2 of the job's 8 ranks have a trace")
    assert sizes.startswith("2 of 6 collectives have no recorded bytes")
    replayed = replay_design(str(tmp_path / "w.*.et"))
    assert not any("recorded bytes" in line or "of the job's" in line for line in
                   trace_notes(replayed, ar.simulate(replayed)))
    whole = replace(chosen, "workload.rank", 1)
    assert not any("of the job's" in line for line in trace_notes(whole, ar.simulate(whole)))


def test_check_warns_of_missing_ranks_of_collectives_of_all(tmp_path: Path) -> None:
    """Two of eight ranks agree with each other, so nothing else is found."""
    for rank in (0, 1):
        one = Recording(rank, 8, 0)
        one.coll(10, 5, 1000, [one.comp(0, 10)])
        one.write(tmp_path / "w")
    assert [each.code for each in check(read_traces(tmp_path / "w"))] == ["part_of_job"]
