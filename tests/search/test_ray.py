"""Studies over a local Ray cluster, which the test starts: same trials, and none lost with its worker."""

from __future__ import annotations

import os
import pickle
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.search.designs import small_space
from tests.search.dying import DEATHS, makespan, slow
from tests.search.test_study import rows

from astrarium.errors import AstrariumError, InputError, PluginError, StallError, TraceError, install_line
from astrarium.search import Study, search
from astrarium.search.study import Progress
from astrarium.search.workers import RayPool

exam = pytest.mark.exam


def workers_find(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers that start later find this checkout."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root / "src"), str(root)]))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")


@pytest.fixture
def cluster(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A cluster of two CPUs whose workers find this checkout; the folder that counts deaths."""
    ray = pytest.importorskip("ray", reason="no Ray here: pip install 'astrarium[ray]'")
    marks = tmp_path / "marks"
    marks.mkdir()
    workers_find(root, monkeypatch)
    monkeypatch.setenv("ASTRARIUM_DYING", str(marks))
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield marks
    ray.shutdown()


@exam
def test_the_same_trials_though_workers_die(cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def study(name: str, **more: str) -> list[object]:
        search(small_space(), makespan, agent="genetic", trials=100, seed=1, study=tmp_path / name, **more)  # type: ignore[arg-type]
        return rows(tmp_path / name)
    there = study("ray", ray="local")
    assert len(list(cluster.iterdir())) == DEATHS
    assert [row[0] for row in there] == list(range(100))
    monkeypatch.delenv("ASTRARIUM_DYING")      # nobody dies here
    assert there == study("here")


@pytest.fixture
def two_nodes(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A cluster of a node without CPUs, to which this process belongs, and two of one each; removes one of these."""
    ray = pytest.importorskip("ray", reason="no Ray here: pip install 'astrarium[ray]'")
    from ray.cluster_utils import Cluster

    workers_find(root, monkeypatch)
    machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    lost, _ = [machines.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=machines.address, log_to_driver=False, logging_level="ERROR")
    machines.wait_for_nodes()
    yield lambda: machines.remove_node(lost, allow_graceful=False)
    assert ray.cluster_resources()["CPU"] == 1
    ray.shutdown()
    machines.shutdown()


@exam
@pytest.mark.parametrize(("agent", "options"), [("genetic", {}), ("random", {"in_flight": 4})])
def test_the_same_trials_though_a_node_dies(agent: str, options: dict[str, int], tmp_path: Path,
                                            two_nodes: Callable[[], None]) -> None:
    """A node dies while designs run on it. Trials in flight finish in another order, so their numbers differ."""
    dying = threading.Thread(target=two_nodes)

    def lose(now: Progress) -> None:
        if now.trials >= 16 and not dying.ident:
            dying.start()

    def study(name: str, **more: Any) -> list[Any]:
        search(small_space(), agent=agent, options=options, trials=96, seed=1, start=(), study=tmp_path / name, **more)
        return rows(tmp_path / name)
    there = study("there", minimize={"time": slow}, ray="auto", progress=lose)
    dying.join()
    here = study("here", minimize={"time": makespan})
    if options:
        there, here = (sorted((row[1], row[2], row[5]) for row in each) for each in (there, here))
    assert there == here


@exam
def test_no_cluster_at_an_address(root: Path) -> None:
    pytest.importorskip("ray", reason="no Ray here: pip install 'astrarium[ray]'")
    with pytest.raises(InputError, match="no cluster answers"):
        search(small_space(), "makespan", trials=1, ray="no-such-address")


class _Cluster:
    """Answers at once, and counts what is cancelled."""

    def __init__(self) -> None:
        self.cancelled = list[Any]()
        self.exceptions = SimpleNamespace(RayTaskError=_TaskError, RayError=KeyError)

    def get(self, task: Any) -> Any:
        if isinstance(task, KeyError):
            raise task
        if isinstance(task, Exception):
            raise _TaskError(task)
        return task

    def cancel(self, task: Any, force: bool) -> None:
        self.cancelled.append(task)


class _TaskError(Exception):
    def __init__(self, cause: Exception):
        self.cause = cause


@pytest.fixture
def pool() -> RayPool:
    """A pool on a cluster that is none."""
    found = RayPool.__new__(RayPool)
    found._ray = _Cluster()
    return found


@pytest.mark.parametrize(("asked", "cancelled"), [(3, []), (2, [2]), (1, [1, 2]), (0, [])])
def test_only_tasks_without_an_answer_are_cancelled(pool: RayPool, asked: int, cancelled: list[int]) -> None:
    """Whoever takes the last answer of a batch asks for no other: Ray 2.60 kills the worker of a finished task that is
    cancelled with force, with whatever it runs by then."""
    answers = pool._answers([0, 1, 2])
    assert [next(answers) for _ in range(asked)] == list(range(asked))
    answers.close()      # type: ignore[attr-defined]
    assert pool._ray.cancelled == cancelled


def test_errors_of_workers_arrive_as_they_are(pool: RayPool) -> None:
    with pytest.raises(InputError, match="there: is wrong"):
        list(pool._answers([InputError("there", "is wrong"), 1]))
    assert pool._ray.cancelled[1:] == [1]
    with pytest.raises(_TaskError):
        list(pool._answers([ValueError("a bug")]))
    with pytest.raises(InputError, match=r"no answer after 10 more tries \(KeyError\)"):
        list(pool._answers([KeyError("the node is gone")]))


@pytest.mark.parametrize("error", [
    InputError("there", "is wrong", expected="better", did_you_mean="here"), TraceError("t.0.et", "is cut", rank=1),
    StallError(["rank 0 waits"]), PluginError("network Toy", "raised")])
def test_errors_go_to_other_processes(error: AstrariumError) -> None:
    """Nearly every error has arguments that its text alone does not give back."""
    there = pickle.loads(pickle.dumps(error))
    assert (type(there), str(there), vars(there)) == (type(error), str(error), vars(error))


@exam
def test_designs_in_flight_survive_their_workers(cluster: Path, tmp_path: Path) -> None:
    """Every ask has one trial, and the stored order is replayed."""
    def study() -> Study:
        return search(small_space(), makespan, agent="genetic", options={"in_flight": 4}, trials=60, seed=1,
                      ray="local", study=tmp_path / "study")
    study()
    assert len(list(cluster.iterdir())) == DEATHS
    assert sorted(row[1] for row in rows(tmp_path / "study")) == list(range(60))
    again = study()
    assert (again.fresh, again.notes) == (0, ())


@exam
def test_batches_of_many_parts(cluster: Path, tmp_path: Path) -> None:
    """Several rounds of parts that end early (issue 35 line 12b: 4 of 6 such searches died)."""
    found = search(small_space(), "makespan", agent="genetic", trials=300, seed=3, ray="local", study=tmp_path / "s")
    assert found.trials == 300


def test_without_ray_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=re.escape(install_line("ray"))):
        search(small_space(), "makespan", trials=1, ray="local")
