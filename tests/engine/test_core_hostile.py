"""Hostile plans: whatever stands in a Plan's arrays, the core answers or refuses. It never crashes and never hangs."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plans.draw import random_plan
from tests.plans.hand import (
    astra_ring,
    collective,
    delay,
    native_collective,
    plan_of,
    program,
    recv,
    send,
)

from astrarium import engine
from astrarium.collective.algorithms import Options, build
from astrarium.engine.plan import (
    Algorithm,
    Backend,
    Chunk,
    CollectivePlan,
    CustomProgram,
    Dim,
    Kind,
    NetworkPlan,
    Order,
    Phase,
    Plan,
    Policy,
    Remote,
    RemoteKind,
    Shape,
)
from astrarium.errors import AstrariumError, InternalError, UnsupportedError
from astrarium.vocab import CommOp, PeerMode, Schedule

pytestmark = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")

SEEDS = st.integers(0, 2**32 - 1)
NUMBERS = [-(2**31), -1, 0, 1, 2, 3, 5, 7, 64, 32767, 32768, 2**31 - 1]
WIDE = [*NUMBERS, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63)]
REALS = [0.0, -1.0, 1e-300, 1.0, 1e9, 1e300, float("inf"), float("nan")]
# What a run may allocate or take time for, rather than an index: these stay small.
BOUNDED = {"repeat": [-1, 0, 1, 2, 3], "npus": NUMBERS[:8], "active_chunks": NUMBERS, "queues_per_dim": NUMBERS[:9]}
WRONG = [None, "x", (), 1.5, np.zeros(3), np.zeros((2, 2), np.int32), np.arange(8, dtype=np.int32)[::2]]
LINE = NetworkPlan("contention", (Dim(Shape.RING, 4, 10.0, 5.0),))
TREE = build("double_binary_tree", CommOp.ALL_REDUCE, 4, Options())
RING = build("ring", CommOp.ALL_REDUCE, 4, Options())
CUBE = build("halving_doubling", CommOp.ALL_REDUCE, 4, Options())


def answers(plan: Plan, **how: bool) -> type[AstrariumError] | None:
    """The class of the refusal, or None; anything else that is raised fails the test."""
    try:
        engine.execute(plan, **how)
    except AstrariumError as error:
        return type(error)
    return None


# --- corrupted copies


def corrupt(rng: random.Random, value: Any, name: str = "") -> Any:
    """A copy of a plan or a part of it with one thing broken: an element, a length, a type, a field."""
    if rng.random() < 0.01 and name not in ("network", "backend"):    # Python itself reads these two
        return rng.choice(WRONG)
    if isinstance(value, np.ndarray):
        return _corrupt_array(rng, value)
    if isinstance(value, tuple) and value:
        at = rng.randrange(len(value))
        changed = (corrupt(rng, value[at], name),)
        return rng.choice([value[:at] + changed + value[at + 1:]] * 8 + [value[:at], value + value[-1:], ()])
    if isinstance(value, msgspec.Struct):
        field = rng.choice(value.__struct_fields__)
        return msgspec.structs.replace(value, **{field: corrupt(rng, getattr(value, field), field)})
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return rng.choice(REALS)
    if isinstance(value, int):
        return rng.choice(BOUNDED.get(name) or WIDE)
    return value


def _corrupt_array(rng: random.Random, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    kind = rng.randrange(12)
    if kind == 0:
        return array[:-1]
    if kind == 1:
        return np.append(array, array[-1:] if array.size else np.zeros(1, array.dtype)).astype(array.dtype)
    if kind == 2:
        with np.errstate(invalid="ignore"):
            return array.astype(rng.choice([np.float64, np.int64, np.int32, np.uint8]))
    if kind == 3:
        return np.repeat(array, 2)[::2]     # not contiguous
    if array.size == 0:
        return array
    out, at = array.copy(), rng.randrange(array.size)
    flat = out.reshape(-1)
    if kind == 4:
        flat[at], flat[-1 - at] = flat[-1 - at], flat[at]
    elif array.dtype.kind in "bf":
        flat[at] = not flat[at]
    else:
        limits = np.iinfo(array.dtype)
        near = [int(flat[at]) + step for step in (-1, 1, 1, 2)]
        flat[at] = np.clip(rng.choice(near * 4 + WIDE), limits.min, limits.max)
    return out


def reachable(plan: Plan) -> bool:
    """Whether the plan asks for no more memory than a test may take."""
    try:
        return plan.npus <= 2**20 and all(dim.npus <= 4096 for dim in plan.network.dims)
    except (AttributeError, TypeError, ValueError):
        return True


@given(SEEDS, st.integers(1, 3), st.booleans(), st.booleans(), st.booleans())
def test_corrupted_plans(seed: int, times: int, compat: bool, fold: bool, record: bool) -> None:
    rng, plan = random.Random(seed), random_plan(seed, compat, ends=False)
    for _ in range(times):
        plan = corrupt(rng, plan)
        if not isinstance(plan, Plan):
            return
    if reachable(plan):
        answers(plan, fold=fold, record=record)


@given(SEEDS, st.sampled_from(["double_binary_tree", "ring", "direct", "halving_doubling"]), st.integers(2, 6),
       st.booleans())
def test_corrupted_schedules(seed: int, algorithm: str, n: int, fold: bool) -> None:
    rng = random.Random(seed)
    schedule: Schedule = build(algorithm, CommOp.ALL_REDUCE, n, Options())
    for _ in range(rng.randint(1, 2)):
        schedule = corrupt(rng, schedule)
    answers(run_of(schedule, n), fold=fold)


@given(SEEDS, st.booleans(), st.sampled_from([Order.CANONICAL, Order.ASTRA_SIM]))
def test_corrupted_custom_collectives(seed: int, fold: bool, order: Order) -> None:
    rng, plan = random.Random(seed), custom_plan(order)
    for _ in range(rng.randint(1, 3)):
        custom = corrupt(rng, plan.collectives[0].custom)
        plan = msgspec.structs.replace(plan, collectives=(msgspec.structs.replace(plan.collectives[0], custom=custom),))
        if not isinstance(custom, CustomProgram):
            break
    answers(plan, fold=fold)


def run_of(schedule: Schedule | None, n: int, **phase: Any) -> Plan:
    """`n` ranks that run one schedule once, on NPUs of which one is left over."""
    made = native_collective("ring", CommOp.ALL_REDUCE, n, 4096, dim=-1)
    (chunk,) = made.chunks
    changed = msgspec.structs.replace(chunk.phases[0], **{"schedule": schedule, **phase})
    network = NetworkPlan(Backend.PORTS, (Dim(Shape.SWITCH, n + 1, 10.0, 5.0),))
    plan = CollectivePlan(made.op, made.size, (msgspec.structs.replace(chunk, phases=(changed,)),))
    return plan_of([[collective(0)] for _ in range(n)], network, collectives=[plan])


def custom_plan(order: Order = Order.CANONICAL, **fields: Any) -> Plan:
    """Four ranks that pass a message round in a custom collective."""
    parts = [program([send(0, 100), recv(0, 100), delay(5, 0, 1)]) for _ in range(4)]
    custom = CustomProgram(tuple(parts), np.arange(4, dtype=np.int32),
                           tuple(np.array([(p + 1) % 4, (p - 1) % 4], np.int32) for p in range(4)),
                           tuple(np.zeros(2, np.int32) for _ in range(4)),
                           (np.arange(2, dtype=np.int32),) * 4 if order == Order.ASTRA_SIM else ())
    plan = CollectivePlan(CommOp.ALL_REDUCE, 400, (), custom=msgspec.structs.replace(custom, **fields))
    network = LINE if order == Order.CANONICAL else NetworkPlan(Backend.LINKS, LINE.dims, whole_ns=True)
    return plan_of([[collective(0)] for _ in range(4)], network, collectives=[plan], policy=Policy(order=order))


def test_the_plans_that_are_corrupted_run() -> None:
    assert answers(custom_plan()) is None
    assert answers(custom_plan(Order.ASTRA_SIM)) is None
    for schedule in (TREE, RING, CUBE):
        assert answers(run_of(schedule, 4)) is None


# --- one refusal each


def changed(schedule: Schedule, **arrays: list[int]) -> Schedule:
    """`schedule` with some arrays replaced."""
    return msgspec.structs.replace(schedule, **{name: np.array(values, np.int32) for name, values in arrays.items()})


def with_element(schedule: Schedule, name: str, at: int, value: int) -> Schedule:
    array = getattr(schedule, name).copy()
    array[at] = value
    return msgspec.structs.replace(schedule, **{name: array})


SCHEDULES = {
    "peer beyond n": lambda: with_element(TREE, "send_peer", 0, 4),
    "negative peer": lambda: with_element(RING, "send_peer", 0, -1),
    "peer is itself": lambda: with_element(RING, "send_peer", 0, 0),
    "receive from elsewhere": lambda: with_element(TREE, "recv_peer", 0, (int(TREE.recv_peer[0]) + 1) % 4),
    "match beyond the receives": lambda: with_element(RING, "send_match", 0, RING.recv_peer.size),
    "two sends for one receive": lambda: with_element(RING, "send_match", 0, int(RING.send_match[1])),
    "needs beyond the receives": lambda: with_element(RING, "send_needs", 0, RING.recv_peer.size + 1),
    "negative needs": lambda: with_element(RING, "send_needs", 0, -1),
    "send_ptr descends": lambda: with_element(TREE, "send_ptr", 1, int(TREE.send_ptr[2]) + 1),
    "recv_ptr too far": lambda: with_element(TREE, "recv_ptr", -1, TREE.recv_peer.size + 1),
    "blocks descend": lambda: with_element(RING, "send_block_ptr", 1, 1 << 20),
    "program beyond the programs": lambda: with_element(TREE, "program", 3, TREE.send_ptr.size - 1),
    "negative program": lambda: with_element(TREE, "program", 0, -1),
    "xor without a power of two": lambda: msgspec.structs.replace(CUBE, n=3, program=CUBE.program[:3]),
    "fewer reduces than receives": lambda: msgspec.structs.replace(RING, recv_reduce=RING.recv_reduce[:-1]),
    "a mode that does not exist": lambda: msgspec.structs.replace(RING, peer_mode=7),
}


@pytest.mark.parametrize("what", SCHEDULES)
def test_broken_schedules_are_refused(what: str) -> None:
    schedule = SCHEDULES[what]()
    assert answers(run_of(schedule, schedule.n)) is InternalError


@pytest.mark.parametrize("n", [5, 6])
def test_sends_in_any_order_of_needs_fold(n: int) -> None:
    """Needs that do not ascend within a program are legal; folding must not mind."""
    schedule = build("direct", CommOp.ALL_REDUCE, n, Options())
    odd = with_element(schedule, "send_needs", -2, 1)
    every, folded = (engine.execute(run_of(odd, n), fold=fold) for fold in (False, True))
    assert folded.folded
    np.testing.assert_array_equal(folded.finish[folded.row], every.finish)


def test_the_schedules_cover_every_peer_mode() -> None:
    assert {RING.peer_mode, CUBE.peer_mode, TREE.peer_mode} == set(PeerMode)


PAIR = [[send(1, 8)], [recv(0, 8)], [], []]


def base(**fields: Any) -> Plan:
    return msgspec.structs.replace(plan_of(PAIR, LINE), **fields)


def sharing(sizes: list[int], slots: list[int]) -> Plan:
    """Two sends of one rank with these bytes and slots."""
    plan = plan_of([[send(1, size) for size in sizes], [recv(0, size) for size in sizes], [], []], LINE)
    first = msgspec.structs.replace(plan.programs[0], slot=np.array(slots, np.int32))
    return msgspec.structs.replace(plan, programs=(first, *plan.programs[1:]))


def turning(*lists: list[Any], more: Chunk | None = None, **fields: Any) -> Plan:
    """Two chunks of three phases with these turns."""
    ring = Phase(0, CommOp.ALL_REDUCE, Algorithm.SCHEDULE, 8, 4, 1, schedule=RING, block_size=2)
    kind = type(lists[0][0])
    turns = tuple(np.array(visits, np.int32 if kind is int else np.float64) for visits in lists)
    chunks = (Chunk(2, (ring,) * 3), *([more] if more else []))
    return base(collectives=(CollectivePlan(CommOp.ALL_REDUCE, 8, chunks, turns=turns),), **fields)


def lane(**fields: Any) -> Plan:
    """A plan of one program whose columns are replaced."""
    plan = plan_of([[delay(5), delay(5, 0)]], LINE)
    columns = {name: np.array(values, getattr(plan.programs[0], name).dtype) for name, values in fields.items()}
    return msgspec.structs.replace(plan, programs=(msgspec.structs.replace(plan.programs[0], **columns),))


PLANS = {
    "two ranks on one NPU": lambda: base(npu_of=np.array([0, 0, 1, 2], np.int32)),
    "an NPU beyond the network": lambda: base(npu_of=np.array([0, 1, 2, 4], np.int32)),
    "a program that does not exist": lambda: base(program_of=np.array([0, 1, 2, 4], np.int32)),
    "slots of another program": lambda: base(slot_ptr=np.array([0, 2, 2, 2, 2], np.int64)),
    "slots that descend": lambda: base(slot_ptr=np.array([0, 3, 1, 2, 2], np.int64)),
    "slots that nodes of two sizes share": lambda: sharing([3, 4], [0, 0]),
    "a slot that no node uses": lambda: sharing([3, 3], [0, 2]),
    "a slot beyond the nodes": lambda: sharing([3, 3], [0, 2**31 - 1]),
    "no slot": lambda: sharing([3, 3], [0, -1]),
    "a negative tag": lambda: base(slot_b=np.array([-1, -1], np.int32)),
    "a negative peer": lambda: base(slot_a=np.array([-1, 0], np.int32)),
    "int64 where int32 belongs": lambda: base(slot_a=np.array([1, 0], np.int64)),
    "an array that is not contiguous": lambda: base(slot_a=np.array([1, 9, 0, 9], np.int32)[::2]),
    "no array": lambda: base(slot_a=None),
    "no programs": lambda: base(programs=None),
    "a rank twice in a group": lambda: base(groups=(np.array([1, 0, 1], np.int32),)),
    "a visit twice": lambda: turning([0, 1, 2, 3, 5], [4, 5]),
    "a visit left out": lambda: turning([0, 1, 2, 3], [4]),
    "a visit of no chunk": lambda: turning([0, 1, 2, 3], [4, 6]),
    "a visit before the first": lambda: turning([0, 1, 2, 3], [4, -1]),
    "turns of chunks that differ in phases": lambda: turning([0, 1, 2, 3], [4, 5], more=Chunk(0, ())),
    "turns that are no array of int32": lambda: turning([0.0, 1.0, 2.0, 3.0], [4.0, 5.0]),
    "a group with a stranger": lambda: base(groups=(np.array([0, 4], np.int32),)),
    "npus are not the dims": lambda: base(npus=5),
    "dims overflow": lambda: base(network=NetworkPlan(Backend.PORTS, (Dim(Shape.SWITCH, 2**31 - 1, 1.0, 0.0),) * 3)),
    "a hypercube of three": lambda: base(npus=3, network=NetworkPlan("contention",
                                                                     (Dim(Shape.HYPERCUBE, 3, 1.0, 0.0),))),
    "no bandwidth": lambda: base(network=NetworkPlan("contention", (Dim(Shape.RING, 4, float("nan"), 0.0),))),
    "a back end of the other rule book": lambda: base(network=NetworkPlan(Backend.UNSHARED, LINE.dims)),
    "a shape that does not exist": lambda: base(network=NetworkPlan("contention", (Dim(9, 4, 1.0, 0.0),))),  # type: ignore[arg-type]
    "nodes of no rank's": lambda: base(remote=Remote(RemoteKind.PER_NODE, 1, 1.0, 0)),
    "a lane too few": lambda: base(lanes=(1, 1, 1, 1)),
    "native figures in whole ns": lambda: base(network=NetworkPlan("contention", LINE.dims, whole_ns=True)),
    "a lane without room": lambda: base(lanes=(1, 0, 1, 1, 1)),
    "a shared bus that goes back in time": lambda: base(policy=Policy(shared_bus=(-1.0, 0.0, 0.0, 0.0, 1))),
    "a child beyond the nodes": lambda: lane(child=[2]),
    "a negative child": lambda: lane(child=[-1]),
    "child_ptr too far": lambda: lane(child_ptr=[0, 1, 2]),
    "child_ptr too short": lambda: lane(child_ptr=[0, 1]),
    "a kind that does not exist": lambda: lane(kind=[6, 0]),
    "a lane that does not exist": lambda: lane(lane=[5, 0]),
    "a negative duration": lambda: lane(duration=[-1, 0]),
    "negative parents": lambda: lane(parents=[-1, 1]),
    "a parent too many": lambda: lane(parents=[0, 2]),
    "an edge twice": lambda: lane(child=[1, 1], child_ptr=[0, 2, 2]),
    "a group below all ranks": lambda: msgspec.structs.replace(run_of(RING, 4), slot_b=np.full(4, -2, np.int32)),
    "ASTRA-sim in fractions of ns": lambda: msgspec.structs.replace(custom_plan(Order.ASTRA_SIM), network=NetworkPlan(
        Backend.LINKS, LINE.dims, whole_ns=False)),
    "a phase wider than its group": lambda: run_of(RING, 4, stride=2),
    "a schedule of another size": lambda: run_of(RING, 8),
    "stride 0": lambda: run_of(RING, 4, stride=0),
    "no schedule": lambda: run_of(None, 4),
    "ASTRA-sim's machine in the native rule book": lambda: run_of(None, 4, algorithm=Algorithm.RING),
    "negative blocks": lambda: run_of(RING, 4, block_size=-1),
    "custom peers beyond the group": lambda: custom_plan(slot_peer=(np.array([1, 4], np.int32),) * 4),
    "custom messages to oneself": lambda: custom_plan(slot_peer=(np.array([0, 3], np.int32),) * 4),
    "negative custom tags": lambda: custom_plan(slot_tag=(np.array([-1, -1], np.int32),) * 4),
    "too few custom slots": lambda: custom_plan(slot_peer=(np.array([1], np.int32),) * 4,
                                                slot_tag=(np.array([0], np.int32),) * 4),
    "custom roots natively": lambda: custom_plan(roots=(np.arange(2, dtype=np.int32),) * 4),
    "no custom roots under ASTRA-sim's order": lambda: custom_plan(Order.ASTRA_SIM, roots=()),
    "a custom root that waits": lambda: custom_plan(Order.ASTRA_SIM, roots=(np.array([0, 2], np.int32),) * 4),
    "a custom root twice": lambda: custom_plan(Order.ASTRA_SIM, roots=(np.array([0, 0], np.int32),) * 4),
    "too few custom roots": lambda: custom_plan(Order.ASTRA_SIM, roots=(np.array([1], np.int32),) * 4),
    "custom programs for fewer ranks": lambda: custom_plan(program_of=np.arange(3, dtype=np.int32)),
    "a custom program that does not exist": lambda: custom_plan(program_of=np.array([0, 1, 2, 4], np.int32)),
}


@pytest.mark.parametrize("what", PLANS)
@pytest.mark.parametrize("how", [{"fold": True}, {"fold": False}], ids=str)
def test_broken_plans_are_refused(what: str, how: dict[str, bool]) -> None:
    assert answers(PLANS[what](), **how) is InternalError


def test_figures_that_no_clock_holds_are_unsupported() -> None:
    huge = plan_of([[send(1, 2**62)], [recv(0, 2**62)], [], []], LINE)
    assert answers(huge) is UnsupportedError
    assert answers(run_of(RING, 4, block_size=2**60)) is UnsupportedError
    assert answers(plan_of([[delay(2**62), delay(2**62, 0)]], LINE)) is UnsupportedError


@pytest.mark.parametrize("size", [0, 1, 8])
def test_a_bus_that_is_slower_than_its_overhead(size: int) -> None:
    """G > o and messages of no bytes: o + G * (bytes - 1) would be in the past."""
    plan = plan_of([[collective(0)]] * 8, NetworkPlan(Backend.UNSHARED, (Dim(Shape.RING, 8, 50.0, 500.0),), True),
                   policy=Policy(order=Order.ASTRA_SIM, shared_bus=(0.0, 5.0, 0.0, 10.0, 1)),
                   collectives=[astra_ring(CommOp.ALL_REDUCE, 8, size)])
    assert (engine.execute(plan, fold=False).finish > 0).all()


def test_cycles_stall() -> None:
    with pytest.raises(AstrariumError, match=r"rank 0: .*2 nodes unfinished"):
        engine.execute(lane(parents=[1, 1], child_ptr=[0, 1, 2], child=[1, 0]))


def test_kinds_that_need_no_slot_may_have_any() -> None:
    assert answers(lane(slot=[2**31 - 1, -5])) is None
    assert {Kind.SKIP, Kind.DELAY} & set(Kind)
