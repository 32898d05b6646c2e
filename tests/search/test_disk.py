"""Studies on a disk that is full, and in a file of which a page is damaged: one clear error, and nothing is lost."""

from __future__ import annotations

import contextlib
import fcntl
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from tests.commands import Run, Said
from tests.search.designs import small_space
from tests.search.test_study import rows

from astrarium.errors import InputError
from astrarium.search import search
from astrarium.search.agents import agent_options
from astrarium.search.best import store_memory, stored_memory
from astrarium.search.goal import goal_of
from astrarium.search.store import Store
from astrarium.search.study import Progress, Study, conduct
from astrarium.search.studyfile import Plan, load_study
from astrarium.search.workers import Workers

TRIALS, PAGE = 192, 4096


def study(path: Path, trials: int = TRIALS, flight: int = 0) -> Study:
    return search(small_space(), "makespan", agent="random", options={"in_flight": flight}, trials=trials, seed=4,
                  start=(), study=path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "whole.study"
    study(path)
    return path


@pytest.fixture(scope="module")
def flown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with four designs in flight."""
    path = tmp_path_factory.mktemp("flown") / "flown.study"
    study(path, flight=4)
    return path


def with_setting(path: Path, setting: str, at_work: Callable[[Store, Progress], None] | None = None,
                 flight: int = 0) -> None:
    """The same study with a setting of SQLite; `at_work` is called after every batch."""
    space, goal = small_space(), goal_of("makespan")
    with Workers(space, goal) as workers, Store(str(path)) as store:
        store.data.execute(setting)
        conduct(Plan(space, goal, agent_options("random", {"in_flight": flight}), 4), TRIALS, store, workers,
                None if at_work is None else lambda now: at_work(store, now))


@pytest.mark.parametrize(("undisturbed", "flight"), [("whole", 0), pytest.param("flown", 4, marks=pytest.mark.exam)])
def test_a_full_disk_stops_a_study_that_goes_on_later(undisturbed: str, flight: int, tmp_path: Path,
                                                      request: pytest.FixtureRequest) -> None:
    path = tmp_path / "s"
    with pytest.raises(InputError, match=r"s: cannot be written \(database or disk is full\); expected more space"):
        with_setting(path, "PRAGMA max_page_count = 8", flight=flight)
    kept = len(rows(path))
    assert 0 < kept < TRIALS
    assert study(path, flight=flight).fresh == TRIALS - kept
    assert rows(path) == rows(request.getfixturevalue(undisturbed))


def test_a_locked_file_stops_a_study_that_goes_on_later(flown: Path, tmp_path: Path) -> None:
    path, before = tmp_path / "s", 64
    study(path, before, flight=4)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(InputError, match=r"s: another program has locked this file; expected that program closed"):
        with_setting(path, "PRAGMA busy_timeout = 1", flight=4)
    assert len(rows(path)) == before
    other.close()
    assert study(path, flight=4).fresh == TRIALS - before
    assert rows(path) == rows(flown)


def test_a_study_of_another_version_is_named_so(tmp_path: Path) -> None:
    path = tmp_path / "s"
    study(path, 4)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("ALTER TABLE trial DROP COLUMN bound")
    with pytest.raises(InputError, match="s: is a study of another version of Astrarium"):
        list(load_study(path).trials())


def test_a_study_whose_disk_was_full_before_its_first_trial_is_named_so(tmp_path: Path) -> None:
    path = tmp_path / "s"
    study(path, 4)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("DELETE FROM trial")
        other.execute("DELETE FROM meta")
    with pytest.raises(InputError, match=r"s: is the beginning of a study: .* expected the same search again"):
        load_study(path)


def test_a_study_in_flight_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "s"
    study(path, 24, flight=4)
    stored = rows(path)
    with Store(str(path)), pytest.raises(InputError, match="another process works on this study"):
        study(path, flight=4)
    assert rows(path) == stored


def test_a_study_that_has_ended_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "s"
    study(path, 24)
    assert len(list(load_study(path).trials())) == 24
    assert stored_memory(str(path)) == {}
    assert [each.name for each in tmp_path.iterdir()] == ["s"]


def test_a_study_in_a_folder_whose_name_means_something_in_a_uri(tmp_path: Path) -> None:
    """SQLite takes what follows ? and # for options, and %41 for A: the study was "not a study"."""
    path = tmp_path / "what?" / "50%41 #1"
    path.parent.mkdir()
    study(path, 8)
    store_memory(str(path), {b"design": 1.0})
    assert len(list(load_study(path).trials())) == 8
    assert stored_memory(str(path)) == {b"design": 1.0}
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_lock_whose_file_was_removed_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its opening and its lock, the owner before may remove the file; another process then locks a new one."""
    lock, real, seen = tmp_path / "s.lock", fcntl.flock, []

    def flock(stream: IO[bytes], how: int) -> None:
        seen.append(stream)
        if len(seen) == 1:
            lock.unlink()
        real(stream, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with Store(str(tmp_path / "s")):
        assert lock.exists()
        assert len(seen) == 2
        with pytest.raises(InputError, match="another process works on this study"), Store(str(tmp_path / "s")):
            pass
        assert lock.exists()
    assert not lock.exists()


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 128 kB; skips where mounting one is not allowed."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", folder], check=False,
                             capture_output=True) if sys.platform == "linux" else None
    if mounted is None or mounted.returncode:
        pytest.skip("no right to mount a file system of 128 kB here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


SPACE = """
base: {workload: {source: collective, op: all_reduce, payload: 1 MB},
       network: {dims: [{shape: ring, npus: 4, bandwidth: 50 GB/s, latency: 1 us}]}}
choices:
  network.dims[0].bandwidth: {from: 1 GB/s, to: 4000 GB/s, step: 1 GB/s}
minimize: makespan
agent: random
"""


@pytest.mark.parametrize("flight", [0, pytest.param(4, marks=pytest.mark.exam)])
def test_the_command_line_on_a_full_disk(flight: int, tmp_path: Path, run: Run) -> None:
    space = tmp_path / "space.yaml"
    space.write_text(SPACE)

    def command(path: Path) -> Said:
        return run("search", space, "--study", path, "--trials", "350", "--option", f"in_flight={flight}")
    with small_disk(tmp_path / "disk") as disk:
        said = command(disk / "s.study")
        assert (said.code, said.out) == (1, "")
        progress = " trials/s  "        # a line of a slow machine
        lines = [line for line in said.err.splitlines() if progress not in line]
        assert len(lines) == 1
        assert "disk is full" in said.err
        kept = rows(disk / "s.study")
        assert 0 < len(kept) < 350
        subprocess.run(["mount", "-o", "remount,size=16m", disk], check=True)
        assert command(disk / "s.study").code == 0
        found = rows(disk / "s.study")
    assert command(tmp_path / "s.study").code == 0
    assert found == rows(tmp_path / "s.study")
    assert found[:len(kept)] == kept


def pages(path: Path) -> int:
    return path.stat().st_size // PAGE


def problem(path: Path) -> str | None:
    """What a study with one trial more says, where it fails."""
    try:
        study(path, TRIALS + 1)
    except InputError as error:
        return str(error)
    return None


def test_a_damaged_page_is_repaired_and_the_study_goes_on(whole: Path, tmp_path: Path) -> None:
    """Every page of the file in turn; the first one is the database's head, without which it is none."""
    met = again = 0
    for page in range(1, pages(whole)):
        junk = b"{" if page % 2 else b"\0"
        path = tmp_path / f"{page}.study"
        data = bytearray(whole.read_bytes())
        data[page * PAGE:(page + 1) * PAGE] = junk * PAGE
        path.write_bytes(data)
        said = problem(path)
        if said is not None:
            met += 1
            assert "\n" not in said
            assert "was damaged" in said, page
            assert "the same command again" in said
            assert Path(f"{path}.damaged").read_bytes() == bytes(data)
            again += len(rows(path))
        study(path, TRIALS + 1)
        assert rows(path)[:TRIALS] == rows(whole)
    assert met > pages(whole) // 2
    assert again > 0


def test_trials_after_the_lost_ones_are_not_run_again(whole: Path, tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    from astrarium.search import subject

    path, lost = tmp_path / "s", 100
    path.write_bytes(whole.read_bytes())
    data = sqlite3.connect(path)
    for number in range(lost, lost + 7):
        data.execute("UPDATE trial SET point = '[1,' WHERE number = ?", (number,))
    data.commit()
    data.close()
    with pytest.raises(InputError, match="is damaged"):
        list(load_study(path).trials())
    with pytest.raises(InputError, match=f"{TRIALS - 7} trials can be read"):
        study(path)
    calls: list[Any] = []
    original = subject.prepare
    monkeypatch.setattr(subject, "prepare", lambda design, **rest: calls.append(design) or original(design, **rest))
    assert study(path).fresh == TRIALS - lost
    assert rows(path) == rows(whole)
    assert 0 < len(calls) <= 7


def test_trials_whose_description_is_lost_go_to_no_other_study(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    data = bytearray(whole.read_bytes())
    data[PAGE:2 * PAGE] = b"\0" * PAGE
    path.write_bytes(data)
    with pytest.raises(InputError, match="was damaged"):
        study(path)
    with pytest.raises(InputError, match="holds another study"):
        search(small_space(), "makespan", agent="random", trials=TRIALS, seed=5, study=path)
    assert study(path).fresh == 0


def test_a_first_page_that_is_damaged_is_no_study(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(b"\0" * PAGE + whole.read_bytes()[PAGE:])
    with pytest.raises(InputError, match="is not a study"):
        study(path)


def test_errors_in_the_middle_of_a_study(whole: Path, tmp_path: Path) -> None:
    """A page goes bad between two batches: trials that wait to be written are not lost either."""
    path = tmp_path / "s"

    def spoil(store: Store, now: Progress) -> None:
        if now.trials == 128:
            store.flush()
            store.data.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            store.data.execute("PRAGMA shrink_memory")
            data = bytearray(path.read_bytes())
            for page in range(3, len(data) // PAGE):
                data[page * PAGE:(page + 1) * PAGE] = b"\xff" * PAGE
            path.write_bytes(data)
    with pytest.raises(InputError, match="was damaged"):
        with_setting(path, "PRAGMA cache_size = 1", spoil)
    assert study(path).trials == TRIALS
    assert rows(path) == rows(whole)
