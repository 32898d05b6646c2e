"""The clock of a GPU that no longer waits for a host that profilers slow: lower, if its products need the power."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from astrarium.catalog import device as device_row
from astrarium.compute.kernels.power import Load, chip_of, clocked, effective
from astrarium.compute.operators import kernel_of
from astrarium.profile.link.unrecorded import Ran, Slower
from astrarium.units import Bandwidth
from astrarium.vocab import Kernel

__all__ = ["slower"]

DEVICES: Mapping[str, str] = MappingProxyType({"NVIDIA H100 80GB HBM3": "h100_sxm", "NVIDIA H200": "h200_sxm"})
"""Names that Kineto has of devices whose chip's power was measured -> catalog."""

BOUND = 0.25     # of the peak from which on a product or an attention is taken as bound by arithmetic
MODELLED = ("gemm", "attention", "attention_backward")
STREAM = 0.75
"""Of the memory's bandwidth that a kernel of unknown bytes takes: as the others that only move bytes in the recorded
step of llama3.2-1b on H100."""


def slower(device: str, ran: Sequence[Ran], recorded: int, unrecorded: int) -> Slower | None:
    """How much longer kernels take in a run of `unrecorded` ns than in one of `recorded` ns; None where the device's
    power is not known, or it leaves both the same clock."""
    if device not in DEVICES:
        return None
    name = DEVICES[device]
    chip, row = chip_of(name), device_row(name)
    kernels = [kernel_of(each.operator, each.kernels) for each in ran]
    flops = np.array([each.flops if isinstance(each, Kernel) and each.kind in MODELLED else 0.0 for each in kernels])
    length = np.array([each.ns for each in ran], np.float64)
    arithmetic = flops > BOUND * float(row.peak("bf16")) * length
    products, others = float(length[arithmetic].sum()), float(length[~arithmetic].sum())
    limit, units = chip.limit, int(row.row["units"])
    rate = STREAM * float(Bandwidth(row.row["bandwidth"]))
    moved = sum(call.ns * rate if isinstance(each, str) else _bytes(each)
                for each, call in zip(kernels, ran, strict=True))

    def share(short: float, least: int) -> float:
        load = Load(float(flops.sum()), moved, lambda clock: others + short / clock, least)
        return clocked(chip, units, limit, load).share

    before = effective(share(products, recorded))
    after = share(products * before, unrecorded)
    factor = before / effective(after)
    if factor <= 1:
        return None
    return Slower(np.where(arithmetic, factor, 1.0), after * chip.highest, limit)


def _bytes(kernel: Kernel) -> int:
    """What a kernel moves; of a product its operands and result in bf16."""
    if kernel.kind != "gemm":
        return kernel.bytes
    batch, m, n, k = map(int, kernel.shape)
    return 2 * batch * (m * n + n * k + m * k)
