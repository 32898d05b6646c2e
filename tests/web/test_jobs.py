"""Jobs live longer than what started them."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.web.workbench import Visitor, folder_in, served

from astrarium.errors import InputError
from astrarium.search import search
from astrarium.search.searchfile import load_search
from astrarium.search.studyfile import load_study
from astrarium.service.web.jobs import Jobs

ASKED = {"space": "space.yaml", "agent": "random", "trials": 100_000, "seed": 1, "minimize": ["makespan"],
         "study": "JOB/search.study", "best": "JOB/best.yaml"}


def _until(true: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def _trials(path: Path) -> list[tuple[float, ...]]:
    try:
        return [tuple(each.point) for each in load_study(str(path)).trials()]
    except InputError:      # it begins just now
        return []


@pytest.mark.exam
def test_a_killed_search_goes_on_and_ends_as_if_it_had_not_been(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_in(tmp_path)
    monkeypatch.chdir(folder)
    jobs = Jobs(str(folder), 1)
    name = jobs.start("search", "space random", "astrarium search space.yaml --study JOB/search.study", ASKED)
    study = folder / "jobs" / name / "search.study"
    assert jobs.find(name).state == "running"
    with pytest.raises(InputError, match="1 jobs are running"):
        jobs.start("search", "another", "", ASKED)
    _until(lambda: _trials(study))
    pid = json.loads((folder / "jobs" / name / "pid.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    _until(lambda: jobs.find(name).state == "stopped")
    before = _trials(study)
    assert before
    file = folder / "jobs" / name / "job.json"
    told, trials = json.loads(file.read_text()), len(before) + 50
    file.write_text(json.dumps(told | {"asked": {**told["asked"], "trials": trials}}))      # so that the test ends
    jobs.resume(name)
    _until(lambda: jobs.find(name).state != "running")
    assert jobs.find(name).state == "done", jobs.result(name)
    after = _trials(study)
    assert after[:len(before)] == before
    alone = search(load_search("space.yaml").space, "makespan", agent="random", trials=trials, seed=1,
                   study="alone.study")
    assert after == _trials(folder / "alone.study")
    assert alone.best is not None
    assert (folder / "jobs" / name / "best.yaml").exists()
    assert jobs.find(name).command == f"astrarium search space.yaml --study jobs/{name}/search.study"


def test_a_job_that_is_refused_says_why(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    jobs = Jobs(str(folder), 1)
    name = jobs.start("search", "wrong", "", {**ASKED, "space": "small.yaml"})
    _until(lambda: jobs.find(name).state == "failed")
    assert "choices" in jobs.result(name)["error"] or "space" in jobs.result(name)["error"]
    assert jobs.find(name).progress["text"] == jobs.result(name)["error"].partition("\n")[0]
    for wrong in ("../x", "none", ""):
        with pytest.raises(InputError):
            jobs.find(wrong)


@pytest.mark.exam
def test_a_killed_server_loses_no_study(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    with served(folder) as server:
        visitor = Visitor(server)
        started = visitor.post("/api/jobs", {"verb": "search", "request": {"space": "space.yaml", "agent": "random",
                                                                         "trials": 100_000}})
        assert started.status == 201, started.text
        name = started.json["id"]
        study = folder / "jobs" / name / "search.study"
        _until(lambda: len(_trials(study)) > 100)
        server.end(signal.SIGKILL)
    with served(folder) as server:
        visitor = Visitor(server)

        def state() -> str:
            return str(visitor.get(f"/api/jobs/{name}").json["state"])

        assert state() == "running"     # the search never noticed
        visitor.post(f"/api/jobs/{name}/pause", {})
        _until(lambda: state() == "paused")
        time.sleep(0.5)
        paused = len(_trials(study))
        time.sleep(1)
        assert len(_trials(study)) == paused
        visitor.post(f"/api/jobs/{name}/resume", {})
        _until(lambda: len(_trials(study)) > paused)
        visitor.post(f"/api/jobs/{name}/stop", {})
        _until(lambda: state() == "stopped")
        stopped = len(_trials(study))
        assert stopped >= paused
        assert visitor.get(f"/job/{name}").text.count("Go on from the stored trials")
        visitor.post(f"/api/jobs/{name}/resume", {})
        _until(lambda: len(_trials(study)) > stopped)
        events = visitor.get(f"/api/jobs/{name}")
        assert events.json["state"] == "running"
        visitor.post(f"/api/jobs/{name}/stop", {})
        _until(lambda: state() == "stopped")
