"""The GPU simulator in Python: the specification. `native/engine/gpu` gives the same integers."""

from __future__ import annotations

from astrarium.gpu.oracle.run import run

__all__ = ["run"]
