"""Long work: a process of its own, which lives in a folder `jobs/ID` and needs neither browser nor server.

The process holds a lock on `jobs/ID/lock` for as long as it lives, so that any server, also one that starts later,
sees whether it does. A search stores its trials in `jobs/ID/search.study` as it makes them: whatever is killed, the
job goes on where it was.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from astrarium.errors import InputError

__all__ = ["INSIDE", "Job", "Jobs"]

FILES = ("study", "best", "save")     # fields of `asked` that name files of the job
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,79}")
SHOWN = 100     # jobs in a list
INSIDE = ("job.json", "lock", "pid.json", "progress.json", "result.json", "log.txt")     # files that nobody opens


class Job(Struct, frozen=True):
    """A job: `asked` is what it does, `state` one of running, paused, done, failed, stopped; `progress` its last
    message."""

    id: str
    verb: str
    title: str
    command: str
    asked: dict[str, Any]
    state: str
    progress: dict[str, Any]


class Jobs:
    """The jobs of a folder; at most `most` run at a time."""

    def __init__(self, root: str, most: int):
        self.root, self.most = root, most

    def start(self, verb: str, title: str, command: str, asked: dict[str, Any]) -> str:
        """Write the job down and start its process; its id. Raises InputError where enough run already. `command` and
        the names of files in `asked` have `JOB` for its folder."""
        self._room()
        slug = re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-.")[:60] or "job"
        name = f"{verb}-{slug}-{secrets.token_hex(2)}"
        os.makedirs(self._at(name))
        asked = {key: value.replace("JOB/", f"jobs/{name}/") if key in FILES else value for key, value in asked.items()}
        told = {"verb": verb, "title": title, "command": command.replace("JOB/", f"jobs/{name}/"), "asked": asked}
        self._write(name, "job.json", told)
        self._spawn(name)
        return name

    def find(self, name: str) -> Job:
        """A job by its id. Raises InputError where there is none."""
        told = self._read(name, "job.json") if NAME.fullmatch(name) else None
        if told is None:
            raise InputError("job", f"there is no job {name[:80]!r}", expected="one of the list of jobs")
        return Job(name, told["verb"], told["title"], told["command"], told["asked"], self._state(name),
                   self._read(name, "progress.json") or {})

    def all(self) -> list[Job]:
        """The newest jobs, newest first."""
        folder = os.path.join(self.root, "jobs")
        names = [each for each in (os.listdir(folder) if os.path.isdir(folder) else ()) if NAME.fullmatch(each)
                 and os.path.isfile(os.path.join(folder, each, "job.json"))]
        names.sort(key=lambda each: -os.stat(os.path.join(folder, each, "job.json")).st_mtime)
        return [self.find(each) for each in names[:SHOWN]]

    def result(self, name: str) -> dict[str, Any]:
        """What a job found; empty while there is nothing."""
        self.find(name)
        return self._read(name, "result.json") or {}

    def pause(self, name: str) -> None:
        """Halt the process where it is."""
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let a paused process go on; start a stopped job again, a search where its study ends. Raises InputError."""
        state = self.find(name).state
        if state == "paused":
            self._signal(name, signal.SIGCONT)
        elif state in ("stopped", "failed"):
            self._room()
            with contextlib.suppress(FileNotFoundError):
                os.remove(self._at(name, "result.json"))
            self._spawn(name)

    def stop(self, name: str) -> None:
        """End the process; what it found so far stays."""
        self._signal(name, signal.SIGTERM)
        self._signal(name, signal.SIGCONT)

    def _room(self) -> None:
        running = [job for job in self.all() if job.state == "running"]
        if len(running) >= self.most:
            raise InputError("jobs", f"{len(running)} jobs are running, which is as many as this server runs at a time",
                             expected="a job that is paused or stopped: " + ", ".join(each.id for each in running))

    def _spawn(self, name: str) -> None:
        here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._write(name, "progress.json", {"text": "starts"})
        with open(self._at(name, "log.txt"), "ab") as log:
            child = subprocess.Popen([sys.executable, "-m", "astrarium.service.web.worker", self.root, name],
                                     stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                     env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"})
        self._write(name, "pid.json", {"pid": child.pid})
        _reap(child)

    def _state(self, name: str) -> str:
        with self._pid(name) as pid:
            if pid:
                return "paused" if _halted(pid) else "running"
        result = self._read(name, "result.json")
        if result is None:
            return "stopped"
        return "failed" if "error" in result else "done"

    def _signal(self, name: str, number: signal.Signals) -> None:
        self.find(name)
        with self._pid(name) as pid:
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    @contextlib.contextmanager
    def _pid(self, name: str) -> Iterator[int]:
        """The number of the job's process; 0 where none lives. One that only starts has no lock yet, and counts."""
        try:
            handle = open(self._at(name, "lock"), "rb")     # noqa: SIM115
        except FileNotFoundError:
            yield self._starting(name)
            return
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                text = handle.read(32).decode("ascii", "replace").strip()
                yield int(text) if text.isdecimal() else 0
                return
            fcntl.flock(handle, fcntl.LOCK_UN)
        yield self._starting(name)

    def _starting(self, name: str) -> int:
        """The process that was started, until it has the lock: one of this user that runs our worker of this job."""
        pid = int((self._read(name, "pid.json") or {}).get("pid", 0))
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as stream:
                words = stream.read().split(b"\0")
        except OSError:
            return 0
        return pid if b"astrarium.service.web.worker" in words and name.encode() in words else 0

    def _at(self, name: str, *parts: str) -> str:
        return os.path.join(self.root, "jobs", name, *parts)

    def _read(self, name: str, file: str) -> dict[str, Any] | None:
        try:
            with open(self._at(name, file), encoding="utf-8") as stream:
                found = json.load(stream)
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def _write(self, name: str, file: str, value: object) -> None:
        path = self._at(name, file)
        with open(f"{path}.new", "w", encoding="utf-8") as stream:
            json.dump(value, stream)
        os.replace(f"{path}.new", path)


def _halted(pid: int) -> bool:
    """Whether a process is stopped by a signal."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stream:
            return stream.read().rpartition(")")[2].split()[0] in ("T", "t")
    except OSError:
        return False


def _reap(child: subprocess.Popen[bytes]) -> None:
    """Wait for the process in a thread, so that its end leaves no zombie."""
    import threading

    threading.Thread(target=child.wait, daemon=True).start()
