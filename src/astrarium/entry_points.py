"""Entry points that installed packages declare for Astrarium: the names and targets of their plug-ins."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["GROUP", "declared"]

GROUP = "astrarium.plugins"


def declared() -> Iterator[tuple[str, str, str]]:
    """(name, target, package) of each entry point of the group, sorted."""
    if not _mentioned():
        return
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        yield point.name, point.value, point.dist.name if point.dist is not None else "an installed package"


def _mentioned() -> bool:
    """Whether an installed package may have entry points of the group. A look at the files: to import
    `importlib.metadata` for nothing takes ten times as long."""
    folders = [Path(folder) for folder in sys.path]
    return any(folder.is_file() for folder in folders) or any(      # a file: packages in an archive
        GROUP.encode() in file.read_bytes()
        for folder in folders for file in folder.glob("*-info/entry_points.txt"))
