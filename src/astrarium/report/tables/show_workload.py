"""`astrarium show DESIGN.yaml --workload`: operators, FLOPs, bytes, communication, memory and parameters as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import asdict

from astrarium.design import Design
from astrarium.errors import AstrariumError
from astrarium.lower.placement import generated
from astrarium.lower.work import rank_count
from astrarium.report.tables.table import Table
from astrarium.report.tables.work_counts import Operator, Traffic, operators, stage_memory, traffic
from astrarium.trace.work import TraceClass
from astrarium.units import format_bytes, format_time
from astrarium.vocab import NodeKind
from astrarium.workload.model.base import Model
from astrarium.workload.model.parameters import Parameters, parameters

__all__ = ["workload_rows", "workload_tables"]


def workload_rows(design: Design) -> dict[str, Any]:
    """All tables as plain data. FLOPs, bytes and times of operators are sums over all ranks and one iteration.

    Raises InputError where the design's workload is not generated.
    """
    made, work = generated(design), design.workload
    found = operators(design, made)
    counted = _parameters(work)
    return {
        "ranks": rank_count(design), "nodes": sum(trace.type.size * trace.ranks.size for trace in made.classes),
        "launches": [_launches(trace) for trace in made.classes],
        "gemm_flops": _gemm(found), "vector_flops": sum(row.vector or 0.0 for row in found),
        "compute_bytes": sum(row.bytes for row in found), "operators": [_named(row) for row in found],
        "communication": [_named(row) for row in traffic(made, getattr(work, "mesh", None))],
        "memory_per_stage_bytes": stage_memory(design),
        "parameters": None if counted is None else {
            "total": float(counted.total), "active": float(counted.active),
            "parts": {name: float(value) for name, value in counted.parts.items()}}}


NAMES, PS_PER_NS = {"gemm": "gemm_flops", "vector": "vector_flops", "bytes": "size_bytes", "time": "time_ns"}, 1000


def _named(row: Operator | Traffic) -> dict[str, Any]:
    """A row as plain data, units in the names."""
    found = {NAMES.get(name, name): value for name, value in asdict(row).items()}
    if found.get("time_ns") is not None:
        found["time_ns"] /= PS_PER_NS
    return found


def workload_tables(design: Design) -> list[Table]:
    """The tables of `workload_rows` for printing."""
    made, work = generated(design), design.workload
    found = operators(design, made)
    tables = [_summary(design, made.classes, found), *_operator_tables(found)]
    communication = traffic(made, getattr(work, "mesh", None))
    if communication:
        tables.append(_traffic_table(communication))
    memory = stage_memory(design)
    if memory:
        tables.append(_memory_table(memory))
    counted = _parameters(work)
    return [*tables, _parameter_table(counted)] if counted is not None else tables


def _parameters(work: object) -> Parameters | None:
    """Parameters of a workload's model; None if they cannot be counted."""
    model = getattr(work, "model", None)
    try:
        return parameters(model) if isinstance(model, Model) else None
    except AstrariumError:
        return None


def _summary(design: Design, classes: Sequence[TraceClass], found: Sequence[Operator]) -> Table:
    nodes, gemm = [trace.type.size for trace in classes], _gemm(found)
    rows = [("nodes of a rank", _span(nodes)), ("kernels that a rank launches", _span([*map(_launches, classes)])),
            ("different programs", f"{len(classes):,}"),
            *([] if gemm is None else [("FLOPs of GEMM class, all ranks", _flops(gemm))]),
            ("FLOPs, all ranks" if gemm is None else "other FLOPs, all ranks",
             _flops(sum(row.vector or 0.0 for row in found))),
            ("bytes read and written, all ranks", format_bytes(sum(row.bytes for row in found)))]
    return Table(f"workload: {design.workload.tag}, {rank_count(design):,} ranks, one iteration", "<>", rows)


def _launches(trace: TraceClass) -> int:
    """Launches of compute kernels of a rank, to each of which `compute.launch_gap` is added."""
    computes = (trace.type == NodeKind.COMP) & ~trace.is_cpu
    if trace.kernel is None:
        return int(np.count_nonzero(computes))
    launches = np.array([*(kernel.launches for kernel in trace.kernels), 1])    # the last: names no kernel
    return int(launches[np.asarray(trace.kernel)[computes]].sum())


def _gemm(found: Sequence[Operator]) -> float | None:
    """FLOPs of GEMM class of all ranks; None if classes are unknown."""
    return None if any(row.gemm is None for row in found) else sum(row.gemm or 0.0 for row in found)


def _operator_tables(found: Sequence[Operator]) -> list[Table]:
    """A table per block; costs of one run, shares of the compute time of all ranks."""
    total = sum(row.time or 0 for row in found)
    head = ("operator", "per rank", "GEMM", "other", "bytes", "time", "of compute")
    tables = []
    for block in dict.fromkeys(row.block for row in found):
        rows = [(row.name, _span(row.times), "" if row.gemm is None else _flops(row.gemm / row.runs),
                 "" if row.vector is None else _flops(row.vector / row.runs), format_bytes(row.bytes / row.runs),
                 "" if row.time is None else format_time(row.time / row.runs / 1000),
                 "" if row.time is None or not total else f"{row.time / total:.1%}")
                for row in found if row.block == block]
        tables.append(Table(f"operators: {block or 'all'} (one run of each)", "<>>>>>>", rows, head))
    return tables


def _traffic_table(found: Sequence[Traffic]) -> Table:
    rows = [(row.op, row.axes, f"{row.ranks:,}", _span(row.times), format_bytes(row.bytes),
             format_bytes(row.bytes * max(row.times)), ", ".join(row.steps[:3]) + (", …" if len(row.steps) > 3 else ""))
            for row in found]
    return Table("communication (per rank and iteration; all_gather counts the shard)", "<<>>>><", rows,
                 ("operation", "axes", "ranks", "times", "each", "together", "what"))


def _memory_table(memory: Sequence[dict[str, float]]) -> Table:
    names = list(memory[0])
    rows = [(str(stage), *(f"{row[name] / 1e9:,.3f} G" if name == "parameters" else format_bytes(row[name])
                           for name in names)) for stage, row in enumerate(memory)]
    return Table("memory of a rank when it holds most, by pipeline stage", ">" * (len(names) + 1), rows,
                 ("stage", *names))


def _parameter_table(counted: Parameters) -> Table:
    rows = [(name, f"{float(value):,.0f}") for name, value in counted.parts.items()]
    rows.append(("total", f"{float(counted.total):,.0f}"))
    if counted.active != counted.total:
        rows.append(("active (of one token)", f"{float(counted.active):,.0f}"))
    return Table("parameters of the model", "<>", rows)


def _span(counts: Sequence[int]) -> str:
    """`24`, or `23-25` where classes differ."""
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def _flops(flops: float) -> str:
    """With a unit; empty for none."""
    for unit, size in (("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3)):
        if flops >= size:
            return f"{flops / size:.4g} {unit}"
    return f"{flops:.4g} FLOP" if flops else "0"
