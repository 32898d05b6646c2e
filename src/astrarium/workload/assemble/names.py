"""Names of nodes, made when somebody asks: micro-batch, block, step."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from astrarium.workload.assemble.builder import Template
from astrarium.workload.assemble.tile import Tiled
from astrarium.workload.schedule import Units

__all__ = ["namer"]

WAY = ("forward", "backward", "weight")


def namer(tiled: Tiled, templates: Sequence[Template], which: npt.NDArray[np.int32], units: Units,
          steps: Sequence[str], first_block: Sequence[int]) -> Callable[[int], str]:
    """node -> `batch3.block12.forward.STEP`; `first_block` [chunks]: number in the model of a chunk's first block."""
    offset = tiled.offset.data

    def name(node: int) -> str:
        unit = bisect_right(offset, node) - 1
        step = steps[int(tiled.rows[node])]
        if unit >= len(units):
            return f"step.{step}"
        template, inner = templates[int(which[unit])], node - offset[unit]
        block = template.block_of(inner)
        where = "" if block is None else f"block{first_block[int(units.chunk[unit])] + block}."
        return f"batch{int(units.batch[unit])}.{where}{WAY[int(units.kind[unit])]}.{step}"

    return name
