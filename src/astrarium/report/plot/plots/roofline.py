"""Rates of each kind of kernel in a run, and the limits of peak and bandwidth (Williams et al., CACM 52(4), 2009)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astrarium.cost.training import conditions
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.report.plot.colours import ranked
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.result import Result
from astrarium.result.nodes import Work
from astrarium.result.source import generated_class
from astrarium.trace.work import Generated

__all__ = ["PLOT", "KernelSum", "kernel_sums", "roofline"]


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


def roofline(result: Result, design: Design) -> Plot:
    """Kernels by kind: their FLOP per byte of operands and results, and per time, under peak and memory bandwidth.

    Args:
        result: the run of `design`, with node times, of a generated workload.
        design: says the peak (one device) and the memory bandwidth.

    Raises:
        InputError: where nodes do not say what they run, or the design has no peak or no bandwidth.
    """
    about, limit = conditions(design), design.memory.bandwidth
    peaks = about.get("peak_flop_per_ns")
    found = [each for each in (kernel_sums(result) if result.recorded else ())
             if each.flops > 0 and each.bytes > 0 and each.time > 0]
    if not found:
        raise InputError("roofline", "the nodes do not say which kernels they run",
                         expected="a Result of simulate(design) of a generated workload")
    if not isinstance(peaks, list) or len(peaks) != 1 or not limit:
        raise InputError("roofline", "the design has no single peak, or no memory bandwidth",
                         expected="compute.peak and memory.bandwidth, or a device of the catalog")
    peak, bandwidth = float(peaks[0]), float(limit)
    at, rate = [each.flops / each.bytes for each in found], [each.flops / each.time for each in found]
    ridge = peak / bandwidth
    least, most = min(ridge / 4, min(at) / 2), max(4 * ridge, 2 * max(at))
    names = [each.name for each in found]
    roof = Layer("line", {"x": Column("", [least, ridge, most], "intensity"),
                          "y": Column("", [least * bandwidth, peak, peak], "flop_rate")}, colour="muted")
    points = Layer("point", {
        "colour": Column("kernel", names), "x": Column("FLOP per byte", at, "intensity"),
        "y": Column("rate", rate, "flop_rate"), "time": Column("time", [each.time for each in found], "time"),
        "nodes": Column("nodes", [float(each.nodes) for each in found], "count"),
        "limit": Column("of the limit there", [reached / min(peak, bandwidth * each) for each, reached
                                               in zip(at, rate)], "share")}, size=110)
    low = min(least * bandwidth, min(rate) / 2)
    whole = sum(each.time for each in found)
    first = found[0]
    return Plot("Roofline", f"Line: the {about['peak_precision']} peak, and what memory bandwidth allows. Points: FLOP "
                f"over bytes and over time of all kernels of a kind, one rank of each kind; {first.name} takes "
                f"{100 * first.time / whole:.0f} % of their time at {100 * rate[0] / peak:.0f} % of the peak.",
                (roof, points), Axis("intensity", "intensity", log=True, low=least, high=most),
                Axis("rate", "flop_rate", log=True, low=low, high=1.6 * max(peak, *rate)), ranked(names), zoom=True)


PLOT = Drawing(("run",), lambda found: roofline(found.result, found.design))
