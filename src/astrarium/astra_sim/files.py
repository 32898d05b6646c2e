"""ASTRA-sim's own input files and flags: system JSON, network YAML, remote-memory JSON, comm-group JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.astra_sim.collectives import KEYS, CustomCollective
from astrarium.astra_sim.keys import Keys, load_json, load_yaml, show
from astrarium.astra_sim.lowering import AstraDim, AstraSystem, lower_astra_sim
from astrarium.engine.plan import Backend, Plan, Remote, RemoteKind
from astrarium.errors import InputError, nearest
from astrarium.lower.classes import trace_classes
from astrarium.trace import Traces, group_key, groups_of, read_traces
from astrarium.trace.rank_files import ranks_of
from astrarium.trace.work import TraceClass

__all__ = ["AstraInputs", "AstraWorkload", "lower_inputs", "read_inputs", "read_workload", "workload_of"]

LEAST_BANDWIDTH = 1e-9  # GB/s: about one byte per second
SYSTEM_KEYS = {
    "scheduling-policy", "collective-optimization", "local-reduction-delay", "active-chunks-per-dimension", "L", "o",
    "g", "G", "endpoint-delay", "model-shared-bus", "preferred-dataset-splits", "peak-perf", "local-mem-bw",
    "roofline-enabled", "trace-enabled", "replay-only", "track-local-mem", "local-mem-trace-filename",
    "per-node-custom-implementation", *(f"{key}-implementation" for key in KEYS.values()),
    *(f"{key}-implementation-custom" for key in KEYS.values()),
}
FLAGS = ("roofline-enabled", "replay-only", "track-local-mem", "trace-enabled")
IGNORED_BY_ASTRA_SIM = {"boost-mode", "intra-dimension-scheduling", "inter-dimension-scheduling"}
"""Keys of shipped example files that ASTRA-sim reads no longer: reported as unused, like any unknown key."""


class AstraInputs(Struct, frozen=True):
    """Everything that ASTRA-sim's command line names, parsed. `notes` lists keys that nothing reads.

    `memory_trace` is what the files of `track-local-mem` begin with, None where that is off.
    """

    workload: str
    system: AstraSystem
    dims: tuple[AstraDim, ...]
    remote: Remote
    groups: Mapping[str, tuple[int, ...]]
    backend: str
    notes: tuple[str, ...] = field(default=())
    memory_trace: str | None = None

    @property
    def npus(self) -> int:
        """Product of the dims."""
        return int(np.prod([dim.npus for dim in self.dims], dtype=np.int64))


def read_inputs(workload: str, system: str, network: str, memory: str | None, groups: str | None, *, backend: str,
                queues_per_dim: int = 1, injection_scale: float = 1.0, rendezvous: bool = False) -> AstraInputs:
    """Parse the files. `backend` is congestion_unaware or congestion_aware. InputError names file and key."""
    notes: list[str] = []
    parsed = replace(_system(system, notes, queues_per_dim, injection_scale, rendezvous), network=f"{network}: ")
    dims = _network(network)
    npus = int(np.prod([dim.npus for dim in dims], dtype=np.int64))
    notes.extend(f"{each.sources[0]}: {len(each.programs)} programs for {npus} NPUs: those from position {npus} on are "
                 "not used" for each in (*parsed.custom.values(), *parsed.custom_nodes.values())
                 if len(each.programs) > npus)
    if more := [rank for rank in ranks_of(workload) if rank >= npus]:
        notes.append(f"{workload}: {len(more):,} traces, of ranks {npus} and above, are not read: the network has "
                     f"{npus:,} NPUs")
    kinds = {"congestion_unaware": Backend.UNSHARED, "congestion_aware": Backend.LINKS}
    if not 1 <= queues_per_dim <= 2**20:
        raise InputError("--num-queues-per-dim", str(queues_per_dim), expected="1 to 1,048,576")
    if not 0 <= injection_scale < 2**20:
        raise InputError("--injection-scale", str(injection_scale), expected="a number from 0 to 1,048,576")
    if backend not in kinds:
        raise InputError("--backend", repr(backend), expected=" or ".join(kinds), did_you_mean=nearest(backend, kinds))
    remote = Remote() if memory is None else _memory(memory, notes)
    chosen = {} if groups is None or "empty" in groups else _groups(groups)
    return AstraInputs(workload, parsed, dims, remote, chosen, kinds[backend], tuple(notes), _memory_trace(system))


class AstraWorkload(Struct, frozen=True, eq=False):
    """What was read of a workload: its traces, the same by index, and all communicator groups."""

    traces: Traces
    classes: Sequence[TraceClass]
    groups: Mapping[str, tuple[int, ...]]


def read_workload(inputs: AstraInputs) -> AstraWorkload:
    """Read the traces of every rank; process groups that they define replace those of the comm-group file."""
    return workload_of(inputs, read_traces(inputs.workload, inputs.npus))


def workload_of(inputs: AstraInputs, traces: Traces) -> AstraWorkload:
    """The workload of traces that are already read."""
    groups = {**inputs.groups, **groups_of(traces)}
    for name, members in groups.items():
        outside = [m for m in members if m >= inputs.npus]
        if outside:
            raise InputError(f"comm group {name}", f"rank {outside[0]} is outside the network",
                             expected=f"ranks 0 to {inputs.npus - 1}")
    return AstraWorkload(traces, trace_classes(traces, list(groups)), groups)


def lower_inputs(inputs: AstraInputs, workload: AstraWorkload) -> Plan:
    """The Plan of parsed inputs and their workload."""
    groups = [np.array(members, dtype=np.int32) for members in workload.groups.values()]
    return lower_astra_sim(workload.classes, groups, inputs.system, inputs.dims, inputs.backend, inputs.remote)


def _system(path: str, notes: list[str], queues: int, injection_scale: float, rendezvous: bool) -> AstraSystem:
    values = load_json(path)
    keys = Keys(path, values)
    for key in values:
        if key not in SYSTEM_KEYS:
            close = None if key in IGNORED_BY_ASTRA_SIM else nearest(key, SYSTEM_KEYS)
            hint = f"; did you mean {close!r}?" if close else ""
            notes.append(f"{path}: key {key!r} is not read by ASTRA-sim{hint}")
    notes.extend(f"{path}: {key}: {show(values[key])} counts as on in ASTRA-sim, as everything but the number 0"
                 for key in FLAGS if values.get(key, 0) in (False, None, "", "0", "false") and keys.flag(key))
    if "preferred-dataset-splits" not in values:
        raise InputError(f"{path}: preferred-dataset-splits", "missing", expected="a whole number above 0")
    lists = {op: keys.words(f"{key}-implementation") for op, key in KEYS.items()}
    bus = None
    if keys.truncated("model-shared-bus", 0) == 1:
        bus = tuple(keys.number(key, 0.0, high=2**31) for key in ("L", "o", "g", "G"))
    return AstraSystem(
        splits=keys.truncated("preferred-dataset-splits", 0, low=1),
        implementations={op: names for op, names in lists.items() if names is not None},
        custom={op: _custom(path, f"{key}-implementation-custom", keys) for op, key in KEYS.items()
                if f"{key}-implementation-custom" in values},
        custom_nodes=_custom_nodes(path, values.get("per-node-custom-implementation")),
        scheduling=keys.word("scheduling-policy", "LIFO", ("LIFO", "FIFO", "EXPLICIT")),
        optimization=keys.word("collective-optimization", "", ("baseline", "localBWAware"))
        if "collective-optimization" in values else None,
        endpoint_delay=keys.truncated("endpoint-delay", 0) if "endpoint-delay" in values else None,
        active_chunks=keys.truncated("active-chunks-per-dimension", 1, low=1),
        queues_per_dim=queues, shared_bus=bus,
        local_mem_bw=_bandwidth(keys), peak_perf=keys.number("peak-perf", 0.0),
        roofline=keys.flag("roofline-enabled"), replay_only=keys.flag("replay-only"), injection_scale=injection_scale,
        rendezvous=rendezvous, local_reduction_delay=keys.truncated("local-reduction-delay", 1),
        where=f"{path}: ")


def _memory_trace(path: str) -> str | None:
    keys = Keys(path, load_json(path))
    name = keys.values.get("local-mem-trace-filename", "local_mem_trace")
    if not keys.flag("track-local-mem"):
        return None
    if not isinstance(name, str) or not name or "\0" in name:
        raise InputError(f"{path}: local-mem-trace-filename", show(name), expected="what names of files begin with")
    return name


def _bandwidth(keys: Keys) -> float:
    """local-mem-bw; 0 or none: reductions take no time."""
    value = keys.number("local-mem-bw", 0.0)
    return float(keys.number("local-mem-bw", 0.0, low=LEAST_BANDWIDTH)) if value else 0.0


def _custom(path: str, key: str, keys: Keys) -> CustomCollective:
    names = keys.words(key)
    if names is None or len(names) != 1:
        raise InputError(f"{path}: {key}", show(names), expected="a list with one trace prefix")
    return custom_of_prefix(names[0])


def _custom_nodes(path: str, yaml_path: Any) -> dict[int, CustomCollective]:
    if yaml_path is None:
        return {}
    if not isinstance(yaml_path, str):
        raise InputError(f"{path}: per-node-custom-implementation", show(yaml_path), expected="a path of a YAML file")
    table = load_yaml(yaml_path)
    if not all(type(node) is int and node >= 0 and isinstance(prefix, str) for node, prefix in table.items()):
        raise InputError(yaml_path, "a mapping with other things in it", expected="node id: trace prefix")
    return {node: custom_of_prefix(prefix) for node, prefix in table.items()}


def custom_of_prefix(prefix: str) -> CustomCollective:
    """Read `prefix.<position>.et` as a custom collective."""
    from astrarium.astra_sim.custom import custom_collective

    try:
        os.fsencode(prefix)
    except UnicodeEncodeError:
        prefix = "\0"
    if "\0" in prefix:
        raise InputError("custom collective", "a trace prefix that no file can have", expected="<prefix>.<position>.et")
    return custom_collective(read_traces(prefix))


def _network(path: str) -> tuple[AstraDim, ...]:
    values = load_yaml(path)
    rows = []
    for key in ("topology", "npus_count", "bandwidth", "latency"):
        if not isinstance(values.get(key), list) or not values[key]:
            raise InputError(f"{path}: {key}", show(values.get(key)), expected="a list, one entry per dim")
        rows.append(values[key])
    if len({len(row) for row in rows}) > 1:
        raise InputError(path, "lists of different lengths",
                         expected="topology, npus_count, bandwidth and latency per dim")
    dims = []
    for i, (topology, npus, bandwidth, latency) in enumerate(zip(*rows, strict=True)):
        keys = Keys(path, {f"npus_count[{i}]": npus, f"bandwidth[{i}]": bandwidth, f"latency[{i}]": latency,
                            f"topology[{i}]": topology})
        dims.append(AstraDim(keys.word(f"topology[{i}]", "", ("Ring", "FullyConnected", "Switch")),
                             keys.number(f"npus_count[{i}]", 0, low=1, whole=True),
                             keys.number(f"bandwidth[{i}]", 0.0, low=LEAST_BANDWIDTH),
                             keys.number(f"latency[{i}]", 0.0)))
    if np.prod([float(dim.npus) for dim in dims]) > 2**24:
        raise InputError(f"{path}: npus_count", "more than 16,777,216 NPUs")
    return tuple(dims)


def _memory(path: str, notes: list[str]) -> Remote:
    values = load_json(path)
    keys = Keys(path, values)
    names = {"NO_MEMORY_EXPANSION": RemoteKind.NONE, "PER_NODE_MEMORY_EXPANSION": RemoteKind.PER_NODE,
             "PER_NPU_MEMORY_EXPANSION": RemoteKind.PER_NPU, "MEMORY_POOL": RemoteKind.POOL}
    known = {"memory-type", "num-nodes", "num-npus-per-node", "remote-mem-latency", "remote-mem-bw"}
    notes.extend(f"{path}: key {key!r} is not read by ASTRA-sim" for key in values if key not in known)
    kind = names[keys.word("memory-type", "", tuple(names))]
    if kind == RemoteKind.NONE:
        return Remote()
    per_node = keys.truncated("num-npus-per-node", 0, low=1) if kind == RemoteKind.PER_NODE else 1
    bandwidth = keys.truncated("remote-mem-bw", 0, low=1, high=2**62)
    return Remote(kind, keys.truncated("remote-mem-latency", 0, high=2**50), float(bandwidth), per_node)


def _groups(path: str) -> dict[str, tuple[int, ...]]:
    """{group id: ranks}; ids are positive integers, ranks distinct."""
    groups = {}
    for name, members in load_json(path).items():
        number = group_key(name)
        if not (number.isascii() and number.isdigit()) or number == "0":
            raise InputError(f"{path}: {show(name)}", "not a group id",
                             expected="a whole number above 0 (0 is all ranks)")
        good = isinstance(members, list) and all(type(m) is int and 0 <= m < 2**31 for m in members)
        if not good or not members or len(set(members)) != len(members):
            raise InputError(f"{path}: group {name[:60]}", show(members), expected="a list of distinct ranks")
        groups[number] = tuple(members)
    return groups


