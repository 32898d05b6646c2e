"""Design -> Plan under ASTRA-sim's rule book: a design as the values of ASTRA-sim's own files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import numpy as np
from msgspec.structs import replace

from astrarium.astra_sim.collectives import KEYS, CustomCollective
from astrarium.astra_sim.files import custom_of_prefix
from astrarium.astra_sim.lowering import AstraDim, AstraSystem, lower_astra_sim
from astrarium.astra_sim.rules import ALL, AstraRules
from astrarium.collective.config import (
    OPERATIONS,
    Collective,
    active_chunks_of,
    chunks_of,
    composition_of,
    parse_algorithm,
)
from astrarium.compute.config import Replay, Roofline
from astrarium.design import Design
from astrarium.engine.plan import Backend, Kind, Plan
from astrarium.errors import UnsupportedError
from astrarium.lower.work import Work, own_slots
from astrarium.memory.access import plan_remote
from astrarium.network.config import LinkDim, Ring
from astrarium.system.config import System
from astrarium.units import Bandwidth, FlopRate, number_in
from astrarium.vocab import CommOp

__all__ = ["astra_system", "lower_astra_design", "no_live"]

BACKENDS = {"closed_form": Backend.UNSHARED, "contention": Backend.LINKS}
SCHEDULING = {"lifo": "LIFO", "fifo": "FIFO", "priority": "EXPLICIT"}
COMPOSITION = {"baseline": "baseline", "blueconnect": "localBWAware"}
TOPOLOGY = {"ring": "Ring", "switch": "Switch", "fully_connected": "FullyConnected"}
ALGORITHM = {"ring": "ring", "direct": "direct", "halving_doubling": "halvingDoubling",
             "double_binary_tree": "doubleBinaryTree"}
BY_TURNS = (Kind.SEND, Kind.RECV, Kind.REMOTE)      # what only ASTRA-sim 2 has, beside collectives


def lower_astra_design(design: Design, work: Work, plugins: object | None = None, kept: object | None = None,
                       rules: AstraRules = ALL) -> Plan:
    """The Plan of a design with `compat: astra_sim` (less than all `rules`: see `rules`). Raises
    UnsupportedError for what ASTRA-sim does not have."""
    del kept        # ASTRA-sim's algorithms are machines
    if plugins is not None:
        raise UnsupportedError("compat", "ASTRA-sim's rule book takes no plug-ins",
                               expected="compat: none, or no plug-ins")
    for path, what, expected in _foreign(design):
        raise UnsupportedError(path, f"{what} under compat: astra_sim", expected=expected)
    dims = [_dim(index, dim) for index, dim in enumerate(design.network.flat)]
    classes = [own_slots(trace) for trace in work.classes]
    plan = lower_astra_sim(classes, work.groups, astra_system(design), dims, BACKENDS[design.network.backend],
                           plan_remote(design.memory.remote), rules)
    return _at_once(plan, design.system)


def _at_once(plan: Plan, system: System) -> Plan:
    """With several collectives at once, as in ASTRA-sim 1, where the queues of the dims order their chunks. It had no
    other communication, and in ASTRA-sim 2, which has, everything takes turns."""
    if system.comm_streams in ("auto", 1):
        return plan
    if any(np.isin(program.kind, BY_TURNS).any() for program in plan.programs) or any(
            each.custom is not None for each in plan.collectives):
        raise UnsupportedError("system.comm_streams", f"{system.comm_streams} under compat: astra_sim, with sends, "
                               "receives, remote memory or custom collectives", expected="1: they take turns")
    return replace(plan, lanes=system.lanes(1))


def _foreign(design: Design) -> Iterator[tuple[str, str, str]]:
    """(path, what is wrong, what was expected) of settings that only the native rule book has."""
    defaults = System()
    for name in ("compute_streams", "p2p_streams", "copy_streams", "cpu_threads", "placement"):
        if getattr(design.system, name) != getattr(defaults, name):
            yield f"system.{name}", "cannot be chosen", f"{getattr(defaults, name)}"
    if design.network.backend not in BACKENDS:
        yield "network.backend", f"{design.network.backend} does not exist", ", ".join(BACKENDS)
    if design.collective.scheduling not in SCHEDULING:
        yield "collective.scheduling", f"{design.collective.scheduling} does not exist", ", ".join(SCHEDULING)
    if not isinstance(design.compute, (Replay, Roofline)):
        yield "compute.model", f"{design.compute.tag} does not exist", "replay, roofline"
    if design.memory.remote.over != "own":
        yield "memory.remote.over", f"{design.memory.remote.over} does not exist", "own"
    yield from ((f"memory.tiers[{number}].dim", "memories at switches do not exist", "no dim")
                for number, tier in enumerate(design.memory.tiers) if tier.dim is not None)
    if design.memory.remote.levels:
        yield "memory.remote.levels", "a pool behind switches does not exist", "a pool that serves one access at a time"
    if design.npu_types:
        yield "npu_types", "NPUs cannot differ", "no npu_types"
    if composition_of(design.collective) not in COMPOSITION:
        yield "collective.composition", f"{design.collective.composition} does not exist", ", ".join(COMPOSITION)
    if not float(design.collective.endpoint_delay).is_integer():
        yield "collective.endpoint_delay", "is not whole ns, which it must be", "whole ns"
    for name in OPERATIONS:
        chosen = getattr(design.collective, name) or getattr(design.collective.custom, name)
        if chosen and CommOp[name.upper()] not in KEYS:
            yield f"collective.{name}", f"{name} cannot be chosen", "no algorithm for it"


def _dim(index: int, dim: LinkDim) -> AstraDim:
    if dim.tag not in TOPOLOGY or (isinstance(dim, Ring) and dim.one_way):
        raise UnsupportedError(f"network.dims[{index}].shape", f"{dim.tag} does not exist under compat: astra_sim",
                               expected="ring (two-way), switch or fully_connected")
    link = float(dim.message_bandwidth)
    typed = number_in(link, Bandwidth, "GiB/s")
    return AstraDim(TOPOLOGY[dim.tag], dim.npus, link * 1e9 / (1 << 30) if typed is None else typed, dim.hop_latency)


def astra_system(design: Design) -> AstraSystem:
    """What ASTRA-sim's system JSON and flags would say."""
    compute, bandwidth = design.compute, design.memory.bandwidth
    bus = design.astra_sim.shared_bus
    peak = compute.peak if isinstance(compute, Roofline) else 0.0
    teraflops = number_in(float(peak), FlopRate, "TFLOP/s")
    return AstraSystem(
        splits=chunks_of(design.collective), implementations=_implementations(design.collective),
        custom=_customs(design.collective), scheduling=SCHEDULING[design.collective.scheduling],
        optimization=COMPOSITION[composition_of(design.collective)],
        endpoint_delay=int(design.collective.endpoint_delay),
        active_chunks=active_chunks_of(design.collective), queues_per_dim=design.astra_sim.queues_per_dim,
        local_mem_bw=0.0 if bandwidth is None else float(bandwidth),
        peak_perf=float(peak) / 1000 if teraflops is None else teraflops, roofline=isinstance(compute, Roofline),
        replay_only=isinstance(compute, Replay) and compute.everything, rendezvous=design.astra_sim.rendezvous,
        local_reduction_delay=1 if bus is None else int(bus.local_reduction_delay),
        shared_bus=None if bus is None else (float(bus.latency), float(bus.overhead), float(bus.gap),
                                             float(bus.gap_per_byte)))


def _implementations(collective: Collective) -> dict[CommOp, tuple[str, ...]]:
    found = {}
    for op in KEYS:
        name = op.name.lower()
        entries = [_algorithm(f"collective.{name}[{i}]", entry) for i, entry in enumerate(getattr(collective, name))]
        if entries:
            found[op] = tuple(entries)
    return found


def _algorithm(path: str, entry: str) -> str:
    name, window = parse_algorithm(entry)
    if name not in ALGORITHM:
        raise UnsupportedError(path, f"{name} does not exist under compat: astra_sim", expected=", ".join(ALGORITHM))
    return ALGORITHM[name] + (str(window) if window > 0 else "")


def _customs(collective: Collective) -> dict[CommOp, CustomCollective]:
    paths = {op: getattr(collective.custom, op.name.lower()) for op in KEYS}
    return {op: custom_of_prefix(path) for op, path in paths.items() if path is not None}


def no_live(design: Design, plugins: object | None = None, kept: object | None = None) -> NoReturn:
    """ASTRA-sim knows all work beforehand: raises UnsupportedError."""
    del plugins, kept
    raise UnsupportedError("compat", f"ASTRA-sim's rule book runs traces, and workload {design.workload.tag} decides "
                           "as it runs", expected="compat: none")
