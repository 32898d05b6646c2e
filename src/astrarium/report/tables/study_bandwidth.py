"""What the dims of designs with different shapes have in common: the bandwidth of an NPU over all its links."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from astrarium.search import Space, Trial
from astrarium.units import format_rate

__all__ = ["per_npu"]


def per_npu(space: Space, trials: Sequence[Trial]) -> list[list[str]]:
    """A row for each dim of the trials' networks, if these differ in shape or bandwidth and an NPU has several links in
    one of them: `bandwidth` is then that of a link, so it does not compare."""
    if not any(axis.name.startswith("network.dims") and axis.name.endswith(("shape", "bandwidth"))
               for axis in space.axes):
        return []
    designs = [space.design(trial.point) for trial in trials]
    dims = [each.network.flat if each.network.fabric is None else () for each in designs]
    if all(dim.links_per_npu == 1 for each in dims for dim in each):
        return []
    rows = []
    for place, column in enumerate(zip_longest(*dims)):
        cells = ["" if dim is None else format_rate(dim.npu_bandwidth) for dim in column]
        if any(cell != cells[0] for cell in cells):
            rows.append([f"dim {place}, sum per NPU", *cells])
    return rows
