"""The one folder whose files a client may name."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator

from msgspec import Struct

from astrarium.config.whole import write_whole
from astrarium.errors import InputError, nearest
from astrarium.units import format_bytes

__all__ = ["WRITTEN", "Folder", "Held"]

LONGEST = 200               # characters of a name
DEPTH, MOST = 4, 10_000     # folders inside each other, and files, that a listing looks at
LARGEST = 1 << 28           # bytes of a file that an operation reads
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@ -]*")
COMPANIONS = (".study-wal", ".study-shm", ".study.lock")      # what SQLite and the store keep beside a study
WRITTEN = (".yaml", ".yml", ".json", ".csv", ".study", ".html", ".svg", ".txt", ".toml")
"""Endings of files that a client may write."""


class Held(Struct, frozen=True):
    """A file of the folder: `name` relative to it, `kind` (its ending), `bytes`."""

    name: str
    kind: str
    bytes: int


class Folder(Struct, frozen=True):
    """`root`: its real path. `limit`: bytes of all its files, beyond which nothing is written. `writable`: whether
    anything is written at all."""

    root: str
    limit: int = 1 << 30
    writable: bool = True

    def path(self, name: str, path: str = "file") -> str:
        """The path of a file that is there, from its name. `path` is that of the value in errors. Raises InputError for
        a name that leaves the folder, a link that does, and anything that is not a file."""
        found = self._inside(name, path)
        if not os.path.isfile(found):
            names = [each.name for each in self.files()]
            raise InputError(path, f"there is no file {name!r} in the folder",
                             expected="one of " + ", ".join(names[:20]) if names else "a file that was saved before",
                             did_you_mean=nearest(name, names))
        if os.path.getsize(found) > LARGEST:
            raise InputError(path, f"{name!r} is larger than {format_bytes(LARGEST)}")
        return found

    def new(self, name: str, path: str = "save", endings: tuple[str, ...] = WRITTEN) -> str:
        """The path of a file to write. Raises InputError as `path` does, for another ending, and where the folder is
        full or read-only."""
        if not self.writable:
            raise InputError(path, "nothing is written here: the folder is read-only")
        found = self._inside(name, path)
        if os.path.splitext(name)[1] not in endings:
            raise InputError(path, f"{name!r} has another ending", expected="a name that ends in " + ", ".join(endings))
        if os.path.isdir(found) or not os.path.isdir(os.path.dirname(found)):
            raise InputError(path, f"{name!r} is a folder, or in one that is not there", expected="a file's name")
        if os.path.exists(found) and not os.path.isfile(found):      # to open a pipe would wait for a reader
            raise InputError(path, f"{name!r} is not a file", expected="the name of a file or a new one")
        if sum(each.bytes for each in self.files()) > self.limit:
            raise InputError(path, f"the folder is full ({format_bytes(self.limit)})", expected="fewer files")
        return found

    def write(self, name: str, text: str, path: str = "save") -> str:
        """Write a text file, whole or not at all; its name. Raises InputError as `new` does."""
        with write_whole(self.new(name, path)) as stream:
            stream.write(text.encode())
        return name

    def keep(self, text: str, stem: str = "design") -> str:
        """Write a text under a name that follows from its content; its name."""
        return self.write(f"{stem}-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}.yaml", text)

    def files(self) -> Iterator[Held]:
        """The files, by name; hidden ones are left out, what belongs to a study, and links that lead elsewhere."""
        found: list[Held] = []
        for folder, folders, names in os.walk(self.root):
            inside = os.path.relpath(folder, self.root)
            folders[:] = sorted(each for each in folders if not each.startswith(".")) \
                if inside.count(os.sep) < DEPTH - 1 else []
            for name in names:
                path = os.path.join(folder, name)
                if name.startswith(".") or name.endswith(COMPANIONS):
                    continue
                if os.path.isfile(path) and self._holds(path):
                    found.append(Held(os.path.normpath(os.path.join(inside, name)), os.path.splitext(name)[1][1:],
                                      os.path.getsize(path)))
            if len(found) >= MOST:
                break
        yield from sorted(found, key=lambda each: each.name)[:MOST]

    def _holds(self, path: str) -> bool:
        return os.path.realpath(path).startswith(self.root.rstrip(os.sep) + os.sep)

    def _inside(self, name: str, path: str) -> str:
        """The path of a name. Raises InputError for one that is none, or that leads elsewhere."""
        parts = name.split("/")
        if len(name) > LONGEST or len(parts) > DEPTH or not all(NAME.fullmatch(part) for part in parts):
            raise InputError(path, f"{name[:60]!r} is not the name of a file in the folder",
                             expected="a name such as design.yaml (letters, digits, . _ - and /; no .. and no path "
                                      "from the root)")
        found = os.path.join(self.root, *parts)
        if not self._holds(found):
            raise InputError(path, f"{name!r} leads out of the folder", expected="a file inside it")
        return found
