"""`collective.choice: auto`: the choice against every candidate, with either engine, and what stays as it is named."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.commands import PlugIn
from tests.loading import module_of

import astrarium as ar
from astrarium import engine
from astrarium.collective.algorithms import Algorithm, Bound
from astrarium.collective.algorithms.algorithm import Counts
from astrarium.collective.algorithms.direct import DIRECT
from astrarium.collective.choose import CHUNKS, MESSAGES
from astrarium.collective.compose import Composition
from astrarium.collective.estimate import Estimate, Names
from astrarium.collective.groups import world_shape
from astrarium.collective.reach import reach
from astrarium.engine.plan import CollectivePlan
from astrarium.engine.strides import pace
from astrarium.errors import PluginError
from astrarium.lower import Kept, lower
from astrarium.lower.collectives import CollectiveTable
from astrarium.network.dims import plan_dims
from astrarium.trace import TraceBuilder
from astrarium.vocab import CommOp

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _choice_cases import chosen_time, draw, exhaustive

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
TWO = ar.Network([ar.Switch(8, bandwidth="450 GB/s", latency="500 ns"),
                  ar.Switch(2, bandwidth="50 GB/s", latency="2 us")])


def design(op: str = "all_reduce", payload: str = "8 GB", network: ar.Network = TWO, **collective: Any) -> ar.Design:
    return ar.Design(workload=ar.SingleCollective(op, payload), network=network, collective=ar.Collective(**collective))


def plan_of(chosen: ar.Design) -> CollectivePlan:
    return lower(chosen, None).collectives[0]


def test_eight_gigabytes_on_two_dims() -> None:
    """The case that had 191 ms."""
    assert ar.simulate(design(choice="none")).makespan_ps == 191_121_111_108
    assert ar.simulate(design(composition="blueconnect", chunks=1)).makespan_ps == 51_121_111_108
    assert ar.simulate(design(composition="blueconnect", chunks=4)).makespan_ps == 31_116_111_136
    assert ar.simulate(design()).makespan_ps <= 31_200_000_000


@pytest.mark.parametrize("number", [
    1, 2, 3, 6, 7, *(pytest.param(each, marks=pytest.mark.exam) for each in range(8, 13))])
def test_the_choice_is_within_two_percent_of_all_candidates(number: int) -> None:
    """A small version of benchmarks/collective_choice.py: draws of another seed, with two dims at most."""
    case = next(case for case in (draw(100 + number, each) for each in range(100)) if len(case.network.flat) < 3)
    best, candidate, _ = exhaustive(case)
    time, how = chosen_time(case)
    assert time <= 1.02 * best, (how, candidate)


@pytest.mark.parametrize(("seed", "number", "algorithms", "chunks"), [
    (0, 76, ["ring", "direct", "ring_two_way", "ring_two_way", "ring"], 64),    # of 54 lists, one that was left out
    (1, 9, ["direct", "ring_two_way", "ring_two_way"], 16),     # a byte more in a chunk changes the order of the dims
    (1, 19, ["ring", "halving_doubling", "direct", "ring"], 4),     # so do the steps of halving
    (1, 41, ["halving_doubling", "ring_two_way", "direct", "ring_two_way"], 64)])
def test_what_was_best_where_the_choice_was_once_wrong(seed: int, number: int, algorithms: list[str],
                                                       chunks: int) -> None:
    case = draw(seed, number)
    named: dict[str, Any] = {case.op: algorithms}
    best = ar.simulate(case.design(composition="themis", chunks=chunks, **named), record=False).makespan_ps
    assert chosen_time(case)[0] <= 1.02 * best


@pytest.mark.parametrize(("members", "name"), [(32, "halving_doubling"), (48, "bruck")])
def test_of_nearly_equal_times_the_fewest_messages(members: int, name: str) -> None:
    """Halving sends 5 messages among 32 where `direct` sends 31, and Bruck 6 among 48."""
    network = ar.Network([ar.Switch(2, bandwidth="450 GB/s", latency="500 ns"),
                          ar.Switch(members, bandwidth="50 GB/s", latency="2 us")])
    chosen = ar.simulate(design("reduce_scatter", "130 MB", network))
    direct = ar.simulate(design("reduce_scatter", "130 MB", network, reduce_scatter=["direct"]))
    assert name in chosen.collectives.how[0]
    plans = [plan_of(design("reduce_scatter", "130 MB", network, **named))
             for named in ({}, {"reduce_scatter": ["direct"]})]
    sent = [sum(chunk.repeat * len(phase.schedule.send_peer) for chunk in plan.chunks for phase in chunk.phases)
            for plan in plans]
    assert sent[0] < sent[1] / 4
    assert chosen.makespan_ps <= 1.013 * direct.makespan_ps
    small = plan_of(design("reduce_scatter", "100 kB", network))
    assert name not in small.how        # latencies decide


@pytest.mark.parametrize("op", [CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL])
def test_the_estimate_is_the_engines_time_where_all_do_alike(op: CommOp) -> None:
    network = ar.Network([ar.Ring(6, bandwidth="80 GB/s", latency="1 us"),
                          ar.Switch(4, bandwidth="50 GB/s", latency="2 us")])
    dims, npus, name = plan_dims(network), np.arange(24, dtype=np.int32), op.name.lower()
    table = CollectiveTable(design(network=network), dims, npus, [], [], None, Kept())
    for payload in (60_000, 3_000_000, 600_000_000):
        size = payload // 24 if op == CommOp.ALL_GATHER else payload
        (settings,) = table.settings([(int(op), size, 0)]) or ()
        assert settings.free is not None
        reaches = {0: reach(dims[0], np.arange(6)), 1: reach(dims[1], np.arange(4))}
        estimate = Estimate(op, size, world_shape([6, 4]), settings, settings.free, reaches)
        for algorithms in (("ring_two_way", "direct"), ("direct", "direct"), ("ring", "direct")):
            for composition in Composition:
                for chunks in (1, 4, 16):
                    run = design(name, f"{payload} B", network, composition=composition.value, chunks=chunks,
                                 **{name: list(algorithms)})
                    time = ar.simulate(run, record=False).makespan_ps
                    found = estimate.time(composition, Names(*[algorithms] * 3), chunks)
                    assert found * 1000 == pytest.approx(time, rel=0.03), (payload, algorithms, composition, chunks)


def test_both_engines_pace_chunks_alike() -> None:
    rng = random.Random(5)
    for _ in range(60):
        phases = [[(rng.randrange(3), rng.choice((0.0, 1.0, rng.random())), rng.choice((0.0, 2.0, rng.random())),
                    rng.randrange(1, 4)) for _ in range(rng.randrange(1, 4))] for _ in range(4)]
        paths = [[rng.randrange(4) for _ in range(3)] for _ in range(2)]
        chunks = [rng.randrange(2) for _ in range(rng.randrange(1, 12))]
        limit, entry = rng.randrange(3), rng.choice((0.0, 0.25))
        assert pace(phases, paths, chunks, limit, entry) == engine.pace(phases, paths, chunks, limit, entry)


def test_without_a_core_the_choice_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    network = ar.Network([ar.Ring(8, bandwidth="100 GB/s", latency="1 us"),
                          ar.Switch(4, bandwidth="50 GB/s", latency="2 us")])
    designs = [design(op, payload, network) for op in ("all_reduce", "all_gather", "all_to_all")
               for payload in ("10 kB", "3 MB", "700 MB")]
    compiled = [plan_of(each).how for each in designs]
    monkeypatch.setattr(engine, "HAVE_CORE", False)
    assert [plan_of(each).how for each in designs] == compiled
    assert len(set(compiled)) > 4


def test_auto_picks_an_algorithm_of_a_plug_in_where_it_is_best(plug_in: PlugIn) -> None:
    module_of(EXAMPLES / "line_gather.py", "line_gather_example")
    line = ar.Mesh(16, bandwidth="50 GB/s", latency="500 ns")
    designs = [design("all_gather", "64 MB", ar.Network(dims), chunks=1) for dims in (
        [line], [ar.Switch(4, bandwidth="450 GB/s", latency="1 us"), line],
        [ar.Switch(16, bandwidth="50 GB/s", latency="500 ns")])]
    before = [ar.simulate(each) for each in designs]
    plug_in({"algorithm.line_gather": "line_gather_example:LINE_GATHER"})
    after = [ar.simulate(each) for each in designs]
    assert ["line_gather" in each.collectives.how[0] for each in after] == [True, True, False]
    assert after[0].makespan_ps == 1_207_500_000 < 0.6 * before[0].makespan_ps
    assert after[1].makespan_ps < 0.7 * before[1].makespan_ps
    assert after[2].makespan_ps == before[2].makespan_ps


def by_bound(steps: int, **more: Any) -> Algorithm:
    """`direct`, which says that it takes a block in so many steps."""
    return Algorithm(build=DIRECT.build, bound=lambda op, n, blocks: Bound(1, 1, steps), candidate=lambda case: True,
                     **more)


SLOW, FAST, BROKEN = by_bound(1000), by_bound(1), by_bound(1, counts=lambda case: [1.0])
NEGATIVE = by_bound(1, counts=lambda case: [Counts(port=0, times=-1, held=1.0, hops=1.0, size=1.0)])


def test_a_plug_in_without_counts_is_estimated_by_its_bound(plug_in: PlugIn) -> None:
    run = design("all_reduce", "1 MB", ar.Network([ar.FullyConnected(8, bandwidth="50 GB/s", latency="5 us")]))
    plug_in({f"algorithm.{name.lower()}": f"{__name__}:{name}" for name in ("SLOW", "FAST")})
    assert "fast" in plan_of(run).how
    plug_in({"algorithm.slow": f"{__name__}:SLOW"})
    assert "direct" in plan_of(run).how
    plug_in({"algorithm.broken": f"{__name__}:BROKEN"})
    with pytest.raises(PluginError, match=r"algorithm plug-in broken: counts\(\) gave neither Counts nor None"):
        plan_of(run)
    plug_in({"algorithm.negative": f"{__name__}:NEGATIVE"})
    with pytest.raises(PluginError, match=r"gave Counts\(port=0, times=-1, .*\); expected numbers of 0 or more"):
        plan_of(run)


def test_what_a_design_names_it_keeps() -> None:
    named = plan_of(design(all_reduce=["ring", "halving_doubling"], composition="baseline", chunks=3))
    assert named.how == "baseline ring + halving_doubling, 3 chunks"
    algorithms = plan_of(design(all_reduce=["ring", "halving_doubling"]))
    assert "ring + halving_doubling" in algorithms.how
    assert not algorithms.how.startswith("baseline")       # chosen, and far better
    assert sum(chunk.repeat for chunk in plan_of(design(chunks=3)).chunks) == 3
    assert plan_of(design(composition="baseline")).how.startswith("baseline direct")
    assert plan_of(design(composition="themis", active_chunks=1)).active_chunks == 1
    assert "themis" not in plan_of(design(active_chunks=2)).how
    plain = plan_of(design(choice="none"))
    assert (plain.how, sum(chunk.repeat for chunk in plain.chunks)) == ("baseline direct", 1)


@pytest.mark.parametrize("op", ["broadcast", "reduce", "gather", "scatter", "barrier"])
def test_rooted_operations_stay_as_they_are(op: str) -> None:
    assert ar.simulate(design(op, "1 MB")).makespan_ps == ar.simulate(design(op, "1 MB", choice="none")).makespan_ps


def _traces(folder: Path, groups: dict[str, list[int]], ranks: int) -> str:
    for rank in range(ranks):
        trace = TraceBuilder()
        for name, members in groups.items():
            if rank in members:
                trace.coll(f"sum {name}", CommOp.ALL_REDUCE, 4_000_000, group=name)
        trace.write(str(folder / f"t.{rank}.et"))
    (folder / "groups.json").write_text(str(groups).replace("'", '"'))
    return str(folder / "t.*.et")


def test_slices_choose_by_how_far_their_members_are(tmp_path: Path) -> None:
    """Groups of one form choose alike wherever they are; on a ring of 8, neighbours and the far ones do not. A group
    that is no product of dims has what nobody chose."""
    groups = {"1": [0, 1, 2, 3], "2": [4, 5, 6, 7], "3": [0, 2, 4, 6], "4": [0, 1, 8, 15]}
    network = ar.Network([ar.Ring(8, bandwidth="50 GB/s", latency="2 us"),
                          ar.Switch(2, bandwidth="50 GB/s", latency="1 us")])
    chosen = ar.Design(workload=ar.Trace(_traces(tmp_path, groups, 16), groups=str(tmp_path / "groups.json")),
                       network=network)
    result = ar.simulate(chosen)
    how = {int(group): text for group, text in zip(result.collectives.group, result.collectives.how, strict=True)}
    said = [how[group] for group in range(4) if group in how]
    assert said[-1] == "ring"
    for fold, pure in (("off", False), ("off", True)):
        assert ar.simulate(chosen, fold=fold, pure=pure).makespan_ps == result.makespan_ps
    every = ar.simulate(chosen, fold="off").collectives
    by_group = {int(group): text for group, text in zip(every.group, every.how, strict=True)}
    assert by_group[0] == by_group[1]
    assert len(by_group) == 4


def test_the_result_says_what_was_chosen() -> None:
    from astrarium.report.tables.collectives import collective_table
    from astrarium.result.export import tables

    result = ar.simulate(design())
    assert result.collectives.how.tolist() == ["blueconnect halving_doubling + direct, 3 chunks"]
    assert tables(result)["collectives"]["how"].tolist() == ["blueconnect halving_doubling + direct, 3 chunks"]
    table = collective_table(result)
    assert (table.head[-1], table.rows[0][-1]) == ("how", "blueconnect halving_doubling + direct, 3 chunks")


def test_astra_sims_rules_choose_nothing() -> None:
    lists: dict[str, Any] = {op: ["ring", "direct"] for op in ("all_reduce", "all_gather", "reduce_scatter",
                                                              "all_to_all")}
    auto = ar.replace(design(payload="8 MB", **lists), "compat", "astra_sim")
    plain = ar.replace(design(payload="8 MB", composition="baseline", chunks=1, **lists), "compat", "astra_sim")
    assert ar.simulate(auto).makespan_ps == ar.simulate(plain).makespan_ps


def test_small_payloads_and_large_groups_have_few_chunks() -> None:
    tiny = plan_of(design("reduce_scatter", "20 B"))
    assert sum(chunk.repeat for chunk in tiny.chunks) == 1
    large = ar.Network([ar.Switch(4096, bandwidth="50 GB/s", latency="1 us"),
                        ar.Switch(8, bandwidth="50 GB/s", latency="1 us")])
    made = plan_of(design("all_gather", "8 GB", large, all_gather=["direct"]))
    assert sum(chunk.repeat for chunk in made.chunks) in CHUNKS[:2]
    chosen = plan_of(design("all_gather", "8 GB", large))       # 12 + 3 messages a chunk, not 4,095 + 7
    assert "halving_doubling" in chosen.how
    assert 2 < sum(chunk.repeat for chunk in chosen.chunks) <= 64


@pytest.mark.parametrize(("op", "payload"), [("all_gather", "42 MB"), ("all_gather", "131 MB"),
                                             ("reduce_scatter", "336 MB"), ("reduce_scatter", "467 MB")])
def test_fewer_chunks_than_were_good_enough_allow_no_more_messages(op: str, payload: str) -> None:
    """24 chunks of `direct`, 12,336 messages, were chosen since 32 chunks of `halving_doubling` were good enough."""
    network = ar.Network([ar.Ring(4, bandwidth="450 GB/s", latency="500 ns"),
                          ar.Switch(512, bandwidth="50 GB/s", latency="2 us")])
    made = plan_of(design(op, payload, network))
    chunks = sum(chunk.repeat for chunk in made.chunks)
    assert chunks == 1 or 2 * chunks * (3 + (9 if "halving" in made.how else 511)) <= MESSAGES


def test_many_members_of_one_switch_send_few_messages() -> None:
    network = ar.Network([ar.Switch(8192, bandwidth="50 GB/s", latency="2 us")])
    chosen = ar.simulate(design("all_gather", "856 MB", network), record=False)
    direct = ar.simulate(design("all_gather", "856 MB", network, all_gather=["direct"]), record=False)
    assert "halving_doubling" in plan_of(design("all_gather", "856 MB", network)).how
    assert direct.makespan_ps < chosen.makespan_ps <= 1.013 * direct.makespan_ps
    assert "direct" in plan_of(design("all_gather", "8 MB", network)).how       # latencies decide


@pytest.mark.parametrize("op", [CommOp.ALL_REDUCE, CommOp.ALL_TO_ALL])
def test_a_thousand_sizes_of_a_large_system_are_chosen_by_kind(op: CommOp) -> None:
    """Of 131,072 NPUs: as many choices as distinct (operation, bytes, form of group), whatever the ranks."""
    network = ar.Network([ar.Switch(8, bandwidth="450 GB/s", latency="500 ns"),
                          ar.Switch(16384, bandwidth="50 GB/s", latency="2 us")])
    npus = np.arange(network.npus, dtype=np.int32)
    groups = list(npus.reshape(-1, 8))
    names = [str(group) for group in range(len(groups))]
    table = CollectiveTable(design(network=network), plan_dims(network), npus, groups, names, None, Kept())
    numbers = {table.number(op, 1_000_000, group) for group in range(0, len(groups), 100)}
    assert len(numbers) == len(table.plans()) == 1
