"""Plug-ins of a design: those that it names are made for the run, and compute models and choices are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from astrarium import registry
from astrarium.design import Design
from astrarium.engine.plan import Dim
from astrarium.errors import PluginError
from astrarium.memory.config import Memory
from astrarium.trace.work import TraceClass
from astrarium.vocab import CommOp, Kernel

if TYPE_CHECKING:
    from astrarium.engine.plugins import CollectiveChoice, ComputeModel, LocalMemory, Plugins
    from astrarium.engine.plugins.compute import ComputeNodes

__all__ = ["chosen_algorithms", "compute_nodes", "has_medium", "local_memory", "plugins_of", "timed"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
OWN = {"scheduling": ("lifo", "fifo", "priority"),
       "remote": ("none", "per_npu", "per_node", "pool"), "choice": ("auto", "none")}
FOREIGN = ("library", "ns3")      # back ends of ours that take part in a run as plug-ins do


def plugins_of(design: Design, given: Plugins | None = None) -> Plugins | None:
    """The plug-ins of one run: `given`, and for what it leaves open those that the design names; None: there are none.

    Raises InputError for a library that cannot be opened and for a plug-in that cannot be imported.
    """
    network, remote, policy = design.network.backend, design.memory.remote.kind, design.collective.scheduling
    named = {"network": not has_medium(design), "memory": remote not in OWN["remote"],
             "scheduling": policy not in OWN["scheduling"], "choice": design.collective.choice not in OWN["choice"]}
    if not any(named.values()):
        return given
    from astrarium.engine.plugins import Plugins, load
    from astrarium.engine.plugins.given import ask, checked

    found = given or Plugins()
    if named["network"] and found.network is None:
        settings = _ns3(design) if network == "ns3" else (design.network.options,)
        found = replace(found, network=load(design.network.library, design.network.options)
                        if design.network.library is not None else _maker("backend", network, *settings))
    if named["memory"] and found.memory is None:
        found = replace(found, memory=_maker("remote", remote, design.memory.remote))
    if named["scheduling"] and found.scheduling is None:
        found = replace(found, scheduling=_maker("scheduling", policy))
    if named["choice"] and found.choice is None:
        choice = design.collective.choice
        who = f"collective choice plug-in {choice}"
        found = replace(found, choice=checked(who, ask(who, _maker("choice", choice)), ("algorithms",)))
    return found


def _ns3(design: Design) -> tuple[object, ...]:
    """What ns-3 is told beside the dims: its section, and the graph of a fabric."""
    from astrarium.network.planned import foreign_graph

    return design.network.ns3, foreign_graph(design.network)


def has_medium(design: Design) -> bool:
    """Whether the engine itself moves the bytes: the back end is no plug-in."""
    name = design.network.backend
    return name in registry.built_ins("backend") and name not in FOREIGN


def _maker(kind: str, name: str, *settings: object) -> Callable[..., Any]:
    """The registered factory, which is told the design's settings last."""
    factory: Callable[..., Any] = registry.load(kind, name)

    def make(*arguments: object) -> Any:
        return factory(*arguments, *settings)

    make.__qualname__ = name
    return make


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


def local_memory(memory: Memory) -> LocalMemory:
    """What compute models are told of an NPU's memory."""
    from astrarium.engine.plugins.compute import LocalMemory

    return LocalMemory(None if memory.bandwidth is None else float(memory.bandwidth), float(memory.latency),
                       None if memory.capacity is None else float(memory.capacity))


def timed(trace: TraceClass, nodes: I64, model: ComputeModel, memory: Memory, npu_type: int) -> I64:
    """Durations (ps) that a compute model gives to the `nodes` (indexes) of a class."""
    from astrarium.engine.plugins.compute import durations_of

    return durations_of(model, compute_nodes(trace, nodes, memory, npu_type))


def compute_nodes(trace: TraceClass, nodes: I64, memory: Memory, npu_type: int) -> ComputeNodes:
    """The `nodes` (indexes) of a class as compute models take them."""
    from astrarium.engine.plugins.compute import ComputeNodes

    return ComputeNodes(
        np.asarray(trace.num_ops[nodes], np.float64), trace.tensor_size[nodes].astype(np.int64),
        trace.duration_us[nodes].astype(np.int64) * 1_000_000, _Names(trace, nodes),
        np.asarray(trace.is_cpu[nodes], np.bool_), npu_type, None if trace.kernel is None else trace.kernel[nodes],
        trace.kernels, local_memory(memory),
        lambda index, message, expected: trace.fault(int(nodes[index]), message, expected=expected),
        None if trace.operators is None else partial(_operators, trace.operators, nodes))


def _operators(find: Callable[[], tuple[I32, tuple[Kernel, ...]]], nodes: I64) -> tuple[I32, tuple[Kernel, ...]]:
    kernel, kernels = find()
    return kernel[nodes], kernels


def chosen_algorithms(choice: CollectiveChoice, op: CommOp, size: int, npus: Sequence[int],
                      dims: Sequence[Dim]) -> tuple[str, ...]:
    """What a choice of algorithms says for one collective: one entry per dim, or none. Raises PluginError."""
    who = f"collective choice plug-in {type(choice).__qualname__}"
    try:
        entries: tuple[object, ...] = tuple(choice.algorithms(op, size, npus, dims))
    except Exception as error:
        raise PluginError(who, f"raised {type(error).__name__}: {error}") from error
    from astrarium.collective.algorithms import has_op
    from astrarium.collective.config import parse_algorithm

    if len(entries) not in (0, 1, len(dims)):
        raise PluginError(who, f"algorithms() names {len(entries)} algorithms for {len(dims)} dims")
    known: list[str] = []
    for entry in entries:
        name = parse_algorithm(entry)[0] if isinstance(entry, str) else ""
        if name not in registry.Kind("algorithm") or not has_op(name, op):
            raise PluginError(who, f"algorithms() names {entry!r}, which has no {op.name.lower()}")
        known.append(str(entry))
    return tuple(known * len(dims) if len(known) == 1 else known)
