"""Plans with the same arrays share what was found out about them; nothing that a run says depends on it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from msgspec.structs import fields, replace
from tests.plans.draw import random_plan

from astrarium import engine
from astrarium.engine import Outcome, Plan
from astrarium.engine.plan import Dim, Shape
from astrarium.errors import InternalError

pytestmark = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")


def same(one: Outcome, other: Outcome) -> bool:
    return all(np.array_equal(getattr(one, each.name), getattr(other, each.name)) for each in fields(Outcome))


def reshaped(plan: Plan, shape: Shape, slower: float) -> Plan:
    dims = tuple(Dim(shape, dim.npus, dim.bandwidth / slower, dim.latency * slower) for dim in plan.network.dims)
    return replace(plan, network=replace(plan.network, dims=dims))


def frozen(plan: Plan) -> Plan:
    """The same; nobody can write to its arrays."""
    programs = [getattr(program, each.name) for program in plan.programs for each in fields(program)]
    for array in (plan.slot_ptr, plan.slot_a, plan.slot_b, plan.slot_c, plan.npu_of, plan.program_of, *plan.groups,
                  *programs):
        array.flags.writeable = False
    return plan


def copied(plan: Plan) -> Plan:
    """Equal arrays, but other ones."""
    return replace(plan, slot_a=plan.slot_a.copy(), slot_b=plan.slot_b.copy(), npu_of=plan.npu_of.copy())


@pytest.mark.parametrize("seed", range(40))
def test_runs_on_other_networks_are_those_of_plans_that_share_nothing(seed: int) -> None:
    plan, kept = frozen(random_plan(seed)), engine.Measurements()
    for shape, slower in ((Shape.RING, 1.0), (Shape.SWITCH, 2.0), (Shape.MESH, 1.0), (Shape.RING, 3.0)):
        design = reshaped(plan, shape, slower)
        alone = engine.execute(copied(design))
        assert same(engine.execute(design, kept=kept), alone)
        assert same(engine.execute(design, kept=kept, record=True), engine.execute(copied(design), record=True))
        assert np.array_equal(alone.finish[alone.row], engine.execute(design, kept=kept, fold=False).finish)


def test_arrays_that_can_be_written_to_are_read_anew() -> None:
    plan, kept = copied(random_plan(3)), engine.Measurements()
    plan = replace(plan, programs=tuple(replace(each, duration=each.duration.copy()) for each in plan.programs))
    before = engine.execute(plan, kept=kept)
    for program in plan.programs:
        program.duration[:] += 1000
    after = engine.execute(plan, kept=kept)
    assert same(after, engine.execute(copied(plan)))
    assert after.makespan > before.makespan


def test_what_differs_is_still_checked() -> None:
    plan, kept = frozen(random_plan(5)), engine.Measurements()
    engine.execute(plan, kept=kept)
    assert plan.collectives
    for broken in (replace(plan, collectives=()), replace(plan, npus=plan.npus + 1),
                   replace(plan, programs=list(plan.programs)[:-1]),
                   replace(plan, slot_b=np.full_like(plan.slot_b, len(plan.groups) + 1))):
        with pytest.raises(InternalError):
            engine.execute(broken, kept=kept)
    assert same(engine.execute(plan, kept=kept), engine.execute(copied(plan)))


def test_threads_share() -> None:
    plans = [reshaped(frozen(random_plan(seed)), shape, slower) for seed in range(4)
             for shape in (Shape.RING, Shape.SWITCH) for slower in (1.0, 2.0, 3.0)]
    alone, kept = [engine.execute(copied(plan)) for plan in plans], engine.Measurements(1 << 16)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            found = list(pool.map(lambda plan: engine.execute(plan, kept=kept), plans))
            assert all(same(one, other) for one, other in zip(found, alone, strict=True))
