"""The data-parallel axis follows the other axes: a slider of tp alone would ask for another number of ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from astrarium.config.yamlfile import scalar
from astrarium.design import Design
from astrarium.workload.transformer import Transformer

__all__ = ["followed", "space_followed"]

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


def space_followed(space: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a space file with choices as texts: values are read, and `workload.dp` follows the axes."""
    choices = space.get("choices")
    if not isinstance(choices, dict) or not all(isinstance(values, list) for values in choices.values()):
        return dict(space)
    choices = {path: [scalar(each) if isinstance(each, str) else each for each in values]
               for path, values in choices.items()}
    found: dict[str, Any] = {**space, "choices": choices}
    if any(f"workload.{axis}" in choices for axis in AXES) and "workload.dp" not in choices:
        rest = " * ".join(f"workload.{axis}" for axis in AXES)
        found |= {"derived": {"workload.dp": f"network.npus // ({rest})"},
                  "constraints": [f"{rest} * workload.dp == network.npus"]}
    return found
