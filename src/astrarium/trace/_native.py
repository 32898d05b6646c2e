"""Door to the compiled reader; the only file of this room that imports `astrarium._core`.

`HAVE_CORE` says whether the compiled core is there; without it the pure-Python twin gives the same results, slowly.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from astrarium.trace import _pure

__all__ = ["HAVE_CORE", "Backend", "Strings", "TraceClass", "backend"]


class Strings(Protocol):
    """Texts by number, filled while reading."""

    def all(self) -> list[bytes]: ...


class TraceClass(Protocol):
    """Ranks of equal content; not to be touched by two threads at once."""

    data: bytes        # the first rank's file
    metadata: bytes    # its GlobalMetadata message
    ranks: int
    hash: int

    def add(self, data: bytes, strings: Any) -> bool: ...
    def rebuild(self, row: int) -> bytes: ...
    def columns(self) -> dict[str, npt.NDArray[Any]]: ...


class Backend(Protocol):
    """What the core and its twin both offer. `TraceClass` raises `ValueError(offset, what)` for a malformed file."""

    def Strings(self) -> Strings: ...  # noqa: N802 - a class of the back end
    def TraceClass(self, data: bytes, strings: Any) -> TraceClass: ...  # noqa: N802
    def topological_order(self, id: npt.NDArray[np.uint64], ptr: npt.NDArray[np.int64],  # noqa: A002
                          parent: npt.NDArray[np.int32], /) -> npt.NDArray[np.int32]: ...


def _compiled() -> Backend | None:
    try:
        core = importlib.import_module("astrarium._core")
    except ImportError:
        return None
    found = getattr(core, "trace", None)   # a core may be built without this room (CMake: ASTRARIUM_PARTS)
    return cast("Backend | None", found)


_CORE = _compiled()
HAVE_CORE = _CORE is not None


def backend(pure: bool = False) -> Backend:
    """The compiled core, or its pure-Python twin when it is absent or asked for."""
    return _CORE if _CORE is not None and not pure else cast(Backend, _pure)
