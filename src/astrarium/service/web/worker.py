"""The process of one job: `python -m astrarium.service.web.worker FOLDER ID`.

It reads `job.json`, writes `progress.json` as it goes and `result.json` at the end. It outlives the server.
A search goes on from its study when it is started again."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from astrarium.config.whole import write_whole
from astrarium.errors import AstrariumError
from astrarium.service.guard import guard

__all__ = ["main"]

EVERY = 0.3     # seconds between two notes of progress
NICE = 5        # answers of open pages come first


class Told:
    """Writes how far the job is, at most every `EVERY` seconds."""

    def __init__(self, folder: str):
        self.folder, self._last = folder, 0.0

    def say(self, text: str, share: float | None = None, *, now: bool = False, **more: Any) -> None:
        """`share`: 0 to 1 of the work; `more`: fields for the page."""
        if not now and time.monotonic() < self._last + EVERY:
            return
        self._last = time.monotonic()
        _write(os.path.join(self.folder, "progress.json"), {"text": text, "share": share, **more})


def main(root: str, name: str) -> int:
    """Do the job; 0 where it found something."""
    folder = os.path.join("jobs", name)
    sys.dont_write_bytecode = True
    os.chdir(root)
    os.nice(NICE)
    with open(os.path.join(folder, "lock"), "a+", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return 1        # it runs already
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        guard(os.path.realpath(root))
        found = _done(folder)
        _write(os.path.join(folder, "result.json"), found)
    return 1 if "error" in found else 0


def _done(folder: str) -> dict[str, Any]:
    with open(os.path.join(folder, "job.json"), encoding="utf-8") as stream:
        job = json.load(stream)
    begun = time.monotonic()
    try:
        found = _VERBS[job["verb"]](job["asked"], folder, Told(folder))
    except AstrariumError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "not enough memory for this job"}
    except OSError as error:
        return {"error": f"{error.filename or 'a file'}: {error.strerror or error}"}
    except Exception as error:
        import traceback

        traceback.print_exc()
        return {"error": f"this is a bug of ours ({type(error).__name__}); {folder}/log.txt has more"}
    return {"seconds": round(time.monotonic() - begun, 2), **found}


def _plan(asked: dict[str, Any], folder: str, told: Told) -> dict[str, Any]:
    from astrarium.service.web.answers.plan import plan_found

    return plan_found(asked, folder, told.say)


def _search(asked: dict[str, Any], folder: str, told: Told) -> dict[str, Any]:
    from astrarium.service.web.answers.search import search_found

    return search_found(asked, folder, told.say)


def _serve(asked: dict[str, Any], folder: str, told: Told) -> dict[str, Any]:
    from astrarium.service.web.answers.serve import serve_found

    return serve_found(asked, folder, told.say)


_VERBS: Mapping[str, Callable[[dict[str, Any], str, Told], dict[str, Any]]] = MappingProxyType({
    "plan": _plan, "search": _search, "serve": _serve})


def _write(path: str, value: object) -> None:
    with write_whole(path) as stream:
        stream.write(json.dumps(value).encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
