"""Your rows in addition to the catalog's: TOML files with the same columns.

    [devices.my_chip]
    title = "Our chip, second stepping"
    peak = "700 TFLOP/s"
    capacity = "96 GiB"
    bandwidth = "3 TB/s"
    source = "our own data sheet, 2026-10"

Files are named by `--catalog`, by `overlay` in Python, or by the environment variable ASTRARIUM_CATALOG, through which
worker processes learn of them.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from astrarium.catalog.columns import COLUMNS, check_row
from astrarium.errors import InputError, nearest

__all__ = ["VARIABLE", "parse", "rows_of"]

VARIABLE = "ASTRARIUM_CATALOG"
LONGEST = 1 << 24        # bytes of a file
KERNELS = "kernels"      # column of devices: what `astrarium calibrate --measure` measured; of a loaded row its file


def parse(text: str) -> Mapping[str, Any]:
    """TOML as plain data. Raises ValueError."""
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    found: Mapping[str, Any] = toml.loads(text)
    return found


def rows_of(kind: str, files: str, ours: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of a kind in `files` (paths as VARIABLE has them), none of which has a name of `ours` or of another."""
    found = dict[str, Any]()
    for path in filter(None, files.split(os.pathsep)):
        for name, row in _read(path).get(kind, {}).items():
            if name in ours or name in found:
                whose = "the catalog has a row of this name" if name in ours else "another file has a row of this name"
                raise InputError(f"{_shown(path)}: {kind}.{name}", whose, expected="another name")
            check_row(kind, f"{_shown(path)}: {kind}.{name}", row)
            found[name] = {**row, KERNELS: path} if KERNELS in row else row     # a compute model reads them
    return found


def _read(path: str) -> Mapping[str, Mapping[str, Any]]:
    """Kind -> rows of a file."""
    where = _shown(path)
    try:
        about = os.stat(path)
        if about.st_size > LONGEST:
            raise InputError(where, "is too large for a catalog", expected=f"at most {LONGEST} bytes")
        found = _parsed(path, (about.st_mtime_ns, about.st_size, about.st_ino))
    except OSError as error:
        raise InputError(where, f"cannot be read ({error.strerror or error})") from None
    except ValueError as error:
        raise InputError(where, f"is not TOML ({error})", expected="tables such as [devices.my_chip]") from None
    for kind, rows in found.items():
        if kind not in COLUMNS:
            raise InputError(f"{where}: {kind}", "is no kind of row", expected="one of " + ", ".join(COLUMNS),
                             did_you_mean=nearest(kind, COLUMNS))
        if not isinstance(rows, Mapping):
            raise InputError(f"{where}: {kind}", "holds no rows", expected=f"tables such as [{kind}.my_name]")
    return found


@functools.lru_cache(maxsize=8)
def _parsed(path: str, _: tuple[int, ...]) -> Mapping[str, Any]:
    """A file, which is read again only after it has changed."""
    with open(path, encoding="utf-8") as file:
        return parse(file.read())


def _shown(path: str) -> str:
    """A path as a message has it: from the working folder, where the file is in it."""
    short = os.path.relpath(path)
    return path if short.startswith(os.pardir) else short
