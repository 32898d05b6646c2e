"""What the dims of designs with different shapes have in common: the bandwidth of an NPU over all its links."""

from __future__ import annotations

from collections.abc import Sequence

from astrarium.report.tables.several import sum_per_npu
from astrarium.search import Space, Trial
from astrarium.units import format_rate

__all__ = ["per_npu"]


def per_npu(space: Space, trials: Sequence[Trial]) -> list[list[str]]:
    """A row for each dim of the networks that has several shapes: `bandwidth` is that of a link, of which an NPU
    has more in some shapes than in others."""
    if not any(axis.name.startswith("network.dims") and axis.name.endswith("shape") for axis in space.axes):
        return []
    designs = [space.design(trial.point) for trial in trials]
    dims = [each.network.flat if each.network.fabric is None else () for each in designs]
    return list(sum_per_npu(dims, lambda column: len({dim.tag for dim in column if dim is not None}) > 1,
                            lambda dim: format_rate(dim.npu_bandwidth)))
