"""The *compute* protocol: how long nodes take. Columns in, a column out; `PerNode` makes it from a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64, I64
from astrarium.errors import InputError, PluginError
from astrarium.vocab import Kernel

__all__ = ["ComputeModel", "ComputeNode", "ComputeNodes", "LocalMemory", "PerNode", "durations_of"]


class LocalMemory(Struct, frozen=True):
    """What the design's `memory` says of the NPU: `bandwidth` byte/ns and `capacity` bytes (None: it does not say),
    `latency` ns before the first byte."""

    bandwidth: float | None = None
    latency: float = 0.0
    capacity: float | None = None


class ComputeNode(Struct, frozen=True):
    """One compute node. `num_ops` is NaN and `duration` 0 where the trace has none."""

    num_ops: float
    tensor_bytes: int
    duration: int           # ps, as recorded
    name: str
    host: bool              # runs on the host's CPU
    rank_type: int          # 0: the design's own NPUs, n: entry n of its npu_types
    kernel: Kernel | None = None    # None: flops and bytes are all that is known


def _refusal(index: int, message: str, expected: str) -> InputError:
    return InputError(f"compute node {index}", message, expected=expected)


class ComputeNodes(Struct, frozen=True, eq=False):
    """The compute nodes of one class of equal ranks: columns [nodes], in order of node id.

    `kernel` numbers the node's Kernel in `kernels`, -1: it has none; None: no node has, or what `operators`, of
    recorded traces, finds when it is called: the same two, from the operators that launched the nodes. `refusal(i,
    message, expected)` is an error that names node i, for the model to raise.
    """

    num_ops: F64
    tensor_bytes: I64
    duration: I64
    name: Sequence[str]
    host: npt.NDArray[np.bool_]
    rank_type: int
    kernel: npt.NDArray[np.int32] | None = None
    kernels: Sequence[Kernel] = ()
    memory: LocalMemory = LocalMemory()
    refusal: Callable[[int, str, str], InputError] = _refusal
    operators: Callable[[], tuple[npt.NDArray[np.int32], tuple[Kernel, ...]]] | None = None

    def __len__(self) -> int:
        return len(self.num_ops)

    def node(self, index: int) -> ComputeNode:
        """One row."""
        return ComputeNode(float(self.num_ops[index]), int(self.tensor_bytes[index]), int(self.duration[index]),
                           self.name[index], bool(self.host[index]), self.rank_type, self._kernel(index))

    def _kernel(self, index: int) -> Kernel | None:
        number = -1 if self.kernel is None else int(self.kernel[index])
        return None if number < 0 else self.kernels[number]


class ComputeModel(Protocol):
    """A compute model. Pure: rows are independent of each other, and equal rows take equal times."""

    def durations(self, nodes: ComputeNodes) -> I64:
        """Time of every node, ps [nodes], int64, 0 or more."""
        ...


class PerNode(Struct, frozen=True):
    """A compute model from a function of one node."""

    duration: Callable[[ComputeNode], int]

    def durations(self, nodes: ComputeNodes) -> I64:
        """The function's answers [nodes]."""
        return np.array([self.duration(nodes.node(i)) for i in range(len(nodes))], np.int64)


def durations_of(model: ComputeModel, nodes: ComputeNodes) -> I64:
    """`model.durations(nodes)`, checked. Raises the InputError that the model raises, and PluginError naming the model
    for any other exception, which is the cause."""
    who = f"compute plug-in {type(model).__qualname__}"
    try:
        found = _untyped(model.durations(nodes))
    except InputError:
        raise
    except Exception as error:
        raise PluginError(who, f"raised {type(error).__name__}: {error}") from error
    if not isinstance(found, np.ndarray) or found.dtype != np.int64 or found.shape != (len(nodes),):
        shape = f"{found.dtype} array of shape {found.shape}" if isinstance(found, np.ndarray) else type(found).__name__
        raise PluginError(who, f"durations() gave a {shape}; expected int64 of shape ({len(nodes)},)")
    wrong = np.flatnonzero(found < 0)
    if wrong.size:
        raise PluginError(who, f"durations() gave {found[wrong[0]]} ps for node {nodes.name[int(wrong[0])]!r}; "
                          "expected 0 or more")
    return found


def _untyped(value: object) -> object:
    """What a plug-in gave need not be what its type says."""
    return value
