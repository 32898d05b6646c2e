"""Time of linked traces that no recorded operator, call or kernel accounts for: its attribute and its sentence."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from astrarium.trace.columns import Columns
from astrarium.trace.node import decode_metadata, decode_node

__all__ = ["ATTRIBUTE", "headline", "says_gaps", "unexplained_parts"]

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
ATTRIBUTE = "unexplained_share"
"""Attribute of a node: the share of its duration that is such time; of a trace: of its replay's critical path."""


def says_gaps(columns: Columns) -> bool:
    """Whether a trace says which of its time is unexplained: one that `link` wrote."""
    return any(attr.name == ATTRIBUTE for attr in decode_metadata(columns.metadata).attrs)


def unexplained_parts(columns: Columns, nodes: I64) -> F64:
    """[nodes given] the share of each node's duration that is unexplained, 0 to 1."""
    out, word, data = np.zeros(nodes.size, np.float64), ATTRIBUTE.encode(), columns.data
    starts, sizes = columns.offset[nodes].tolist(), columns.size[nodes].tolist()
    for place, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if data.find(word, start, start + size) < 0:
            continue
        attr = decode_node(data[start:start + size]).attr(ATTRIBUTE)
        if attr is not None and isinstance(attr.value, float):
            out[place] = min(max(attr.value, 0.0), 1.0)
    return out


def headline(share: float) -> str:
    """The sentence that leads every report on a linked trace; `share` of the critical path, 0 to 1."""
    found = f"{100 * share:.1f} % of this replay's critical path is unexplained gap"
    if share < 0.0005:
        return f"{found}: the recording names what ran all along it."
    return (f"{found}: no recorded operator, call or kernel says what passed then. A what-if leaves it as recorded and "
            f"can shorten the other {100 * (1 - share):.1f} % at most.")
