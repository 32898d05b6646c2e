"""The data-parallel axis follows the other axes: a slider of tp alone would ask for another number of ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping

from astrarium.design import Design
from astrarium.workload.transformer import Transformer

__all__ = ["followed"]

AXES = ("tp", "pp", "cp", "sp")
DIM = re.compile(r"network\.dims\[(\d+)\]\.npus")


def followed(base: Design, sets: Mapping[str, str]) -> dict[str, str]:
    """`workload.dp` where an axis or the number of NPUs changes and dp does not; nothing where no whole dp does."""
    work = base.workload
    if not isinstance(work, Transformer) or "workload.dp" in sets:
        return {}
    ranks = 1
    for index, dim in enumerate(base.network.flat):
        ranks *= _count(sets.get(f"network.dims[{index}].npus"), dim.npus)
    others = 1
    for axis in AXES:
        others *= _count(sets.get(f"workload.{axis}"), getattr(work, axis))
    asked = any(f"workload.{axis}" in sets for axis in AXES) or any(DIM.fullmatch(path) for path in sets)
    dp, rest = divmod(ranks, others) if others else (0, 1)
    return {"workload.dp": str(dp)} if asked and not rest and dp and dp != work.dp else {}


def _count(text: str | None, present: int) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 else present
