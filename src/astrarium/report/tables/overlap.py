"""A product and a concurrent collective as a table and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astrarium.gpu import GpuOverlap, Overlapped
from astrarium.report.tables.table import Table
from astrarium.units import Bytes

__all__ = ["overlap_rows", "overlap_table"]

TIMES = ("gemm_alone", "gemm_beside", "collective_alone", "collective_beside", "makespan")
HEAD = ("kernel", "units", "gemm", "beside", "", "collective", "beside", "", "both", "speedup", "of ideal", "HBM")


def overlap_table(asked: GpuOverlap, cases: Sequence[Overlapped]) -> Table:
    """One line per case: times alone and together in us, slowdowns, and the gain of the overlap."""
    gemm = asked.gemm
    title = (f"{asked.op} of {Bytes.of(asked.payload)} on {asked.gpus} GPUs beside a product of {gemm.m} x {gemm.n} x "
             f"{gemm.k} ({gemm.precision}) on each; us")
    return Table(title, "<>" + ">" * (len(HEAD) - 2), [_row(case) for case in cases], HEAD)


def _row(case: Overlapped) -> tuple[str, ...]:
    return (case.kernels.name, _units(case), _us(case.gemm_alone), _us(case.gemm_beside), f"{case.gemm_slowdown:.2f}x",
            _us(case.collective_alone), _us(case.collective_beside), f"{case.collective_slowdown:.2f}x",
            _us(case.makespan), f"{case.speedup:.2f}x", f"{100 * case.of_ideal:.0f} %", f"{100 * case.hbm:.0f} %")


def _units(case: Overlapped) -> str:
    if case.units is None:
        return "engines"
    return str(case.units) if case.units else "shared"


def _us(time: int) -> str:
    return f"{time / 1e6:.1f}"


def overlap_rows(cases: Sequence[Overlapped]) -> list[dict[str, Any]]:
    """The cases as plain data, units in the names."""
    return [{"kernel": case.kernels.name, "workgroups": case.kernels.workgroups, "units": case.units,
             **{f"{name}_ns": getattr(case, name) / 1000 for name in TIMES}, "speedup": case.speedup,
             "ideal_speedup": case.ideal, "of_ideal": case.of_ideal, "hbm_use": case.hbm} for case in cases]
