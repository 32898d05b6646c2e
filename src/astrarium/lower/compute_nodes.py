"""Compute nodes of a class as compute models take them, and the times that these give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import overload

import numpy as np

from astrarium.arrays import I32, I64
from astrarium.engine.plugins.compute import ComputeModel, ComputeNodes, LocalMemory, durations_of
from astrarium.memory.config import Memory
from astrarium.trace.work import TraceClass
from astrarium.vocab import Kernel

__all__ = ["compute_nodes", "local_memory", "timed"]


def local_memory(memory: Memory) -> LocalMemory:
    """What compute models are told of an NPU's memory."""
    return LocalMemory(None if memory.bandwidth is None else float(memory.bandwidth), float(memory.latency),
                       None if memory.capacity is None else float(memory.capacity))


def timed(trace: TraceClass, nodes: I64, model: ComputeModel, memory: Memory, npu_type: int) -> I64:
    """Durations (ps) that a compute model gives to the `nodes` (indexes) of a class."""
    return durations_of(model, compute_nodes(trace, nodes, memory, npu_type))


def compute_nodes(trace: TraceClass, nodes: I64, memory: Memory, npu_type: int) -> ComputeNodes:
    """The `nodes` (indexes) of a class as compute models take them."""
    return ComputeNodes(
        np.asarray(trace.num_ops[nodes], np.float64), trace.tensor_size[nodes].astype(np.int64),
        trace.duration_us[nodes].astype(np.int64) * 1_000_000, _Names(trace, nodes),
        np.asarray(trace.is_cpu[nodes], np.bool_), npu_type, None if trace.kernel is None else trace.kernel[nodes],
        trace.kernels, local_memory(memory),
        lambda index, message, expected: trace.fault(int(nodes[index]), message, expected=expected),
        None if trace.operators is None else partial(_operators, trace.operators, nodes))


class _Names(Sequence[str]):
    """Names of nodes, each made when somebody asks."""

    def __init__(self, trace: TraceClass, nodes: I64) -> None:
        self._name, self._nodes = trace.names, nodes

    def __len__(self) -> int:
        return int(self._nodes.size)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self._one(node) for node in self._nodes[index].tolist()]
        return self._one(int(self._nodes[index]))

    def _one(self, node: int) -> str:
        return "" if self._name is None else self._name(node)


def _operators(find: Callable[[], tuple[I32, tuple[Kernel, ...]]], nodes: I64) -> tuple[I32, tuple[Kernel, ...]]:
    kernel, kernels = find()
    return kernel[nodes], kernels
