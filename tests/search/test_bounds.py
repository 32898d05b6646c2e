"""Lower bounds of workloads: below every simulation, close to some; the optimum they prove is the exhaustive one."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.draws import draws
from tests.search.designs import few_trainings, trainings

import astrarium as ar
from astrarium.bounds.wires import Wires
from astrarium.collective.estimate import lower_bound
from astrarium.errors import InputError
from astrarium.search import Space, search
from astrarium.search.bounds.archive import Archive
from astrarium.search.bounds.branches import branches_of
from astrarium.search.bounds.columns import vector
from astrarium.search.bounds.objective import SAFE
from astrarium.search.evaluate import Evaluator, Judge
from astrarium.search.goal import goal_of
from astrarium.vocab import CommOp
from astrarium.workload.mesh import mesh_of

SHAPES = {"ring": ar.Ring, "switch": ar.Switch, "fully_connected": ar.FullyConnected}


@pytest.mark.parametrize(("backend", "zero"), [
    ("closed_form", [0, 3]), pytest.param("contention", [3], marks=pytest.mark.exam)])
def test_no_run_falls_below_its_bound(backend: str, zero: list[int]) -> None:
    space, rng, close = trainings(**{"network.backend": [backend], "workload.zero": zero}), random.Random(7), 0
    goal = goal_of("makespan * network_bandwidth")
    branches, evaluator = branches_of(Judge(space, goal), None), Evaluator(space, goal)
    trees = {tuple(sorted(branch.choice.items())): branch for branch in branches.open(Archive(1))}
    seen = 0
    while seen < draws(57 if backend == "closed_form" else 29).max_examples:
        point = space.sample(rng)
        verdict = evaluator(point)
        if verdict.values is None:
            continue
        seen += 1
        branch = trees[tuple(sorted((place, point[place]) for part in branches.parts for place in part.places))]
        row = {axis.name: np.array([value]) for axis, value in zip(space.axes, space.numbers(point))}
        floor, quick = (float(np.ravel(vector(each, row))[0]) for each in (branch.tree, branch.quick))
        assert quick * SAFE <= verdict.values[0], space.values(point)
        assert floor * SAFE <= verdict.values[0], space.values(point)
        close += floor > 0.99 * verdict.values[0]
    assert close > 2 or backend == "contention"


@pytest.mark.parametrize("op", ["all_reduce", "reduce_scatter", "all_gather"])
def test_a_phase_alone_takes_its_bound(op: str) -> None:
    for shape, kind in SHAPES.items():
        for algorithm in ("ring", "direct", "halving_doubling"):
            for n in (2, 4, 8, 16):
                design = ar.Design(
                    workload=ar.SingleCollective(op, "64 MB"), memory=ar.Memory(bandwidth="50 GB/s"),
                    network=ar.Network([kind(n, bandwidth_per_npu="40 GB/s", latency="700 ns")]),
                    collective=ar.Collective(**{op: [algorithm]}, choice="none", endpoint_delay="10 ns"))
                bound = lower_bound(shape, algorithm, CommOp[op.upper()], n, n, True)
                assert bound is not None
                block = 64e6 / bound.count
                expected = 10 * bound.delays + 700 * bound.hops + block * (bound.blocks / 40 + 3 * bound.reduced / 50)
                makespan = ar.simulate(design).makespan_ps / 1000
                assert makespan == pytest.approx(expected, rel=1e-8), (shape, algorithm, n)


@pytest.mark.parametrize("dims", [1, 2])
def test_switches_that_compute_are_not_slower_than_their_bound(dims: int) -> None:
    able = ar.Switch(8, bandwidth="450 GB/s", latency="1 us", in_switch=ar.InSwitch(rate="6.4 TB/s"))
    network = ar.Network([able, ar.Switch(4, bandwidth="450 GB/s", latency="2 us")][:dims])
    base = ar.Design(workload=ar.SingleCollective("all_reduce", "1 GB"), network=network)
    judge = Judge(Space(base, {"collective.chunks": [1, 8]}), goal_of("makespan"))
    (branch,) = branches_of(judge, None).open(Archive(1))
    bound = float(np.ravel(vector(branch.tree, {"collective.chunks": np.array([8])}))[0])
    makespan = float(ar.simulate(base).makespan)
    assert 0.5 * makespan < bound < makespan
    mesh = mesh_of("megatron", tp=1, cp=1, ep=1, dp=network.npus, pp=1)
    assert bound == pytest.approx(Wires(network).bound(CommOp.ALL_REDUCE, 1e9, ("dp",), mesh))


def test_the_optimum_is_that_of_exhaustive_search() -> None:
    space = few_trainings()
    every = search(space, "runtime_x_bandwidth", agent="grid", trials=10**6)
    found = search(space, "runtime_x_bandwidth", agent="exact", trials=10**6)
    assert found.proof is not None
    assert found.proof.complete
    assert found.objectives() == every.objectives()
    assert found.distinct < every.distinct / 2


def test_what_has_no_floor_is_refused() -> None:
    space = trainings()
    for goal in ("peak_memory", "makespan - network_cost"):
        with pytest.raises(InputError):
            search(space, goal, agent="exact", trials=4)


def test_other_rule_books_and_networks_are_refused() -> None:
    base = trainings().base
    for change, says in (({"network.backend": "fluid"}, "closed_form"), ({"compat": "astra_sim"}, "rule book"),
                         ({"network.dims[0].one_way": True}, "one-way")):
        with pytest.raises(InputError, match=says):
            search(Space(ar.replace_all(base, change), {"network.dims[1].latency": ["1 us", "2 us"]}), "makespan",
                   agent="exact", trials=4)
