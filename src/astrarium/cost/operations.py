"""Energy of a run by what it computes and moves: the alternative to `energy`, which goes by time.

E = NPUs x idle power x makespan + FLOPs x e_flop + bytes x e_byte + sum over dims (bit-hops x the dim's energy)

FLOPs and bytes are those of the compute nodes of all ranks, as their work says (`num_ops`, `tensor_size`); e_flop is at
the precision of the workload. A bit-hop is a bit that crosses a link. All but `closed_form` count every link; there a
switch is two hops, a full connection one, and the hops of other shapes are not known. The form is that of W. J.
Dally, "Domain-specific hardware accelerators", CACM 63(7), 2020, and of COMET's and ASTRA-sim's energy models; the
figures are the design's, or those of its technologies: nothing is assumed where one is missing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.cost.energy import refuse_backend, refuse_uncounted
from astrarium.cost.figure import Figure, plain_number, refuse_without, without
from astrarium.design import Design, npu_types
from astrarium.engine.plan import Backend
from astrarium.errors import UnsupportedError
from astrarium.network.needs import needs_dims
from astrarium.result import Result
from astrarium.result.links import bytes_out
from astrarium.result.nodes import Work
from astrarium.trace.columns import Attr, Traces
from astrarium.vocab import NodeKind

__all__ = ["OPERATION_ENERGY", "Operations", "check_operations", "operation_energy", "work_of"]

HOPS = {"switch": 2.0, "fully_connected": 1.0}


class Operations(Struct, frozen=True):
    """Joules: idle power of all NPUs over the run, what is computed, what memory moves, each network dim."""

    idle: float
    compute: float
    memory: float
    network: tuple[float, ...]

    @property
    def total(self) -> float:
        """Sum of all parts, J."""
        return self.idle + self.compute + self.memory + sum(self.network)


def work_of(result: Result) -> tuple[float, float]:
    """(FLOPs, bytes) of the compute nodes of all ranks. Raises UnsupportedError for traces that do not say FLOPs."""
    source = result.traces
    if source is None and not (result.nodes.work == Work.COMPUTE).any():
        return 0.0, 0.0
    if source is None:
        raise UnsupportedError("operation_energy", "is not known: the workload decides as it runs",
                               expected="a trace or a generated workload")
    flops = moved = 0.0
    if isinstance(source, Traces):
        for number, columns in enumerate(source.classes):
            ops = np.where(columns.has(Attr.NUM_OPS), columns.num_ops, np.nan).astype(np.float64)
            chosen = (columns.type == NodeKind.COMP) & ~columns.is_cpu_op.astype(np.bool_)
            found = _sums(ops[chosen], columns.tensor_size[chosen], len(source.members(number)))
            flops, moved = flops + found[0], moved + found[1]
        return flops, moved
    for each in source.classes:
        chosen = (each.type == NodeKind.COMP) & ~each.is_cpu
        found = _sums(each.num_ops[chosen], each.tensor_size[chosen], each.ranks.size)
        flops, moved = flops + found[0], moved + found[1]
    return flops, moved


def _sums(ops: npt.NDArray[np.float64], size: npt.NDArray[np.generic], ranks: int) -> tuple[float, float]:
    if np.isnan(ops).any():
        raise UnsupportedError("operation_energy", "is not known: compute nodes of the trace have no num_ops",
                               expected="traces with num_ops, or the figure energy")
    return float(ops.sum()) * ranks, float(size.astype(np.float64).sum()) * ranks


def operation_energy(design: Design, result: Result) -> Operations:
    """Joules of a recorded run. Raises InputError for a figure that the design lacks, UnsupportedError where operations
    or hops are not known."""
    check_operations(design)
    kinds, types = npu_types(design)
    counts = np.bincount(kinds, minlength=len(types))
    idle = sum(int(count) * float(compute.idle_power or 0) for count, (compute, _) in zip(counts, types, strict=True))
    flops, moved = work_of(result)
    cost = design.cost
    network = tuple([float(size) * float(dim.energy or 0) / 1e9
                     for size, dim in zip(_hop_bytes(design, result), design.network.flat, strict=True)])
    return Operations(idle * result.at_least_ps / 1e12, flops * (cost.flop_energy or 0.0) / 1e9,
                      moved * (_memory_energy(design) or 0.0) / 1e9, network)


def _memory_energy(design: Design) -> float | None:
    """nJ of a byte of local memory: of the `cost` section, else of the technology that all NPUs have."""
    if design.cost.memory_energy is not None:
        return float(design.cost.memory_energy)
    found = {None if memory.made_of is None else memory.made_of.energy for _, memory in npu_types(design)[1]}
    return found.pop() if len(found) == 1 else None


def _hop_bytes(design: Design, result: Result) -> npt.NDArray[np.float64]:
    """Bytes times the links that they cross [dims]."""
    plan, links = result.plan, result.links
    refuse_uncounted("operation_energy", design, plan)
    sent = bytes_out(plan, links).astype(np.float64)
    if plan.network.backend == Backend.PORTS:
        for place, dim in enumerate(design.network.flat):
            if dim.tag not in HOPS and sent[place]:
                raise UnsupportedError("network.backend", f"closed_form does not count the hops of a {dim.tag}",
                                       expected="contention")
        sent *= np.array([HOPS.get(dim.tag, 0.0) for dim in design.network.flat])
        return sent
    switched = np.array([dim.tag == "switch" for dim in design.network.flat])
    return np.where(switched, 2 * sent, sent)       # as many bytes leave a switch as enter it


def check_operations(design: Design) -> None:
    """Raises InputError that names every missing figure."""
    needs_dims(design.network, "operation_energy", written=True)
    missing = list(without(design, "idle_power"))
    missing += ["cost.flop_energy"] * (design.cost.flop_energy is None)
    missing += ["cost.memory_energy"] * (_memory_energy(design) is None)
    missing += [f"network.dims[{place}].energy" for place, dim in enumerate(design.network.dims)
                if getattr(dim, "energy", None) is None]
    refuse_without("operation_energy", missing, "such as 80 W, 0.5 pJ/FLOP, 3.9 pJ/bit and 2 pJ/bit a hop")
    refuse_backend("operation_energy", design.network, design.network.backend)


OPERATION_ENERGY = Figure(of_both=lambda design, result: operation_energy(design, result).total, record=True,
                          check=check_operations, label="energy by operations",
                          shown=lambda value: f"{plain_number(value)} J")
