"""Rates of each kind of kernel in a run, and the limits of peak and bandwidth (Williams et al., CACM 52(4), 2009)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from astrarium.cost.training import conditions
from astrarium.design import Design
from astrarium.report.pages.html import key, note, section, table, wide
from astrarium.report.svg.charts import COLOURS, roofline
from astrarium.result import Result
from astrarium.result.nodes import Work
from astrarium.result.source import generated_class
from astrarium.trace.work import Generated
from astrarium.units import format_bytes, format_flops, format_time

__all__ = ["KernelSum", "kernel_sums", "roofline_part"]


class KernelSum(NamedTuple):
    """Kernels of a kind and precision on one rank of each class: how many nodes, their FLOPs, bytes, and ns."""

    name: str
    nodes: int
    flops: float
    bytes: float
    time: float


def kernel_sums(result: Result) -> list[KernelSum]:
    """By kind and precision, most time first; empty for traces from files, whose nodes do not say what they run."""
    source, nodes, outcome = result.traces, result.nodes, result.outcome
    if not isinstance(source, Generated):
        return []
    sums: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
    for row in range(len(outcome.finish)):
        trace = generated_class(source, int(np.flatnonzero(outcome.row == row)[0]))
        if trace.kernel is None or not trace.kernels:
            continue
        mine = np.arange(int(outcome.node_ptr[row]), int(outcome.node_ptr[row + 1]))
        mine = mine[nodes.work[mine] == Work.COMPUTE]
        kernel = trace.kernel[nodes.node[mine]]
        mine, kernel = mine[kernel >= 0], kernel[kernel >= 0]
        spent = np.bincount(kernel, (nodes.end[mine] - nodes.start[mine]) / 1000, len(trace.kernels))
        for each, count, time in zip(trace.kernels, np.bincount(kernel, minlength=len(trace.kernels)), spent):
            if count:
                name = f"{each.kind} {each.precision}"
                sums[name] = sums.get(name, np.zeros(4)) + np.array(
                    [count, count * each.flops, count * each.bytes, time])
    found = [KernelSum(name, int(each[0]), *map(float, each[1:])) for name, each in sums.items()]
    return sorted(found, key=lambda each: (-each.time, each.name))


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
