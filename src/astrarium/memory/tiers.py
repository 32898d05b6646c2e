"""Which tier a node means, and what it takes to reach it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from astrarium.memory.config import LOCAL, Tier

__all__ = ["HERE", "tier_of"]

HERE = -1       # the local memory, as the number of a tier
CLASS = re.compile(r"G([1-9][0-9]?)")


def tier_of(tiers: Sequence[Tier], label: str) -> int | None:
    """Which of `tiers` a node means by `label`, HERE for the local memory; None: none of them.

    A name of a tier, else its `label` or a label with more behind a colon. Of those without a label Chakra's classes G1
    (the local memory), G2 (the first tier), G3 (the second), ... say the number: `G2:dram:offload` is the first tier.
    """
    for number, tier in enumerate(tiers):
        if label == tier.name:
            return number
    for number, tier in enumerate(tiers):
        if tier.label is not None and (label == tier.label or label.startswith(f"{tier.label}:")):
            return number
    found = CLASS.fullmatch(label.partition(":")[0])
    if label == LOCAL or (found and found[1] == "1"):
        return HERE
    meant = int(found[1]) - 2 if found else len(tiers)
    return meant if meant < len(tiers) and tiers[meant].label is None else None
