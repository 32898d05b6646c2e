"""The process of one job: `python -m astrarium.service.web.worker FOLDER ID`.

It reads `job.json`, writes `progress.json` as it goes and `result.json` at the end. It outlives the server.
A search goes on from its study when it is started again."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from typing import Any

from astrarium.config.whole import write_whole
from astrarium.errors import AstrariumError
from astrarium.report.pages.html import table_of
from astrarium.report.plot.colours import PALETTE
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.report.plot.quantities import quantity_of
from astrarium.report.plot.svg import svg
from astrarium.service.answer import Progress
from astrarium.service.context import Context
from astrarium.service.folder import Folder
from astrarium.service.guard import guard
from astrarium.service.web.answers.work import LIMITS, run_job

__all__ = ["main"]

EVERY = 0.3     # seconds between two notes of progress
NICE = 5        # answers of open pages come first


class _Progress:
    """Writes when the job began and how far it is, at most every `EVERY` seconds; a search has a picture of the best so
    far, a plan a table."""

    def __init__(self, folder: str):
        self.path, self._last = os.path.join(folder, "progress.json"), 0.0
        self._done, self._best, self._begun, self._said = list[float](), list[float](), time.time(), ""
        self._write("starts", None, "")

    def __call__(self, now: Progress) -> None:
        if now.best is not None and now.best.value is not None and now.done not in self._done[-1:]:
            self._done.append(now.done)
            self._best.append(now.best.value)
        if now.best is not None:
            self._said = f"{now.done:,} trials, best {now.best.name} {now.best.text}"
        if time.monotonic() < self._last + EVERY:
            return
        self._last = time.monotonic()
        picture = self._picture(now.best.name) if now.best and len(self._done) > 1 else ""
        self._write(now.text, None if not now.total else now.done / now.total,
                    picture if now.table is None else table_of(now.table, sort=False))

    def end(self, found: dict[str, Any]) -> None:
        """Say how the job ended: why it failed, or how long it took, and of a search the best."""
        took = f"took {found['seconds']:,.1f} s" if "seconds" in found else found["error"].partition("\n")[0]
        self._write(", ".join(filter(None, [self._said * ("seconds" in found), took])), None, "")

    def _write(self, text: str, share: float | None, html: str) -> None:
        _write(self.path, {"text": text, "share": share, "html": html, "begun": self._begun})

    def _picture(self, name: str) -> str:
        """The best so far after each number of trials."""
        step, quantity = max(1, len(self._done) // 200), quantity_of(name)
        columns = {"x": Column("trials", self._done[::step], "count"), "y": Column("", self._best[::step], quantity)}
        return svg(Plot("Best so far", f"The best {name} after each number of trials.",
                        (Layer("line", columns, colour=PALETTE[0], step=True),), Axis("trials", "count"),
                        Axis(f"best {name}", quantity, zero=False)))


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
        progress = _Progress(folder)
        found = _done(folder, progress)
        progress.end(found)
        _write(os.path.join(folder, "result.json"), found)
    return 1 if "error" in found else 0


def _done(folder: str, progress: _Progress) -> dict[str, Any]:
    with open(os.path.join(folder, "job.json"), encoding="utf-8") as stream:
        job = json.load(stream)
    begun = time.monotonic()
    try:
        html = run_job(job["verb"], job["asked"], Context(Folder(os.getcwd()), LIMITS, progress), folder)
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
    return {"seconds": round(time.monotonic() - begun, 2), "html": html}


def _write(path: str, value: object) -> None:
    with write_whole(path) as stream:
        stream.write(json.dumps(value).encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
