"""Chunks, compositions and whole plans."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.collective.exam_compose import examine_plan

from astrarium.collective import themis
from astrarium.collective.algorithms import supporting
from astrarium.collective.chunking import split
from astrarium.collective.compose import Composition
from astrarium.collective.groups import FLAT, SubDim, group_shape, world_shape
from astrarium.collective.lower import block_size, plan_collective, schedule_cache
from astrarium.collective.settings import Link, Settings
from astrarium.engine.plan import CollectivePlan
from astrarium.errors import InputError, UnsupportedError
from astrarium.vocab import CommOp

LINKS = (Link(100.0, 500.0), Link(50.0, 500.0), Link(25.0, 700.0))
CACHE = schedule_cache()


@given(st.integers(0, 1 << 40), st.integers(1, 100), st.integers(1, 1000))
def test_chunks_are_all_the_bytes_in_nearly_equal_parts(size: int, chunks: int, granule: int) -> None:
    rows = split(size, chunks, granule=granule)
    assert sum(count * each for count, each in rows) == size
    assert max(each for _, each in rows) - min(each for _, each in rows) <= 1
    count = sum(count for count, _ in rows)
    assert count <= chunks
    assert count == chunks or count == max(1, size // granule)


def test_impossible_chunks_are_refused() -> None:
    for size, chunks in ((-1, 1), (1, 0)):
        with pytest.raises(InputError):
            split(size, chunks)


@pytest.mark.parametrize("dims", [[2, 3], [2, 2, 2], [4, 2], [3, 1, 2], [7], [1]])
@pytest.mark.parametrize("composition", list(Composition))
@pytest.mark.parametrize("op", list(CommOp))
def test_compositions_make_up_the_operation(op: CommOp, composition: Composition, dims: list[int]) -> None:
    n = 1
    for size in dims:
        n *= size
    for algorithm in ("ring", "halving_doubling"):
        settings = Settings((algorithm,), composition, chunks=5, links=LINKS)
        examine_plan(plan_collective(op, 1_000_003, world_shape(dims), settings, cache=CACHE), n)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.sampled_from(list(CommOp)), st.data())
def test_any_mix_of_algorithms_on_any_slice_is_right(dims: list[int], op: CommOp, data: st.DataObject) -> None:
    composition = data.draw(st.sampled_from([Composition.BASELINE, Composition.BLUECONNECT, Composition.THEMIS]))
    names = set(supporting(op)) & set(supporting(CommOp.REDUCE_SCATTER)) & set(supporting(CommOp.ALL_GATHER)) \
        if op == CommOp.ALL_REDUCE else set(supporting(op))
    algorithms = tuple(data.draw(st.sampled_from(sorted(names))) for _ in dims)
    settings = Settings(algorithms, composition, chunks=data.draw(st.integers(1, 5)), links=LINKS)
    shape = data.draw(st.permutations(world_shape(dims)))
    order = []
    stride = 1
    for part in shape:  # a group whose own order runs through the dims in any order
        order.append(SubDim(part.dim, part.n, stride))
        stride *= part.n
    plan = plan_collective(op, data.draw(st.integers(0, 10_000)), sorted(order, key=lambda part: part.dim), settings,
                           cache=CACHE)
    examine_plan(plan, stride)


def phases(plan: CollectivePlan) -> list[tuple[int, CommOp, int]]:
    return [(phase.dim, CommOp(phase.op), phase.size) for phase in plan.chunks[0].phases]


def test_sizes_per_phase() -> None:
    shape = world_shape([4, 2])
    ring = Settings(("ring",))
    rs, ag, ar = CommOp.REDUCE_SCATTER, CommOp.ALL_GATHER, CommOp.ALL_REDUCE
    assert phases(plan_collective(ar, 1000, shape, ring)) == [(0, rs, 1000), (1, ar, 250), (0, ag, 250)]
    assert phases(plan_collective(ar, 1000, shape, replace(ring, composition=Composition.BASELINE))) == \
        [(0, ar, 1000), (1, ar, 1000)]
    assert phases(plan_collective(rs, 1001, shape, ring)) == [(0, rs, 1001), (1, rs, 251)]
    assert phases(plan_collective(ag, 10, shape, ring)) == [(1, ag, 10), (0, ag, 20)]


@pytest.mark.parametrize(("op", "size", "want"), [
    (CommOp.ALL_REDUCE, 1001, 251), (CommOp.ALL_GATHER, 1001, 1001), (CommOp.ALL_TO_ALL, 1000, 250),
    (CommOp.GATHER, 7, 7), (CommOp.SCATTER, 7, 2), (CommOp.BARRIER, 99, 0)])
def test_block_sizes(op: CommOp, size: int, want: int) -> None:
    assert block_size(op, size, 4, 4) == want


def test_equal_chunks_share_a_row_and_schedules_are_shared() -> None:
    cache = schedule_cache()
    plan = plan_collective(CommOp.ALL_REDUCE, 1 << 20, world_shape([8]), Settings(("ring",), chunks=4, active_chunks=0),
                           cache=cache)
    assert [(chunk.repeat, len(chunk.phases)) for chunk in plan.chunks] == [(4, 1)]
    assert plan.active_chunks == 0
    again = plan_collective(CommOp.ALL_REDUCE, 77, world_shape([8]), Settings(("ring",)), cache=cache)
    assert again.chunks[0].phases[0].schedule is plan.chunks[0].phases[0].schedule


def test_an_irregular_group_is_one_flat_phase_in_its_own_order() -> None:
    plan = plan_collective(CommOp.ALL_REDUCE, 999, group_shape([0, 3, 5], [4, 2]), Settings(("direct",)))
    (phase,) = plan.chunks[0].phases
    assert (phase.dim, phase.n, phase.stride) == (FLAT, 3, 1)
    assert phase.schedule is not None
    assert phase.schedule.algorithm == "ring"


def test_a_hierarchical_broadcast_crosses_the_outer_dim_once() -> None:
    plan = plan_collective(CommOp.BROADCAST, 1 << 20, world_shape([4, 8]), Settings(("direct",)))
    (phase,) = plan.chunks[0].phases
    schedule = phase.schedule
    assert schedule is not None
    assert len(schedule.send_peer) == 31
    sources = [p for p in range(32) for _ in range(schedule.send_ptr[p + 1] - schedule.send_ptr[p])]
    crossing = [(p, int(q)) for p, q in zip(sources, schedule.send_peer, strict=True) if p // 4 != int(q) // 4]
    assert crossing == [(0, 4 * k) for k in range(1, 8)]


def test_an_entry_may_carry_its_window() -> None:
    plan = plan_collective(CommOp.ALL_TO_ALL, 800, world_shape([8]), Settings(("direct:2",)))
    schedule = plan.chunks[0].phases[0].schedule
    assert schedule is not None
    assert schedule.send_needs.tolist() == [0, 0, 0, 1, 2, 3, 4]


def test_what_cannot_be_planned_is_refused() -> None:
    shape = world_shape([4, 2])
    for entry in ("ring:2", "direct:x", "direct:0"):
        with pytest.raises(InputError):
            plan_collective(CommOp.ALL_REDUCE, 8, shape, Settings((entry,)))
    with pytest.raises(UnsupportedError, match=r"collective.reduce_scatter: algorithm 'double_binary_tree'"):
        plan_collective(CommOp.ALL_REDUCE, 8, shape, Settings(("double_binary_tree", "ring")))
    with pytest.raises(InputError, match="at least 3"):
        plan_collective(CommOp.ALL_REDUCE, 8, world_shape([4, 2, 2]), Settings(("ring", "ring")))
    with pytest.raises(InputError, match="themis without bandwidth"):
        plan_collective(CommOp.ALL_REDUCE, 8, shape, Settings(("ring",), Composition.THEMIS))


def broken(plan: CollectivePlan, **change: object) -> CollectivePlan:
    chunk = plan.chunks[0]
    first = msgspec.structs.replace(chunk.phases[0], **change)
    return replace(plan, chunks=(msgspec.structs.replace(chunk, phases=(first, *chunk.phases[1:])),))


def test_the_exam_of_plans_fails_wrong_compositions() -> None:
    plan = plan_collective(CommOp.ALL_REDUCE, 1000, world_shape([2, 2]), Settings(("ring",)))
    chunk = plan.chunks[0]
    for phases_, message in (((chunk.phases[0], chunk.phases[1]), "do not add up"),
                             ((chunk.phases[0], chunk.phases[2], chunk.phases[0], chunk.phases[2]), "do not add up"),
                             ((chunk.phases[2],), "overlap"), ((chunk.phases[0], chunk.phases[0]), "different parts")):
        with pytest.raises(InputError, match=message):
            examine_plan(replace(plan, chunks=(msgspec.structs.replace(chunk, phases=phases_),)), 4)
    with pytest.raises(InputError, match="do not fill the group"):
        examine_plan(broken(plan, stride=4), 4)
    with pytest.raises(InputError, match="without a schedule for its operation"):
        examine_plan(broken(plan, schedule=None), 4)


def loads(sizes: Sequence[int], chosen: Sequence[Sequence[SubDim]], shape: Sequence[SubDim],
          costs: Sequence[themis.DimCost]) -> list[float]:
    """Time that each dim is busy with the reduce_scatters of all chunks."""
    busy = dict.fromkeys((part.dim for part in shape), 0.0)
    for size, order in zip(sizes, chosen, strict=True):
        left: float = size
        for part in order:
            busy[part.dim] += left * (part.n - 1) / part.n / costs[part.dim].bandwidth
            left /= part.n
    return list(busy.values())


def test_themis_paper_example() -> None:
    """256 MB all_reduce in four chunks on 4 x 4 with BW1 = 2 BW2: 7 time units instead of 8 (arXiv 2110.04478)."""
    shape = world_shape([4, 4])
    unit = 24.0  # MB through dim 1: half of what it takes for a chunk's reduce_scatter
    costs = [themis.DimCost(0.0, 48.0 / unit), themis.DimCost(0.0, 24.0 / unit)]
    sizes = [64] * 4
    chosen = themis.orders(sizes, shape, costs)
    assert 2 * max(loads(sizes, [shape] * 4, shape, costs)) / unit == pytest.approx(8)
    assert 2 * max(loads(sizes, chosen, shape, costs)) / unit == pytest.approx(7)
    assert [[part.dim for part in order] for order in chosen] == [[0, 1], [1, 0], [0, 1], [0, 1]]


@given(st.lists(st.integers(2, 16), min_size=1, max_size=4), st.integers(1, 64), st.data())
def test_themis_is_not_worse_than_the_default_order(dims: list[int], chunks: int, data: st.DataObject) -> None:
    shape = world_shape(dims)
    costs = [themis.DimCost(0.0, data.draw(st.sampled_from([10.0, 50.0, 200.0]))) for _ in dims]
    sizes = [1 << 20] * chunks
    chosen = themis.orders(sizes, shape, costs)
    assert chosen == themis.orders(sizes, shape, costs)
    biggest = max((1 << 20) / cost.bandwidth for cost in costs)
    plain = max(loads(sizes, [shape] * chunks, shape, costs))
    assert max(loads(sizes, chosen, shape, costs)) <= plain + biggest
