"""From pieces and a schedule to what every rank runs: columns by offset, no Python object per node."""

from __future__ import annotations

from astrarium.workload.assemble.assembly import assemble
from astrarium.workload.assemble.recipe import Recipe, Sizes

__all__ = ["Recipe", "Sizes", "assemble"]
