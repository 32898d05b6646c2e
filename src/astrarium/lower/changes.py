"""What changes speed while a design runs: links (`network.changes`) and NPUs (`system.changes`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from astrarium.design import Design
from astrarium.engine.plan import FULL_SPEED, Changes, Changing
from astrarium.errors import InputError
from astrarium.network.change import Change
from astrarium.network.changed import link_changes
from astrarium.system.config import NpuChange

__all__ = ["changes_of", "changing"]


def changing(design: Design) -> str:
    """The path of a section that says changes; empty where nothing changes."""
    return next((f"{name}.changes" for name in ("network", "system") if getattr(design, name).changes), "")


def changes_of(design: Design) -> Changes | None:
    """The engine's changes; None where there are none. Raises InputError for links and NPUs that there are not."""
    rows = [*((time, Changing.LINK, link, factor) for time, link, factor in link_changes(design.network)),
            *_of_npus(design)]
    if not rows:
        return None
    columns = list(zip(*rows, strict=True))
    return Changes(np.array(columns[0], np.int64), np.array(columns[1], np.uint8), np.array(columns[2], np.int32),
                   np.array(columns[3], np.int64))


def _of_npus(design: Design) -> Iterator[tuple[int, int, int, int]]:
    """Changes of NPUs, of `network.changes` too, which had them before."""
    changed: tuple[tuple[str, Sequence[Change | NpuChange]], ...] = (("network", design.network.changes),
                                                                     ("system", design.system.changes))
    for path, changes in changed:
        for place, change in enumerate(changes):
            if change.npu is None:
                continue
            if change.npu >= design.network.npus:
                raise InputError(f"{path}.changes[{place}].npu", f"there is no NPU {change.npu}",
                                 expected=f"0 to {design.network.npus - 1}")
            yield round(float(change.at) * 1000), Changing.NPU, change.npu, round(change.speed * FULL_SPEED)
