"""One recorded rank: alone by its recorded times, or on every NPU as equal ranks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

import astrarium as ar
from astrarium.cli.replay_design import replay_design
from astrarium.compute.config import Replay
from astrarium.design import Design
from astrarium.errors import InputError, UnsupportedError
from astrarium.memory.config import Memory
from astrarium.network.config import Network, Switch
from astrarium.profile.equal_ranks import equal_ranks
from astrarium.report.timeline.run import Recorded, write_timeline
from astrarium.trace import TraceBuilder, read_traces
from astrarium.trace.groups import groups_of
from astrarium.workload.config import Trace

from .profiled import Recording

US = 1_000_000      # ps


def design(prefix: Path, npus: int, rank: int = 1) -> Design:
    return Design(workload=Trace(f"{prefix}.*.et", rank=rank), compute=Replay(missing="0 ns"), memory=Memory(),
                  network=Network([Switch(npus, bandwidth="1 GB/s", latency="0 ns")]))


def one_of(prefix: Path, world: int, groups: dict[str, list[int]] | None = None, rank: int = 1) -> None:
    """Rank `rank`: 10 us of compute, then an all_reduce of 8,000 bytes, 90 us, on every group (or all ranks)."""
    made = Recording(rank, world, 10**15)
    if groups:
        made.groups(str([json.dumps([{"pg_name": name, "ranks": ranks} for name, ranks in groups.items()])]))
    last = made.comp(0, 10)
    for place, name in enumerate(groups or [None]):
        last = made.coll(10 + 90 * place, 90, 8000, [last], group=name)
    made.write(prefix)


def test_alone_its_collectives_take_their_recorded_times(tmp_path: Path) -> None:
    one_of(tmp_path / "w", 8)
    result = ar.simulate(replay_design(str(tmp_path / "w.*.et"), 1))
    assert (result.makespan_ps, result.summary()["last_rank"]) == (100 * US, 1)
    write_timeline(str(tmp_path / "t.json"), Recorded(result.plan, result.outcome, result.traces,
                                                      first_rank=result.first_rank))
    assert '"rank 1"' in (tmp_path / "t.json").read_text()


def test_on_a_network_every_rank_does_the_same(tmp_path: Path) -> None:
    one_of(tmp_path / "w", 8)
    result, pure = (ar.simulate(design(tmp_path / "w", 8), pure=pure) for pure in (False, True))
    assert (len(result.outcome.row), len(result.outcome.finish)) == (8, 1)      # eight ranks, folded to one
    assert result.makespan_ps == pure.makespan_ps == (10 + 14) * US             # a ring: 14 steps of 1,000 bytes
    assert ar.simulate(design(tmp_path / "w", 16)).makespan_ps > result.makespan_ps     # all ranks of a larger job


@pytest.mark.parametrize(("rank", "members"), [(5, {"7": [4, 5], "9": [1, 3, 5, 7]}),
                                               (0, {"7": [0, 1], "9": [0, 2, 4, 6]})])
def test_the_other_groups_of_a_grid(tmp_path: Path, rank: int, members: dict[str, list[int]]) -> None:
    one_of(tmp_path / "w", 8, members, rank)
    traces = equal_ranks(read_traces([tmp_path / f"w.{rank}.et"]), rank, 8)
    found = groups_of(traces)
    columns = traces.classes[0]
    pairs = {frozenset(found[traces.texts[number]]) for number in columns.group[:, 0].tolist()}
    fours = {frozenset(found[traces.texts[number]]) for number in columns.group[:, 1].tolist()}
    assert pairs == {frozenset((base, base + 1)) for base in (0, 2, 4, 6)}
    assert fours == {frozenset((0, 2, 4, 6)), frozenset((1, 3, 5, 7))}
    for each in range(8):
        assert all(each in found[traces.texts[number]] for number in columns.group[each].tolist())
    result = ar.simulate(design(tmp_path / "w", 8, rank), fold="off")
    pure = ar.simulate(design(tmp_path / "w", 8, rank), pure=True)
    assert np.array_equal(result.outcome.end, pure.outcome.end)
    assert len(set(result.outcome.finish.tolist())) == 1


def test_groups_from_a_file(tmp_path: Path) -> None:
    """Kineto cuts lists of more than 30 ranks short: the file has the recorded rank's group, the others follow."""
    members = {"7": [0, 2, 4, 6]}
    one_of(tmp_path / "w", 8, members, 0)
    expected = ar.simulate(design(tmp_path / "w", 8, 0))
    made = Recording(0, 8, 10**15)
    made.coll(10, 90, 8000, [made.comp(0, 10)], group="7")
    made.write(tmp_path / "v")
    (tmp_path / "groups.json").write_text(json.dumps(members))
    workload = Trace(f"{tmp_path / 'v'}.*.et", rank=0, groups=str(tmp_path / "groups.json"))
    found = ar.simulate(structs.replace(design(tmp_path / "v", 8, 0), workload=workload))
    assert found.makespan_ps == expected.makespan_ps
    assert len(found.outcome.finish) == 1      # eight ranks, folded to one


def test_what_cannot_be_equal_is_refused(tmp_path: Path) -> None:
    one_of(tmp_path / "w", 8, {"7": [1, 2, 5]})
    with pytest.raises(UnsupportedError, match="no part of a grid"):
        ar.simulate(design(tmp_path / "w", 8))
    one_of(tmp_path / "w", 8, {"7": [0, 1]})
    with pytest.raises(InputError, match="network of 8 NPUs"):
        ar.simulate(design(tmp_path / "w", 16))
    with pytest.raises(InputError, match="no other rank to communicate with"):
        ar.simulate(design(tmp_path / "w", 1))


def test_messages_are_refused(tmp_path: Path) -> None:
    made = TraceBuilder(kind="profiled")
    made.send("hop", 2, 1000, duration=5)
    made.write(tmp_path / "w.1.et")
    with pytest.raises(UnsupportedError, match="sends or receives messages"):
        ar.simulate(design(tmp_path / "w", 4))
