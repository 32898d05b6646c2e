"""Compute models, remote memory, scheduling, choice of algorithms, registration, examples."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.commands import PlugIn
from tests.plans.hand import Kind, Node, collective, delay, native_collective, plan_of

import astrarium as ar
from astrarium import registry
from astrarium.engine import HAVE_CORE, execute
from astrarium.engine.plan import Backend, Dim, Lane, NetworkPlan, Remote, RemoteKind
from astrarium.engine.plugins import ComputeNodes, DelayNetwork, PerNode, Plugins
from astrarium.engine.plugins.compute import durations_of
from astrarium.engine.plugins.exams import (
    ExamError,
    exam_choice,
    exam_compute,
    exam_memory,
    exam_scheduling,
)
from astrarium.errors import PluginError
from astrarium.vocab import CommOp

from .common import EXAMPLES, fabric

ENGINES = [pytest.param(False, marks=pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here"), id="core"),
           pytest.param(True, id="pure")]


# --- remote memory

class Queue:
    """What the engine's own pool does."""

    def __init__(self) -> None:
        self._free = 0

    def access_time(self, size: int, rank: int, now: int) -> int:
        self._free = max(now, self._free) + 700_000 + round(size / 10.0 * 1000)
        return self._free - now


def remote_plan() -> Any:
    reads = [[Node(Kind.REMOTE, size=4000 * (r + 1), lane=Lane.COPY),
              Node(Kind.REMOTE, size=64, after=(0,), lane=Lane.COPY)] for r in range(4)]
    return plan_of(reads, NetworkPlan(Backend.PORTS, fabric(4).dims), remote=Remote(RemoteKind.POOL, 700, 10.0))


@pytest.mark.parametrize("pure", ENGINES)
def test_a_memory_plug_in_that_does_as_the_pool_gives_its_integers(pure: bool) -> None:
    exam_memory(Queue)
    own = execute(remote_plan(), fold=False, record=True, pure=pure)
    plugged = execute(remote_plan(), plugins=Plugins(memory=Queue), record=True, pure=pure)
    assert plugged.end.tolist() == own.end.tolist()


@pytest.mark.parametrize("pure", ENGINES)
@pytest.mark.parametrize(("answer", "words"), [
    (-1, "time cannot go back"), (0.5, "not a whole number"), (None, "not a whole number")])
def test_a_memory_that_answers_wrongly_is_named(answer: Any, words: str, pure: bool) -> None:
    class Odd:
        def access_time(self, size: int, rank: int, now: int) -> Any:
            return answer

    with pytest.raises(PluginError, match=f"remote memory plug-in .*Odd: access_time.*{words}"):
        execute(remote_plan(), plugins=Plugins(memory=Odd), pure=pure)
    with pytest.raises(ExamError, match="access_time"):
        exam_memory(Odd)


# --- scheduling

class Last:
    """The highest id first."""

    def pick(self, rank: int, lane: int, nodes: Sequence[int], now: int) -> int:
        return len(nodes) - 1


@pytest.mark.parametrize("pure", ENGINES)
def test_a_scheduling_plug_in_orders_every_lane(pure: bool) -> None:
    exam_scheduling(Last)
    plans = [native_collective("ring", CommOp.ALL_REDUCE, 4, 1 << 12)] * 3
    ranks = [[delay(10), delay(10), delay(10), *(collective(i) for i in range(3))] for _ in range(4)]
    plan = plan_of(ranks, NetworkPlan(Backend.PORTS, fabric(4).dims), collectives=plans)
    outcome = execute(plan, plugins=Plugins(scheduling=Last), record=True, pure=pure)
    start = outcome.start[:6].tolist()
    assert start[:3] == [20, 10, 0]
    assert start[5] == 0 < start[4] < start[3]


@pytest.mark.parametrize("pure", ENGINES)
@pytest.mark.parametrize("answer", [-1, 99, "first"])
def test_a_policy_that_answers_wrongly_is_named(answer: Any, pure: bool) -> None:
    class Odd:
        def pick(self, rank: int, lane: int, nodes: Sequence[int], now: int) -> Any:
            return answer

    plan = plan_of([[delay(1), delay(1)], []], NetworkPlan(Backend.PORTS, fabric(2).dims))
    with pytest.raises(PluginError, match=r"scheduling plug-in .*Odd: pick"):
        execute(plan, plugins=Plugins(scheduling=Odd), pure=pure)
    with pytest.raises(ExamError, match="pick"):
        exam_scheduling(Odd)


# --- compute

def rows(count: int = 3) -> ComputeNodes:
    return ComputeNodes(np.full(count, 1e9), np.full(count, 8, np.int64), np.full(count, 5, np.int64),
                        [f"n{i}" for i in range(count)], np.zeros(count, np.bool_), 0)


class Fixed:
    """Gives back what it was made with."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def durations(self, nodes: ComputeNodes) -> Any:
        return self._answer


@pytest.mark.parametrize(("answer", "words"), [
    ([1, 2, 3], "a list"), (np.zeros(3), "float64"), (np.zeros(2, np.int64), r"shape \(2,\)"),
    (np.array([1, -1, 0]), "-1 ps for node 'n1'"),
])
def test_a_compute_model_that_answers_wrongly_is_named(answer: Any, words: str) -> None:
    with pytest.raises(PluginError, match=f"compute plug-in Fixed: .*{words}"):
        durations_of(Fixed(answer), rows())
    with pytest.raises(ExamError):
        exam_compute(Fixed(answer))


def test_the_exam_of_compute_models() -> None:
    exam_compute(PerNode(lambda node: int(node.num_ops) + node.tensor_bytes))
    count = iter(range(10**6))
    with pytest.raises(ExamError, match="asked again"):
        exam_compute(PerNode(lambda node: next(count)))

    class Sorted:
        def durations(self, nodes: ComputeNodes) -> Any:
            return np.arange(len(nodes))

    with pytest.raises(ExamError, match="nodes around it"):
        exam_compute(Sorted())


# --- choice of algorithms

class Trees:
    """Trees for all-reduce, and otherwise no opinion."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def algorithms(self, op: CommOp, size: int, npus: Sequence[int], dims: Sequence[Dim]) -> Sequence[str]:
        return self._names if op == CommOp.ALL_REDUCE else ()


def small(**sections: Any) -> ar.Design:
    return ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"),
                     network=ar.Network([ar.Switch(8, bandwidth="50 GB/s", latency="500 ns")]), **sections)


def test_a_choice_is_what_the_design_would_have_said() -> None:
    exam_choice(Trees("double_binary_tree"), registry.names("algorithm"))
    said = ar.simulate(small(collective=ar.Collective(all_reduce=["double_binary_tree"], choice="none"))).makespan
    assert ar.simulate(small(), plugins=Plugins(choice=Trees("double_binary_tree"))).makespan == said
    assert said != ar.simulate(small()).makespan == ar.simulate(small(), plugins=Plugins(choice=Trees())).makespan


@pytest.mark.parametrize("names", [("oak",), ("ring", "ring", "ring"), (3,)])
def test_a_choice_that_answers_wrongly_is_named(names: tuple[Any, ...]) -> None:
    with pytest.raises(PluginError, match="collective choice plug-in Trees: algorithms"):
        ar.simulate(small(), plugins=Plugins(choice=Trees(*names)))
    with pytest.raises(ExamError):
        exam_choice(Trees(*names), registry.names("algorithm"))


# --- registration

def make_delay(network: NetworkPlan, options: str) -> DelayNetwork:
    latency = int(options)
    return DelayNetwork(lambda size, src, dst, now: latency)


def make_memory(settings: ar.Remote) -> Queue:
    assert settings.kind == "banked"
    return Queue()


class Binary:
    def algorithms(self, op: CommOp, size: int, npus: Sequence[int], dims: Sequence[Dim]) -> Sequence[str]:
        return ["double_binary_tree"]


def broken() -> Binary:
    raise ValueError("no table")


@pytest.fixture
def registered(plug_in: PlugIn) -> None:
    plug_in({name: f"{__name__}:{target}" for name, target in (
        ("backend.delay", "make_delay"), ("scheduling.last", "Last"), ("remote.banked", "make_memory"),
        ("choice.trees", "Binary"), ("choice.broken", "broken"))})


def test_a_design_names_registered_plug_ins(registered: None) -> None:
    network = ar.Network([ar.Ring(4, bandwidth="50 GB/s", latency="500 ns")], backend="delay", options="1000")
    design = ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"), network=network,
                       collective=ar.Collective(all_reduce=["ring"], scheduling="last"),
                       memory=ar.Memory(remote=ar.Remote(kind="banked")))
    assert float(ar.simulate(design).makespan) == 6 * 1.0
    assert float(ar.simulate(design, pure=True).makespan) == 6 * 1.0
    slower = ar.replace(design, "network.options", "2000")
    assert float(ar.simulate(slower).makespan) == 6 * 2.0
    wrong = ar.replace(design, "network.options", "soon")
    with pytest.raises(PluginError, match="network plug-in delay: raised ValueError"):
        ar.simulate(wrong)
    with pytest.raises(ar.UnsupportedError, match="compat"):
        ar.simulate(ar.replace(design, "compat", "astra_sim"))


def test_a_design_names_who_chooses_algorithms(registered: None) -> None:
    network = ar.Network([ar.Switch(16, bandwidth="50 GB/s", latency="500 ns")])
    ring, tree, chosen = (
        ar.simulate(ar.Design(workload=ar.SingleCollective("all_reduce", "1 kB"), network=network, collective=each))
        for each in (ar.Collective(all_reduce=["ring"], choice="none"),
                     ar.Collective(all_reduce=["double_binary_tree"], choice="none"),
                     ar.Collective(all_reduce=["ring"], choice="trees")))
    assert chosen.makespan_ps == tree.makespan_ps < ring.makespan_ps
    design = ar.Design(workload=ar.SingleCollective("all_reduce", "1 kB"), network=network,
                       collective=ar.Collective(choice="broken"))
    with pytest.raises(PluginError, match="collective choice plug-in broken: raised ValueError: no table"):
        ar.simulate(design)
    with pytest.raises(ar.UnsupportedError, match=r"compat.*no plug-ins"):
        ar.simulate(ar.replace(ar.replace(design, "collective.choice", "trees"), "compat", "astra_sim"))
    with pytest.raises(ar.InputError, match=r"choice: 'tree' is not known; expected one of auto, none, .*mean 'trees'"):
        ar.Collective(choice="tree")


def test_an_unknown_back_end_is_refused() -> None:
    with pytest.raises(ar.InputError, match=r"network\.backend.*'dealy'.*did you mean|backend.*not known"):
        ar.Network([ar.Ring(4, bandwidth="50 GB/s", latency="500 ns")], backend="dealy")


# --- examples

@pytest.mark.parametrize("name", ["run_toy", "serving", "compute_table", "memory_banks", "system_policy",
                                  "climb", "line_gather"])
def test_examples_print_what_they_are_said_to(name: str, forks: Any) -> None:
    run = forks([sys.executable, f"{name}.py"], EXAMPLES)
    assert run.returncode == 0, run.stderr
    assert run.stdout == (EXAMPLES / "expected" / f"{name}.txt").read_text()
