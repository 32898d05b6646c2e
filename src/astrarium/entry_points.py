"""Plug-ins that are there: entry points of installed packages, and Python files that the user names.

A file (`--plugin mine.py`, or ASTRARIUM_PLUGINS, paths as in PATH) says what it has in `PLUGINS`, names as those of
entry points: `PLUGINS = {"algorithm.mine": "MINE"}`, where MINE is an object of the file.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path

from astrarium.errors import InputError

__all__ = ["GROUP", "declared", "files", "plugged"]

GROUP = "astrarium.plugins"
FILES = "ASTRARIUM_PLUGINS"


def files() -> str:
    """The files of plug-ins that the user named, as in PATH."""
    return os.environ.get(FILES, "")


@contextmanager
def plugged(*paths: str) -> Iterator[None]:
    """More files of plug-ins, for this process and those that it starts."""
    before = os.environ.get(FILES)
    if paths:
        os.environ[FILES] = os.pathsep.join(filter(None, (*paths, before)))
    try:
        yield
    finally:
        if before is not None:
            os.environ[FILES] = before
        elif paths:
            os.environ.pop(FILES, None)


def declared(beside: str = "") -> Iterator[tuple[str, str, str]]:
    """(name, target, package or file) of each plug-in: those of the files `beside`, as in PATH, then entry points,
    sorted. Raises InputError for a file that cannot be loaded."""
    for path in filter(None, beside.split(os.pathsep)):
        yield from _of_file(path)
    if not _mentioned():
        return
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        yield point.name, point.value, point.dist.name if point.dist is not None else "an installed package"


def _of_file(path: str) -> Iterator[tuple[str, str, str]]:
    """The plug-ins of a file, which is imported by its name, so that other processes find it, too."""
    file = Path(path).resolve()
    if file.suffix != ".py" or not file.is_file() or not file.stem.isidentifier():
        raise InputError(path, "is no file of plug-ins", expected="a file NAME.py that exists, NAME a name of Python")
    folders = [*sys.path, *([] if str(file.parent) in sys.path else [str(file.parent)])]      # last: it hides nothing
    found = PathFinder.find_spec(file.stem, folders)
    if file.stem in sys.builtin_module_names or found is None or Path(found.origin or "").resolve() != file:
        raise InputError(path, f"{file.stem} is another module, {found.origin if found else 'built in'}",
                         expected="a file with another name")
    sys.path[:] = folders
    try:
        names = importlib.import_module(file.stem).PLUGINS
    except Exception as error:
        raise InputError(path, f"cannot be loaded ({type(error).__name__}: {error})",
                         expected='PLUGINS = {"algorithm.mine": "MINE"}') from error
    if not isinstance(names, dict) or not all(isinstance(text, str) for pair in names.items() for text in pair):
        raise InputError(path, f"PLUGINS is {str(names)[:60]}", expected='names, such as {"algorithm.mine": "MINE"}')
    for name, attribute in sorted(names.items()):
        yield name, f"{file.stem}:{attribute}", path


def _mentioned() -> bool:
    """Whether an installed package may have entry points of the group. A look at the files: to import
    `importlib.metadata` for nothing takes ten times as long."""
    folders = [Path(folder) for folder in sys.path]
    return any(folder.is_file() for folder in folders) or any(      # a file: packages in an archive
        GROUP.encode() in file.read_bytes()
        for folder in folders for file in folder.glob("*-info/entry_points.txt"))
