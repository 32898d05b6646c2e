"""Limits of time and memory for each design: what is over them is a trial with a reason; the rest is as without."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import pytest

import astrarium as ar
from astrarium.engine import HAVE_CORE
from astrarium.errors import InputError
from astrarium.search import Space, search
from astrarium.search.bundle import rerun, write_bundle
from astrarium.search.certificate import write_certificate
from astrarium.search.searchfile import load_search
from astrarium.search.study import Study
from astrarium.search.studyfile import load_study

LIMIT = "200 ms"      # a few ms and 0.4 s are far from it on a busy machine, too
SLOW = f"stopped at its limit of {LIMIT} of CPU time"
core = pytest.mark.skipif(not HAVE_CORE, reason="the pure-Python engine ends its design first")


def ring_space(*bandwidths: str) -> Space:
    """Two designs of a few ms, and one that takes 0.4 s of CPU time; of each as many as bandwidths."""
    base = ar.Design(
        workload=ar.SingleCollective(op="all_reduce", payload="64 MB"), fold="off",
        network=ar.Network([ar.Ring(8, bandwidth="50 GB/s", latency="1 us")], backend="contention"),
        collective=ar.Collective(all_reduce=["ring"], chunks=16))
    return Space(base, {"network.dims[0].npus": [4, 8, 256], "network.dims[0].bandwidth": bandwidths or ["50 GB/s"]})


def crowd_space() -> Space:
    """A design of a few MB, and one whose million messages take hundreds of them."""
    base = ar.Design(
        workload=ar.SingleCollective(op="all_to_all", payload="64 MB"), fold="off",
        network=ar.Network([ar.FullyConnected(8, bandwidth="50 GB/s", latency="1 us")], backend="contention"),
        collective=ar.Collective(all_to_all=["direct"], chunks=1))
    return Space(base, {"network.dims[0].npus": [8, 1024]})


CROWD = """
import sys
sys.path.insert(0, "")
from tests.search.test_limits import crowd_space, search
search(crowd_space(), "makespan", agent="grid", trials=2, limit=["20 MB", "60 s"], study={study!r}, {more})
"""


def problems(path: Path) -> dict[object, str]:
    study = load_study(path)
    return {next(iter(study.plan.space.values(trial.point).values())): trial.verdict.problem
            for trial in study.trials()}


def limited(tmp_path: Path, **more: object) -> Study:
    return search(ring_space(), "makespan", agent="grid", trials=3, limit=LIMIT, study=tmp_path / "s", **more)      # type: ignore[arg-type]


@functools.cache
def free() -> object:
    """The objectives without limits."""
    return search(ring_space(), "makespan", agent="grid", trials=3).objectives()


@core
@pytest.mark.parametrize("more", [{}, {"jobs": 2}, {"jobs": 2, "processes": True}], ids=str)
def test_slow_designs_are_trials_with_a_reason(more: dict[str, object], tmp_path: Path) -> None:
    study = limited(tmp_path, **more)
    assert problems(tmp_path / "s") == {4: "", 8: "", 256: SLOW}
    assert study.trials == 3
    assert study.objectives() == free()
    seconds = [trial.verdict.seconds for trial in load_study(tmp_path / "s").trials() if trial.verdict.problem]
    assert len(seconds) == 1
    assert limited(tmp_path).fresh == 0


@core
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
@pytest.mark.parametrize("more", ["", "jobs=2, processes=True"], ids=str)
def test_large_designs_are_trials_with_a_reason(more: str, tmp_path: Path, root: Path, forks: Any) -> None:
    # in a process of its own: memory that other tests have freed here would be used first, and not count
    done = forks([sys.executable, "-c", CROWD.format(study=str(tmp_path / "s"), more=more)], root)
    assert done.returncode == 0, done.stderr
    assert problems(tmp_path / "s") == {8: "", 1024: "stopped at its limit of 20 MB of memory"}


@core
def test_large_designs_end_without_limits(tmp_path: Path) -> None:
    search(crowd_space(), "makespan", agent="grid", trials=2, study=tmp_path / "free")
    assert problems(tmp_path / "free") == {8: "", 1024: ""}


@core
def test_trials_that_an_earlier_limit_stopped_are_counted(tmp_path: Path) -> None:
    """They stand, whatever the limit is now; the command says so."""
    assert limited(tmp_path).notes == ()
    stops = sum(trial.verdict.stopped for trial in load_study(tmp_path / "s").trials())
    again = search(ring_space(), "makespan", agent="grid", trials=3, study=tmp_path / "s")
    assert stops > 0
    assert any(note.startswith(f"{stops} stored trials were stopped at the limit of an") for note in again.notes)


def test_nothing_is_proved_about_stopped_designs(tmp_path: Path) -> None:
    space = ring_space("50 GB/s", "25 GB/s")
    study = search(space, "makespan", agent="exact", trials=6, limit=LIMIT, study=tmp_path / "s")
    assert study.proof is not None
    assert not study.proof.complete
    assert any("nothing is proved" in note for note in study.notes)
    with pytest.raises(InputError, match="no certificate"):
        write_certificate(load_study(tmp_path / "s"), str(tmp_path / "c"))


@core
def test_a_bundle_runs_again_but_for_what_was_stopped(tmp_path: Path) -> None:
    limited(tmp_path)
    write_bundle(load_study(tmp_path / "s"), str(tmp_path / "s.zip"))
    found = rerun(str(tmp_path / "s.zip"))
    assert (found.differs, found.stopped, found.trials) == (None, 1, 3)


@pytest.mark.parametrize(("limit", "says"), [
    ("10 seconds", "limit: '10 seconds' is not a limit; expected a time"), ("0 s", "is not a limit"),
    (10, "is not a limit"),
    (["1 s", "2 s"], "second limit of its kind"), (["10"], "is not a limit")])
def test_limits_that_are_none(limit: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        search(ring_space(), "makespan", limit=[limit] if isinstance(limit, int) else limit)


def test_threads_share_their_memory() -> None:
    with pytest.raises(InputError, match=r"threads share their memory.*--processes"):
        search(ring_space(), "makespan", limit="1 GB", jobs=2)


def test_limits_stand_in_search_files(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("""
base: {workload: {source: collective, op: all_reduce, payload: 1 MB},
       network: {dims: [{shape: ring, npus: 4, bandwidth: 50 GB/s, latency: 1 us}]}}
choices: {collective.chunks: [1, 2]}
limit: [10 s, 8 GB]
""")
    found = load_search(path).limit
    assert (found.seconds, found.memory) == (10, 8e9)
    path.write_text(path.read_text().replace("10 s", "10 x"))
    with pytest.raises(InputError, match=r"s.yaml:5: limit: '10 x' is not a limit"):
        load_search(path)
