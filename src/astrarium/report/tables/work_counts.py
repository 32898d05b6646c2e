"""What a generated workload does, counted: operators, collectives and messages, memory and parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from astrarium.arrays import I64
from astrarium.compute.config import Compute, Roofline
from astrarium.compute.durations import DURATIONS
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.lower.compute_nodes import timed
from astrarium.lower.placement import placed_of
from astrarium.lower.units import on_free_units
from astrarium.trace.work import Generated, TraceClass
from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.config import Workload
from astrarium.workload.footprint import training_footprint
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.disaggregated import Disaggregated
from astrarium.workload.inference.footprint import inference_footprint
from astrarium.workload.inference.passes import program_of
from astrarium.workload.mesh import Mesh
from astrarium.workload.pieces import Step
from astrarium.workload.training import recipe_of
from astrarium.workload.transformer import Transformer

__all__ = ["Operator", "Traffic", "operators", "stage_memory", "traffic"]

NUMBERED = re.compile(r"(?:batch|block|round|pass)?[0-9]+")
WHOLE = ("dp", "edp")
P2P = {int(NodeKind.COMM_SEND): "send", int(NodeKind.COMM_RECV): "receive"}


class Operator(Struct):
    """An operator of a block over an iteration: `times` per rank of each class that runs it; sums over all ranks.

    FLOPs: `gemm` of GEMM class (None: classes are unknown), `vector` the others (None: unknown).
    `time` in ps, None where nothing says it.
    """

    block: str
    name: str
    times: list[int] = field(default_factory=list)
    runs: int = 0
    gemm: float | None = 0.0
    vector: float | None = None
    bytes: int = 0
    time: int | None = None


class Traffic(Struct):
    """Collectives or messages of equal operation, axes, group and payload: `times` per rank of each class that has
    them, and the steps that they are of. `bytes` as Chakra counts them (all_gather: the shard)."""

    op: str
    axes: str
    ranks: int
    bytes: int
    times: list[int] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)


def _parts(name: str) -> list[str]:
    """`batch3.block12.forward.layer.q` -> forward, layer, q."""
    return [part for part in name.split(".") if not NUMBERED.fullmatch(part)]


def _names(trace: TraceClass) -> Iterator[tuple[int, list[str]]]:
    for node in range(trace.type.size):
        yield node, _parts(trace.names(node) if trace.names else NodeKind(int(trace.type[node])).name.lower())


# ------------------------------------------------------------ operators
def operators(design: Design, made: Generated) -> list[Operator]:
    """Compute nodes by block and name, in order of appearance; what is done once per iteration (`step`) last."""
    found: dict[tuple[str, str], Operator] = {}
    gemm = _gemm_flops(design.workload)
    for trace in made.classes:
        times = _durations(on_free_units(design, design.compute), design, trace)
        counts: dict[tuple[str, str], int] = {}
        for node, parts in _names(trace):
            if trace.type[node] != NodeKind.COMP:
                continue
            key = _block_and_name(parts)
            counts[key] = counts.get(key, 0) + 1
            row = found.setdefault(key, Operator(*key, gemm=None if gemm is None else 0.0))
            _count(row, trace, node, gemm or {}, ".".join(parts), times)
        for key, count in counts.items():
            found[key].times.append(count)
    blocks = dict.fromkeys(row.block for row in found.values())
    order = sorted(blocks, key=lambda block: block == "step")
    return [row for block in order for row in found.values() if row.block == block]


def _block_and_name(parts: list[str]) -> tuple[str, str]:
    """forward.layer.q -> (layer, forward q); step.optimizer.step -> (step, optimizer.step)."""
    if len(parts) < 3 or parts[0] == "step":
        return parts[0] if len(parts) > 1 else "", ".".join(parts[1:] if len(parts) > 1 else parts)
    return parts[1], f"{parts[0]} {'.'.join(parts[2:])}"


def _count(row: Operator, trace: TraceClass, node: int, gemm: Mapping[tuple[str, float], float], name: str,
           times: I64 | None) -> None:
    ranks, flops = trace.ranks.size, float(trace.num_ops[node])
    row.runs += ranks
    row.bytes += int(trace.tensor_size[node]) * ranks
    if flops == flops:      # noqa: PLR0124 - not NaN
        product = gemm.get((name.partition(".")[2], flops), 0.0)
        row.gemm = None if row.gemm is None else row.gemm + product * ranks
        row.vector = (row.vector or 0.0) + (flops - product) * ranks
    if times is not None:
        row.time = (row.time or 0) + int(times[node]) * ranks


def _durations(compute: Compute, design: Design, trace: TraceClass) -> I64 | None:
    """Time of every compute node alone in ps; None where the model has no answer."""
    rule = DURATIONS[design.compat]
    if isinstance(compute, Roofline):
        flops = np.nan_to_num(trace.num_ops)
        bandwidth = float(design.memory.bandwidth or 0)
        return rule.roofline(flops, trace.tensor_size, compute.running_peak, bandwidth) if bandwidth else None
    nodes = np.flatnonzero(trace.type == NodeKind.COMP)
    found = np.zeros(trace.type.size, np.int64)
    try:
        found[nodes] = timed(trace, nodes, compute, design.memory, 0)
    except InputError:
        return None
    return found


def _gemm_flops(workload: Workload) -> dict[tuple[str, float], float] | None:
    """(step, its FLOPs) -> those of GEMM class, for every step that the model has; None if unknown."""
    steps = _STEPS.get(type(workload))
    if steps is None:
        return None
    return {(".".join(_parts(step.name)), float(round(step.flops))): float(round(step.gemm))
            for step in steps(workload) if step.gemm}


def _training_steps(workload: Any) -> Iterator[Step]:
    for block in recipe_of(workload).kinds:
        yield from (*block.forward.steps, *block.backward.steps)


def _inference_steps(workload: Any) -> Iterator[Step]:
    program = program_of(workload)
    for each in {(each.model, each.packed): each for each in program.rounds}.values():
        for block in program.models[each.model].pieces(each.packed).blocks:
            yield from block.forward.steps


def _pools_steps(workload: Any) -> Iterator[Step]:
    for name in ("prefill", "decode"):
        yield from _inference_steps(workload.phase(name))


_STEPS: Mapping[type[Workload], Callable[[Any], Iterator[Step]]] = MappingProxyType({
    Transformer: _training_steps, Inference: _inference_steps, Disaggregated: _pools_steps})


# ------------------------------------------------------------ collectives and messages
def traffic(made: Generated, mesh: Mesh | None) -> list[Traffic]:
    """Collectives, sends and receives, in order of appearance. Axes are known where the workload has a mesh."""
    found: dict[tuple[str, str, int, int], Traffic] = {}
    ranks = sum(trace.ranks.size for trace in made.classes)
    for trace in made.classes:
        counts: dict[tuple[str, str, int, int], int] = {}
        comm = np.flatnonzero(trace.type >= NodeKind.COMM_SEND)
        slot = dict(zip(comm.tolist(), range(comm.size) if trace.slot is None else trace.slot.tolist(), strict=True))
        groups = {number: _group(trace, number, made, mesh, ranks) for number in set(slot.values())}
        for node, parts in _names(trace):
            if node not in slot:
                continue
            kind = int(trace.type[node])
            op = P2P.get(kind) or CommOp(int(trace.comm_type[node])).name.lower()
            axes, members = _peer(trace, slot[node], mesh) if kind in P2P else groups[slot[node]]
            key = (op, axes, members, int(trace.comm_size[node]))
            row = found.setdefault(key, Traffic(*key))
            counts[key] = counts.get(key, 0) + 1
            step = ".".join(part for part in parts[1:] if part != op) or parts[0]
            if step not in row.steps:
                row.steps.append(step)
        for key, count in counts.items():
            found[key].times.append(count)
    return list(found.values())


def _group(trace: TraceClass, slot: int, made: Generated, mesh: Mesh | None, ranks: int) -> tuple[str, int]:
    """(axes, ranks) of the group of a class's first rank."""
    number = int(trace.slot_b[0, slot])
    if trace.slot_a[0, slot] >= 0:
        return "", 0
    if number < 0:
        return "all", ranks
    members = made.groups[number]
    return _varying(mesh, members), members.size


def _peer(trace: TraceClass, slot: int, mesh: Mesh | None) -> tuple[str, int]:
    return _varying(mesh, np.array([trace.ranks[0], trace.slot_a[0, slot]], np.int32)), 2


def _varying(mesh: Mesh | None, members: npt.NDArray[np.int32]) -> str:
    """The axes along which ranks differ; `dp` and `edp` where all their parts do."""
    if mesh is None:
        return ""
    axes = [axis for axis in mesh.axes if np.unique(mesh.coordinate(axis)[members]).size > 1]
    for whole in WHOLE:
        parts = mesh.real((whole,))
        if parts and set(parts) <= set(axes):
            axes = [whole if axis == parts[0] else axis for axis in axes if axis == parts[0] or axis not in parts]
    return " ".join(axes)


# ------------------------------------------------------------ memory
def stage_memory(design: Design) -> list[dict[str, float]]:
    """Bytes of a rank of every pipeline stage in its local memory when it holds most, by what they are; empty where
    nobody knows."""
    count = _MEMORY.get(type(design.workload))
    stages = () if count is None else count(design)
    return [{**{name: getattr(stage, name) for name in stage.__struct_fields__}, "total": stage.total}
            for stage in stages]


def _training(design: Design) -> Iterable[Any]:
    assert isinstance(design.workload, Transformer)
    return training_footprint(design.workload, placed=placed_of(design))


def _inference(design: Design) -> Iterable[Any]:
    assert isinstance(design.workload, Inference)
    return inference_footprint(design.workload)


_MEMORY: Mapping[type[Workload], Callable[[Design], Iterable[Any]]] = MappingProxyType({
    Transformer: _training, Inference: _inference})
