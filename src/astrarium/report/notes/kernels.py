"""What a run took for collectives that are GPU kernels (`collective.kernels`), in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from astrarium.lower.kernel_times import kernel_gpu
from astrarium.result.collectives import kernel_overlap
from astrarium.units import format_bytes, format_time
from astrarium.vocab import CommOp

if TYPE_CHECKING:
    from astrarium.design import Design
    from astrarium.result import Result

__all__ = ["kernel_notes"]

PATH = "collective.kernels"


def kernel_notes(design: Design, result: Result) -> Iterator[str]:
    """What a run took for kernels: those of libraries, per operation with their sizes; how long kernels of different
    collectives ran at the same time on a GPU."""
    times = design.collective.kernels
    if times is None:
        return
    sizes: dict[tuple[int, str], list[int]] = {}
    for each in result.plan.collectives if times.libraries else ():
        if "kernel" in each.how:
            sizes.setdefault((each.op, each.how), []).append(each.size)
    for (op, how), found in sizes.items():
        span = " to ".join(dict.fromkeys([format_bytes(min(found)), format_bytes(max(found))]))
        yield f"{PATH}: {CommOp(op).name.lower()} of {span}: {how.removeprefix('kernel: ')}"
    if times.units:
        total = kernel_gpu(design)[1].units
        yield (f"{PATH}.units: compute runs on {total - times.units} of {total} units of a GPU all the time; what "
               "kernels take of HBM's bandwidth is not taken from it")
    rank, both, busy = kernel_overlap(result.plan, result.comm)
    if both:
        yield (f"{PATH}: kernels of different collectives run at the same time on rank {rank} for "
               f"{format_time(both / 1000)} of {format_time(busy / 1000)}, each as fast as alone "
               "(system.comm_streams: 1: one after the other)")
