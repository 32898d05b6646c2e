"""Switches that compute, in both engines: the same integers, alone the closed form, no rate exceeded, every byte."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.plans.hand import Node, collective, delay, plan_of, send

from astrarium.collective.algorithms import Options, build
from astrarium.collective.algorithms.in_switch import tree, ways_down
from astrarium.engine import HAVE_CORE, Outcome, Plan, execute
from astrarium.engine.apart import sets_of_jobs
from astrarium.engine.plan import (
    FIRST_LINK,
    Algorithm,
    Chunk,
    CollectivePlan,
    Dim,
    Graph,
    InSwitch,
    NetworkPlan,
    PacketRules,
    Phase,
    RoceRules,
    Shape,
)
from astrarium.errors import InternalError
from astrarium.fabric.graph import graph_of
from astrarium.vocab import CommOp, Schedule

needs_core = pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here")
OPS = (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.BROADCAST, CommOp.REDUCE, CommOp.BARRIER)
REDUCES = (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.REDUCE)
LINKS = ("link_dim", "link_from", "link_to", "link_bytes", "link_busy")
FREE = 1e12
RATE, HOP = 10.0, 100     # bytes per ns, ns


def phase_of(schedule: Schedule, block: int, dim: int = 0, stride: int = 1, **able: Any) -> Phase:
    return Phase(dim, int(schedule.op), Algorithm.SCHEDULE, block * schedule.blocks, schedule.n, stride,
                 schedule=schedule, block_size=block, in_switch=InSwitch(**{"rate": FREE, "latency": 0, **able}))


def collective_of(*phases: Phase, chunks: int = 1, active: int = 1) -> CollectivePlan:
    return CollectivePlan(phases[0].op, phases[0].size, (Chunk(chunks, phases),), active)


def network(*dims: Dim, backend: str = "closed_form", **more: Any) -> NetworkPlan:
    return NetworkPlan(backend, dims or (Dim(Shape.SWITCH, 4, RATE, HOP),), **more)


def alone(schedule: Schedule, block: int, backend: str = "closed_form", **able: Any) -> Outcome:
    n = schedule.n
    where = network(Dim(Shape.SWITCH, n, RATE, HOP), backend=backend)
    one = collective_of(phase_of(schedule, block, **able))
    return execute(plan_of([[collective(0)]] * n, where, collectives=[one]), record=True)


@pytest.mark.parametrize("backend", ["closed_form", "contention"])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("n", "rounds"), [(2, 1), (4, 8), (7, 3)])
def test_alone_it_takes_the_closed_form(backend: str, op: CommOp, n: int, rounds: int) -> None:
    """S / B + S / (K B) + 2 L in K rounds, whatever the participants; an adder that is slower than n links makes S / B
    to n S / R, and what it adds last comes after the rest."""
    schedule, block = build("sharp", op, n, Options(pipeline=rounds)), 1000 * (op != CommOp.BARRIER)
    whole, rounds = block * schedule.blocks, 1 if op == CommOp.BARRIER else rounds
    up = whole // n if op == CommOp.ALL_GATHER else whole
    down = whole // n if op == CommOp.REDUCE_SCATTER else whole
    busiest, other = max(up, down), min(up, down)
    time = round(1000 * (busiest / RATE + other / rounds / RATE + 2 * HOP))
    assert int(alone(schedule, block, backend).finish.max()) == time
    slow = alone(schedule, block, backend, rate=1.0, latency=7000)
    if op in (*REDUCES, CommOp.BARRIER):
        time = round(1000 * (whole / rounds / RATE + n * whole / 1.0 + down / rounds / RATE + 2 * HOP)) + 7000
    assert int(slow.finish.max()) == time


@pytest.mark.parametrize("n", [3, 8])
def test_nvls_alone(n: int) -> None:
    """In one round: up S, the own share down, written up, all of it down; in many rounds close to S (1 + 1 / n) / B."""
    one = alone(build("nvls", CommOp.ALL_REDUCE, n, Options(pipeline=1)), 1000)
    share = 1000 / RATE
    assert int(one.finish.max()) == round(1000 * (2 * n * share + 2 * share + 4 * HOP))
    many = alone(build("nvls", CommOp.ALL_REDUCE, n, Options(pipeline=64)), 100_000)
    least = 64 * (n + 1) * 100_000 / RATE * 1000
    assert least < int(many.finish.max()) < 1.06 * least


@pytest.mark.parametrize("backend", ["closed_form", "contention", "fluid", "packets"])
@pytest.mark.parametrize("name", ["sharp", "nvls"])
@pytest.mark.parametrize("op", OPS)
def test_bytes(backend: str, name: str, op: CommOp) -> None:
    """What the exam counts goes over each NPU's link to the switch and back, nothing else; links are never busier than
    their bandwidth lets them."""
    from astrarium.collective.exam import examine

    schedule = build(name, op, 4)
    proof, found = examine(schedule), alone(schedule, 1000, backend)
    up = {int(npu): int(size) for npu, to, size in zip(found.link_from, found.link_to, found.link_bytes) if to < 0}
    down = {int(npu): int(size) for npu, to, size in zip(found.link_to, found.link_from, found.link_bytes) if to < 0}
    assert up == {npu: int(blocks) * 1000 for npu, blocks in enumerate(proof.sent) if blocks}
    assert down == {npu: int(blocks) * 1000 for npu, blocks in enumerate(proof.received) if blocks}
    assert (found.link_busy <= found.finish.max()).all()
    np.testing.assert_allclose(found.link_busy, found.link_bytes / RATE * 1000, atol=64)     # fluid: a ps per message


ALGORITHMS = st.tuples(st.sampled_from(["sharp", "nvls"]), st.sampled_from(OPS), st.sampled_from([1, 2, 5]))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Collectives of halves, lines and all of one or two dims, some at once, with delays and messages beside them."""
    sizes = draw(st.sampled_from([(4,), (6,), (4, 2), (2, 3), (3, 2)]))
    dims = [Dim(Shape.SWITCH, n, draw(st.sampled_from([10.0, 12.5, 37.3])), draw(st.sampled_from([0.0, 1.0, 100.0])))
            for n in sizes]
    backend = draw(st.sampled_from(["closed_form", "closed_form", "contention", "fluid", "packets"]))
    if backend == "packets":
        dims = [replace(dim, latency=100.0) for dim in dims]
    where = network(*dims, backend=backend, cut_through=backend in ("contention", "packets") and draw(st.booleans()),
                    packets=PacketRules(size=512, header=draw(st.sampled_from([0, 32])),
                                        transport=draw(st.sampled_from([None, RoceRules()]))))
    if backend != "closed_form" and draw(st.booleans()):
        where = replace(where, graph=graph_of(dims), ecmp=FIRST_LINK)
    npus = prod(sizes)
    lines = [list(range(first, first + sizes[0])) for first in range(0, npus, sizes[0])]
    groups, used, made = [list(range(npus)), *lines], [-1, *range(1, len(lines) + 1)], []
    for _ in range(draw(st.integers(1, 3))):
        group = draw(st.sampled_from(used if len(sizes) == 1 else used[1:]))
        name, op, rounds = draw(ALGORITHMS)
        n: int = sizes[0]
        able: dict[str, Any] = {"rate": draw(st.sampled_from([3.0, 30.0, FREE])),
                                "latency": draw(st.sampled_from([0, 500]))}
        if where.graph is not None:
            able["nodes"] = (npus + max(group - 1, 0),)
        phase = phase_of(build(name, op, n, Options(pipeline=rounds)), draw(st.sampled_from([1, 100, 4000])), **able)
        made.append((group, collective_of(phase, chunks=draw(st.integers(1, 3)), active=draw(st.sampled_from([0, 1])))))
    if len(sizes) == 2 and where.graph is None:
        inner, outer = (build(draw(st.sampled_from(["sharp", "nvls"])), CommOp.ALL_REDUCE, n, Options(pipeline=2))
                        for n in sizes)
        made.append((-1, collective_of(phase_of(inner, 64), phase_of(outer, 32, 1, sizes[0]), chunks=2)))
    ranks: list[list[Node]] = []
    for rank in range(npus):
        nodes = [delay(draw(st.sampled_from([0, 0, 1000, 7000])))]
        for number, (group, _) in enumerate(made):
            if group < 0 or rank in groups[group]:
                nodes.append(collective(number, 0, group=group))
        ranks.append(nodes)
    return plan_of(ranks, where, collectives=[each for _, each in made], groups=groups, lanes=(1, 3, 1, 1, 1))


def same(one: Outcome, two: Outcome) -> None:
    for name in ("finish", "busy", "start", "end"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
    rows = [sorted(zip(*(getattr(each, name).tolist() for name in LINKS))) for each in (one, two)]
    assert rows[0] == rows[1]


@needs_core
@given(plans())
def test_both_engines_and_folded_runs_give_the_same_integers(plan: Plan) -> None:
    ours, theirs = execute(plan, record=True, pure=True), execute(plan, record=True, fold=False)
    same(ours, theirs)
    for record in (False, True):
        folded = execute(plan, record=record, fold=True)
        np.testing.assert_array_equal(folded.finish[folded.row], theirs.finish)
    np.testing.assert_array_equal(folded.use_busy, theirs.use_busy)


@needs_core
def test_what_folds() -> None:
    """Groups that are all NPUs of their switches, one collective after the other, or on other dims; not two at once."""
    n, m = 8, 16
    dims = Dim(Shape.SWITCH, n, RATE, HOP), Dim(Shape.SWITCH, m, RATE, HOP)
    lines = [list(range(first, first + n)) for first in range(0, n * m, n)]
    across = [list(range(first, n * m, n)) for first in range(n)]
    one = collective_of(phase_of(build("nvls", CommOp.ALL_REDUCE, n), 1000, rate=3.0, latency=500))
    two = collective_of(phase_of(build("sharp", CommOp.REDUCE_SCATTER, m), 1000, 1, rate=30.0))

    def plan(after: int) -> Plan:
        made = plan_of([[delay(1000), collective(0, 0, group=rank // n), collective(1, after, group=m + rank % n),
                         collective(0, after, group=rank // n)] for rank in range(n * m)], network(*dims),
                       collectives=[one, two], groups=[*lines, *across], lanes=(1, 3, 1, 1, 1))
        return replace(made, programs=made.programs[:1], program_of=np.zeros(n * m, np.int32))

    folded, every = (execute(plan(1), fold=fold) for fold in (True, False))
    assert folded.folded
    assert folded.finish.size < 4
    np.testing.assert_array_equal(folded.finish[folded.row], every.finish)
    met = execute(plan(0), fold=True)
    assert met.unfolded_because == "a collective in switches meets other messages"
    np.testing.assert_array_equal(met.finish[met.row], execute(plan(0), fold=False).finish)
    half = phase_of(build("sharp", CommOp.ALL_REDUCE, n // 2), 1000)
    shared = plan_of([[collective(0, group=rank // 4)] for rank in range(n)], network(dims[0]),
                     collectives=[collective_of(half)], groups=[range(4), range(4, 8)])
    assert execute(shared, fold=True).unfolded_because == "groups that share a switch that computes"


@given(plans())
def test_no_link_or_adder_is_faster_than_it_is(plan: Plan) -> None:
    """All that one switch adds, over all collectives, takes its rate; all that a link carries its bandwidth."""
    found = execute(plan, record=True)
    assert (found.link_busy <= int(found.finish.max())).all()
    added: dict[int, float] = {}
    inner = plan.network.dims[0].npus
    for rank in range(len(plan.program_of)):
        first, last = plan.slot_ptr[rank:rank + 2]
        for number in plan.slot_a[first:last].tolist():
            for chunk in plan.collectives[number].chunks:
                phase = chunk.phases[0]
                if phase.op in REDUCES and phase.in_switch is not None:
                    sent = int(np.diff(phase.schedule.send_block_ptr)[:phase.schedule.send_ptr[1]].sum()) \
                        if phase.schedule is not None and phase.schedule.algorithm == "sharp" else 0
                    added[rank // inner] = added.get(rank // inner, 0.0) + \
                        chunk.repeat * sent * phase.block_size / phase.in_switch.rate
    assert all(time * 1000 <= float(found.finish.max()) + 1000 for time in added.values())


def leaf_spine() -> Graph:
    """6 NPUs, 3 at each of two leaves (nodes 6 and 7), a spine (node 8); links down are those up, turned round."""
    up = [(npu, 6 + npu // 3) for npu in range(6)] + [(6, 8), (7, 8)]
    pairs = up + [(b, a) for a, b in up]
    source, target = (np.array([pair[side] for pair in pairs], np.int32) for side in (0, 1))
    rates = np.array([10.0] * 6 + [20.0] * 2)
    return Graph(9, source, target, np.tile(rates, 2), np.full(16, 100.0), np.zeros(16, np.int64),
                 np.ones(16, np.int32))


TREE = [6, 6, 6, 7, 7, 7, 8, 8, -1]


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("backend", ["contention", "fluid"])
@pytest.mark.parametrize("op", OPS)
def test_a_tree_of_switches(pure: bool, backend: str, op: CommOp) -> None:
    """A link between switches carries the sum of three once, not three payloads: S up, S down."""
    schedule = tree(op, "sharp", 6, TREE, Options(pipeline=4))
    places = ways_down(6, TREE)
    nodes = (6, 7, 8, *[6 + place for place in range(2)])
    assert schedule.switches == len(nodes)
    assert max(places) == 10
    phase = phase_of(schedule, 3000, dim=-1, nodes=nodes)
    where = network(Dim(Shape.SWITCH, 6, 10.0, 100.0), backend=backend, graph=leaf_spine(), ecmp=FIRST_LINK)
    found = execute(plan_of([[collective(0)]] * 6, where, collectives=[collective_of(phase)]), record=True, pure=pure)
    whole = 3000 * schedule.blocks
    carried = dict(zip(found.link_number.tolist(), found.link_bytes.tolist(), strict=True))
    if op == CommOp.ALL_REDUCE:
        assert set(carried.values()) == {whole}
        assert len(carried) == 16
        time = whole / 10 + 3000 / 10 + 2 * 3000 / 20 + 400
        assert backend == "fluid" or int(found.finish.max()) == round(1000 * time)
    assert all(size <= whole for size in carried.values())


def test_refused() -> None:
    schedule = build("sharp", CommOp.ALL_REDUCE, 4, Options(pipeline=2))
    good = phase_of(schedule, 10)
    for bad in (replace(good, in_switch=None), phase_of(schedule, 10, rate=0.0), phase_of(schedule, 10, latency=-1),
                phase_of(schedule, 10, nodes=(4,)), replace(good, dim=-1)):
        with pytest.raises(InternalError):
            execute(plan_of([[collective(0)]] * 4, network(), collectives=[collective_of(bad)]))
    ring = network(Dim(Shape.RING, 4, RATE, HOP))
    with pytest.raises(InternalError, match="in no dim"):
        execute(plan_of([[collective(0)]] * 4, ring, collectives=[collective_of(good)]))


def test_messages_beside_it_take_turns_at_the_ports() -> None:
    """A message of NPU 0 that comes first keeps its port; the sum of the first round waits for it."""
    schedule = build("sharp", CommOp.ALL_REDUCE, 4, Options(pipeline=1))
    nodes = [[collective(0)] for _ in range(4)]
    plan = plan_of([[send(1, 5000), collective(0)], *nodes[1:]], network(), lanes=(1, 2, 1, 1, 1),
                   collectives=[collective_of(phase_of(schedule, 1000))])
    assert int(execute(plan, fold=False).finish.max()) == (1000 * (500 + 100 + 100 + 100 + 100))


def test_jobs_share_the_adder() -> None:
    """Two jobs at halves of a switch wait for its adder: they are one run, and end as every rank's run says."""
    half = collective_of(phase_of(build("sharp", CommOp.ALL_REDUCE, 4), 1000, rate=5.0))
    plan = plan_of([[collective(0, group=rank // 4)] for rank in range(8)], network(Dim(Shape.SWITCH, 8, RATE, HOP)),
                   collectives=[half], groups=[range(4), range(4, 8)])
    assert sets_of_jobs(plan, (0, 4, 8)) == [[0, 1]]
    alone = plan_of([[collective(0)]] * 4, network(Dim(Shape.SWITCH, 4, RATE, HOP)), collectives=[half])
    assert int(execute(plan).finish.max()) > 1.8 * int(execute(alone).finish.max())
