"""An operation that does what no operation should."""

from __future__ import annotations

import ctypes
import os
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from msgspec import Struct

from astrarium.service.answer import Answer, Progress
from astrarium.service.context import Context
from astrarium.units import Rounded


class Probe(Struct, frozen=True):
    """`what` to do; `path`: with which file."""

    what: str
    path: str = ""


def _spin() -> None:
    while True:
        pass


def _sleep(context: Context) -> None:
    while True:
        context.tell(Progress(1, 2, "asleep"))
        time.sleep(0.05)


def probe(request: Probe, context: Context) -> Answer:
    """Try it."""
    path = request.path
    tries: Mapping[str, Callable[[], object]] = {
        "read": lambda: Path(path).read_text(), "write": lambda: Path(path).write_text("x"),
        "append": lambda: open(path, "a").close(), "create": lambda: os.open(path, os.O_CREAT),
        "list": lambda: os.listdir(path), "remove": lambda: os.remove(path), "move": lambda: os.rename("a.yaml", path),
        "link": lambda: os.symlink(path, "link.yaml"), "database": lambda: sqlite3.connect(path).execute("select 1"),
        "program": lambda: subprocess.run(["true"], check=True), "shell": lambda: os.system("true"),
        "fork": os.fork, "library": lambda: ctypes.CDLL(path), "connect": lambda: socket.create_connection((path, 80)),
        "spin": _spin, "memory": lambda: bytearray(1 << 40), "bug": lambda: {}["bug"], "crash": lambda: os._exit(1),
        "print": lambda: os.write(1, b"not a message\n"), "sleep": lambda: _sleep(context), "pid": os.getpid}
    if request.what == "odd":
        found = {"text": Rounded("1 GB", 1e9, "byte"), "number": np.float64(0.5), "odd": path or 1j}
        return Answer(title="odd", found=found)
    return Answer(title=str(tries[request.what]()))
