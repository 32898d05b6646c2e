"""Keeps a worker's process inside the folder, whatever a design names: an audit hook of Python (PEP 578).

Every file that Python opens passes it, so a field that reads a file needs no rule of its own. It refuses files outside
the folder (of Python and of this package reading is allowed), programs, shared libraries, and sockets. A client's data
is never run as code, so nothing can take the hook away again.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any
from urllib.parse import unquote

from astrarium.errors import InputError

__all__ = ["guard"]

REFUSED = {"subprocess.Popen": "start a program", "os.system": "start a program", "os.exec": "start a program",
           "os.posix_spawn": "start a program", "os.spawn": "start a program", "os.fork": "start a program",
           "os.forkpty": "start a program", "pty.spawn": "start a program", "os.startfile": "start a program",
           "socket.connect": "connect to a server", "socket.bind": "open a port",
           "socket.getaddrinfo": "connect to a server", "urllib.Request": "connect to a server"}
CHANGED = frozenset({"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "os.chown", "os.link",
                     "os.symlink", "os.utime", "shutil.move", "shutil.rmtree", "shutil.copyfile", "os.chdir"})
LISTED = frozenset({"os.scandir", "os.listdir"})
DEVICES = frozenset({"/dev/null", "/dev/urandom", "/proc/self/statm"})
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
WHERE = "a file in the folder"


def guard(root: str) -> None:
    """Guard this process from here on: it writes below `root`, and reads there and where Python's modules are."""
    readable = _modules()

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = given
            writes = bool((flags or 0) & WRITES) or any(letter in (mode or "") for letter in "wax+")
            _check(path, (root,) if writes else (root, *readable))
        elif event in LISTED:
            _check(given[0] if given[0] is not None else ".", (root, *readable))
        elif event in CHANGED:
            for path in given:
                if isinstance(path, (str, bytes)) or hasattr(path, "__fspath__"):
                    _check(path, (root,))
        elif event == "sqlite3.connect":
            _check(_database(given[0]), (root,))
        elif event == "ctypes.dlopen":
            if given[0] is not None and not _within(os.path.realpath(os.fsdecode(given[0])), readable):
                raise InputError("", "this would load a shared library", expected="a design that needs none")
        elif event in REFUSED:
            raise InputError("", f"this would {REFUSED[event]}", expected="a design that needs none")

    sys.addaudithook(hook)


def _modules() -> tuple[str, ...]:
    """Folders of Python, of installed packages and of this one."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = {os.path.realpath(path) for path in (package, sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(),
                                                 *sys.path) if path}
    return tuple(path for path in found if path != os.sep)


def _database(path: Any) -> Any:
    """The file of a database, which may be a URI; an empty name for one in memory."""
    text = os.fsdecode(path)
    if text in (":memory:", ""):
        return -1
    return unquote(text[5:].partition("?")[0]) if text.startswith("file:") else text


def _check(path: Any, allowed: tuple[str, ...]) -> None:
    """InputError for a file outside the folders `allowed`; a descriptor that is open already passes."""
    if isinstance(path, int):
        return
    name = os.fsdecode(path)
    real = os.path.realpath(name)
    if real not in DEVICES and not _within(real, allowed):
        raise InputError(name, "is outside the folder", expected=WHERE)


def _within(real: str, folders: tuple[str, ...]) -> bool:
    return any(real == each or real.startswith(each + os.sep) for each in folders)
