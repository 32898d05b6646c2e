#!/usr/bin/env python3
"""Run Python programs in processes that are forked from one that has imported the package: they start in milliseconds.

That one process is this file as a program: it reads a request per line from standard input (JSON), forks, waits, and
writes the exit code. A fork runs one program and shares nothing with the next one. It ends as an interpreter does, but
leaves taking its modules apart to the system (36 ms of 39).
"""

from __future__ import annotations

import atexit
import gc
import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

__all__ = ["Forks", "started"]

LONGEST = 600       # s
IMPORTED = (      # what many programs of the documentation import, and the doors behind which most of it lies
    "argparse", "importlib.metadata", "astrarium.cli.dispatch", "astrarium.cli.paths", "astrarium.cli.plan",
    "astrarium.cli.run", "astrarium.cli.search", "astrarium.cli.serve", "astrarium.serving",
    "astrarium.collective.algorithms.binomial_tree", "astrarium.collective.algorithms.bruck",
    "astrarium.collective.algorithms.direct", "astrarium.collective.algorithms.double_binary_tree",
    "astrarium.collective.algorithms.halving_doubling", "astrarium.collective.algorithms.ring",
    "astrarium.collective.algorithms.ring_two_way", "astrarium.compute.measured", "astrarium.compute.replay",
    "astrarium.compute.roofline", "astrarium.cost.memory", "astrarium.cost.network", "astrarium.cost.operations",
    "astrarium.cost.price", "astrarium.cost.slowdown", "astrarium.cost.times", "astrarium.lower.recorded",
    "astrarium.planner", "astrarium.report.notes.imports", "astrarium.report.tables.about",
    "astrarium.report.tables.figures", "astrarium.report.tables.interval", "astrarium.report.tables.summary",
    "astrarium.simulate", "astrarium.synthesise", "astrarium.trace.write", "astrarium.workload.schedule.one_f_one_b",
    "astrarium.workload.suite")
READ = ("devices", "networks", "models", "collectives", "stacks")      # tables of the catalog that most of them read


def started(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """`words[0]` is the interpreter; the finished process, which was started in `folder` as usual."""
    return subprocess.run(words, cwd=folder, env=_environment(), capture_output=True, text=True, timeout=LONGEST,
                          check=False)


class Forks:
    """Starts programs as `started` does, but forks them; on other systems than Linux they start as usual."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._server is not None:
            self._server.communicate()

    def __call__(self, words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
        """The finished process."""
        if sys.platform != "linux" or words[0] != sys.executable:
            return started(words, folder)
        if self._server is None:
            self._server = subprocess.Popen([sys.executable, __file__], env=_environment(), stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, text=True)
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with tempfile.TemporaryDirectory() as name:
            out, err = Path(name, "out"), Path(name, "err")
            request = {"words": [str(word) for word in words[1:]], "folder": str(folder), "out": str(out),
                       "err": str(err)}
            print(json.dumps(request), file=self._server.stdin, flush=True)
            code = int(self._server.stdout.readline())
            return subprocess.CompletedProcess(words, code, out.read_text(), err.read_text())


def _environment() -> dict[str, str]:
    """This process's, with a PYTHONPATH that holds in any folder; threads of linear algebra do not fork."""
    found = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    if found.get("PYTHONPATH"):
        found["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, found["PYTHONPATH"].split(os.pathsep)))
    return found


def _serve() -> None:
    """Run the programs of requests until there are no more."""
    for line in sys.stdin:
        fork = multiprocessing.get_context("fork").Process(target=_program, args=(json.loads(line),))
        fork.start()
        fork.join()
        print(fork.exitcode, flush=True)


def _program(request: dict[str, Any]) -> None:
    """What a fork does; it has no standard input (multiprocessing)."""
    os.chdir(request["folder"])
    for number, name in ((1, request["out"]), (2, request["err"])):
        opened = os.open(name, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    signal.alarm(LONGEST)
    try:
        _run(request["words"])
    finally:
        atexit._run_exitfuncs()


def _run(words: Sequence[str]) -> None:
    """As `python -c CODE ...` or `python FILE ...` does."""
    try:
        if words[0] == "-c":
            sys.path[0], sys.argv = "", ["-c", *words[2:]]
            sys.modules["__main__"] = main = ModuleType("__main__")
            exec(compile(words[1], "<string>", "exec"), main.__dict__)
        else:
            sys.path[0], sys.argv = str(Path(words[0]).resolve().parent), list(words)
            runpy.run_path(os.path.abspath(words[0]), run_name="__main__")
    except Exception:
        traceback.print_exc()
        sys.exit(1)


if __name__ == "__main__":
    for imported in IMPORTED:
        __import__(imported)
    for kind in READ:
        sys.modules["astrarium.catalog"].load(kind)
    gc.freeze()      # what they share is copied nowhere
    _serve()
