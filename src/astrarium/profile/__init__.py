"""Recordings of profilers to traces, and back to hardware: collect, link, convert, execute.

`collect` is imported when first used: most of the room reads recordings without PyTorch's profilers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astrarium.profile.collector import collect

__all__ = ["collect"]


def __getattr__(name: str) -> Any:
    if name != "collect":
        raise AttributeError(f"module 'astrarium.profile' has no attribute {name!r}")
    from astrarium.profile.collector import collect as found

    globals()[name] = found
    return found
