"""What rented NPUs cost by the hour."""

from __future__ import annotations

import numpy as np

from astrarium.catalog.market import check_device, part
from astrarium.design import Design, npu_types
from astrarium.lower.jobs import all_npus

__all__ = ["rent_per_hour"]


def rent_per_hour(design: Design) -> float | None:
    """US dollars of an hour of all NPUs with a rank, where they are rented (`compute.hourly_price`, `cost.rental`).
    Raises InputError for a rent of another device than `compute.device`."""
    kinds, types = npu_types(design)
    counts = np.bincount(kinds[all_npus(design)], minlength=len(types))
    if design.cost.rental is not None:
        for compute, _ in types:
            check_device("cost.rental", design.cost.rental, getattr(compute, "device", None))
        return int(counts.sum()) * (part(design.cost.rental).rent or 0.0)
    prices = [compute.hourly_price for compute, _ in types]
    if any(price is None for price in prices):
        return None
    return sum(int(count) * float(price or 0) for count, price in zip(counts, prices, strict=True))
