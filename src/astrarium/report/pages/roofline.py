"""Rates of each kind of kernel in a run, and the limits of peak and bandwidth (Williams et al., CACM 52(4), 2009)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astrarium.cost.training import conditions
from astrarium.design import Design
from astrarium.report.pages.html import key, note, section, table, wide
from astrarium.report.plot.plots.roofline import KernelSum, kernel_sums
from astrarium.report.svg.charts import COLOURS, roofline
from astrarium.result import Result
from astrarium.units import format_bytes, format_flops, format_time

__all__ = ["roofline_part"]


def roofline_part(design: Design, result: Result) -> Iterator[str]:
    """Plot and table; without a peak or a bandwidth the table alone."""
    sums = kernel_sums(result)
    if sums:
        yield section("Kernels", *_kernels(design, sums))


def _kernels(design: Design, sums: Sequence[KernelSum]) -> Iterator[str]:
    about = conditions(design)
    peaks = about.get("peak_flop_per_ns")
    bandwidth = 0.0 if design.memory.bandwidth is None else float(design.memory.bandwidth)
    drawn = [(each.name, each.flops / each.bytes, each.flops / each.time / 1000) for each in sums
             if each.flops > 0 and each.bytes > 0 and each.time > 0]
    if isinstance(peaks, list) and len(peaks) == 1 and bandwidth and drawn:
        yield key({name: name for name, _, _ in drawn},
                  {name: COLOURS[place % len(COLOURS)] for place, (name, _, _) in enumerate(drawn)})
        yield wide(roofline(drawn, peaks[0] / 1000, bandwidth / 1000))
        yield note(f"Lines: the {about['peak_precision']} peak, and what memory bandwidth allows. Points: FLOPs over "
                   "bytes and over time of all kernels of a kind; bytes are those of operands and results.")
    whole = sum(each.time for each in sums)
    yield table(("kernel", "nodes", "FLOPs", "bytes", "time", "share", "TFLOP/s", "TB/s"), [
        (each.name, f"{each.nodes:,}", format_flops(each.flops), format_bytes(each.bytes), format_time(each.time),
         f"{100 * each.time / whole:.1f} %", f"{each.flops / each.time / 1000:.1f}" if each.time else "",
         f"{each.bytes / each.time / 1000:.2f}" if each.time else "") for each in sums], "<>>>>>>>", "Kernels")
    yield note("One rank of each class of equal ranks.")
