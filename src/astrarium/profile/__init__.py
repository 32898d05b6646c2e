"""Recordings of profilers to traces, and back to hardware: collect, link, convert, execute.

`collect` is imported when first used: most of the room reads recordings without PyTorch's profilers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astrarium.lazy import lazy

if TYPE_CHECKING:
    from astrarium.profile.collector import collect

__all__ = ["collect"]
__getattr__ = lazy(__name__)
