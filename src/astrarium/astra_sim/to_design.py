"""ASTRA-sim's inputs as a Design with `compat: astra_sim`: the inverse of what lowering does with such a design."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from astrarium.astra_sim.collectives import KEYS
from astrarium.astra_sim.files import AstraInputs
from astrarium.astra_sim.keys import load_json
from astrarium.astra_sim.lowering import AstraDim, AstraSystem
from astrarium.collective.config import Collective, Custom
from astrarium.compute.config import Compute, Replay, Roofline
from astrarium.design import AstraSim, Design, SharedBus
from astrarium.engine.plan import Backend, RemoteKind
from astrarium.engine.plan import Remote as RemotePlan
from astrarium.errors import InputError, UnsupportedError
from astrarium.memory.config import Memory, Remote
from astrarium.network.config import Dim, FullyConnected, Network, Ring, Switch
from astrarium.vocab import CommOp
from astrarium.workload.config import Trace

__all__ = ["design_of"]

SHAPES: Mapping[str, type[Any]] = MappingProxyType({"Ring": Ring, "Switch": Switch, "FullyConnected": FullyConnected})
ALGORITHMS: Mapping[str, str] = MappingProxyType({
    "ring": "ring", "direct": "direct", "halvingDoubling": "halving_doubling", "doubleBinaryTree": "double_binary_tree",
})
BACKENDS = MappingProxyType({Backend.UNSHARED: "closed_form", Backend.LINKS: "contention"})
SCHEDULING = MappingProxyType({"LIFO": "lifo", "FIFO": "fifo", "EXPLICIT": "priority"})
COMPOSITION = MappingProxyType({"baseline": "baseline", "localBWAware": "blueconnect"})
DEFAULT_ENDPOINT_DELAY = 10     # ns; what ASTRA-sim does without the key, whatever the injection scale


def design_of(inputs: AstraInputs, system_path: str, groups_path: str | None) -> Design:
    """The design that gives the same answer. Raises UnsupportedError for what a design file has no word for."""
    system = inputs.system
    if system.custom_nodes:
        raise UnsupportedError(f"{system_path}: per-node-custom-implementation",
                               "a design chooses algorithms per operation, not per node",
                               expected="<operation>-implementation-custom")
    if system.optimization is None and len(inputs.dims) > 1 and CommOp.ALL_REDUCE in system.implementations:
        raise InputError(f"{system_path}: collective-optimization", "missing, and an all_reduce may cross several dims",
                         expected=" or ".join(COMPOSITION))
    groups = None if groups_path is None or "empty" in groups_path else groups_path
    return Design(workload=Trace(f"{inputs.workload}.*.et", groups), compat="astra_sim",
                  collective=_collective(system, system_path),
                  network=Network(tuple(map(_dim, inputs.dims)), BACKENDS[inputs.backend]), compute=_compute(system),
                  memory=_memory(system, inputs.remote), astra_sim=_astra_sim(system))


def _dim(dim: AstraDim) -> Dim:
    made: Dim = SHAPES[dim.topology](dim.npus, bandwidth=f"{dim.bandwidth!r} GiB/s", latency=f"{dim.latency!r} ns")
    return made


def _collective(system: AstraSystem, path: str) -> Collective:
    lists: dict[str, Any] = {op.name.lower(): tuple(_algorithm(f"{path}: {KEYS[op]}-implementation[{i}]", name)
                                    for i, name in enumerate(names)) for op, names in system.implementations.items()}
    delay = DEFAULT_ENDPOINT_DELAY
    if system.endpoint_delay is not None:
        delay = int(system.endpoint_delay * system.injection_scale)
    return Collective(**lists, custom=_custom(system, path), composition=COMPOSITION[system.optimization or "baseline"],
                      chunks=system.splits, active_chunks=system.active_chunks,
                      scheduling=SCHEDULING[system.scheduling], endpoint_delay=f"{delay} ns")


def _algorithm(path: str, name: str) -> str:
    word = name.rstrip("0123456789")
    window = name[len(word):]
    if word not in ALGORITHMS:
        raise UnsupportedError(path, repr(name), expected=", ".join(ALGORITHMS))
    return ALGORITHMS[word] + (f":{int(window)}" if window else "")


def _custom(system: AstraSystem, path: str) -> Custom:
    """The prefixes that the file gives; `system` holds what they were read to."""
    if not system.custom:
        return Custom()
    values = load_json(path)
    return Custom(**{op.name.lower(): values[f"{KEYS[op]}-implementation-custom"][0] for op in system.custom})


def _compute(system: AstraSystem) -> Compute:
    if system.replay_only:
        return Replay(everything=True)
    return Roofline(f"{system.peak_perf!r} TFLOP/s") if system.roofline else Replay()


def _memory(system: AstraSystem, remote: RemotePlan) -> Memory:
    local: dict[str, Any] = {"bandwidth": f"{system.local_mem_bw!r} GB/s"} if system.local_mem_bw else {}
    if remote.kind == RemoteKind.NONE:
        return Memory(**local)
    share = remote.npus_per_node if remote.kind == RemoteKind.PER_NODE else None
    far = Remote(remote.kind.name.lower(), f"{remote.bandwidth!r} GB/s", f"{remote.latency} ns", share)
    return Memory(**local, remote=far)


def _astra_sim(system: AstraSystem) -> AstraSim:
    bus: SharedBus | None = None
    if system.shared_bus is not None:
        latency, overhead, gap, per_byte = system.shared_bus
        bus = SharedBus(latency=f"{latency!r} ns", overhead=f"{overhead!r} ns", gap=f"{gap!r} ns",
                        gap_per_byte=per_byte,
                        local_reduction_delay=f"{system.local_reduction_delay} ns")
    return AstraSim(queues_per_dim=system.queues_per_dim, rendezvous=system.rendezvous, shared_bus=bus)
