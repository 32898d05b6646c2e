"""A whole design: the six sections, the rule book, and what must agree between sections."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from astrarium import config
from astrarium.collective.config import OPERATIONS, Collective, parse_algorithm
from astrarium.compute.config import Compute, Replay, near
from astrarium.config import Config, Knob, Problem, default
from astrarium.config.base import concrete
from astrarium.config.named import Named, is_named, spelled_out
from astrarium.errors import InputError
from astrarium.market import Cost
from astrarium.memory.config import AUTO, LOCAL, PLACED, Memory
from astrarium.network.config import Network, Switch
from astrarium.stack import SECTIONS, Stacks, settled, short_factor, with_settings
from astrarium.system.config import System
from astrarium.units import Bandwidth, Time
from astrarium.workload.config import Workload
from astrarium.workload.jobs import Jobs

__all__ = ["AstraSim", "Design", "NpuType", "SharedBus", "dump_design", "load_design", "npu_types"]


class SharedBus(Config, frozen=True, kw_only=True):
    """ASTRA-sim's shared memory bus (`model-shared-bus`), a LogGP model."""

    latency: Annotated[Time, Knob("LogGP L.")] = default("0 ns")
    overhead: Annotated[Time, Knob("LogGP o.")] = default("0 ns")
    gap: Annotated[Time, Knob("LogGP g.")] = default("0 ns")
    gap_per_byte: Annotated[float, Knob("LogGP G, ns per byte.", ge=0)] = 0.0
    local_reduction_delay: Annotated[Time, Knob("Time of one local reduction.")] = default("0 ns")


class AstraSim(Config, frozen=True, kw_only=True):
    """Settings that exist in ASTRA-sim's rule book only (`compat: astra_sim`)."""

    queues_per_dim: Annotated[int, Knob("Queues per dim (`--num-queues-per-dim`).", ge=1)] = 1
    rendezvous: Annotated[bool, Knob("A request from the receiver precedes every message.")] = False
    shared_bus: Annotated[SharedBus | None, Knob("Shared memory bus at the endpoints (`model-shared-bus`).")] = None


class NpuType(Config, frozen=True, kw_only=True):
    """NPUs that differ from the rest of the design."""

    npus: Annotated[str | Sequence[int], Knob("NPU numbers: a list, or a slice such as 0:8 or 0:64:8.", ge=0)]
    compute: Annotated[Compute | None, Knob("Their compute model; left out: as the rest.")] = None
    memory: Annotated[Memory | None, Knob("Their memory; left out: as the rest.")] = None

    def members(self, total: int) -> Sequence[int]:
        """The NPU numbers meant, out of `total`. Raises ValueError where the slice is not one."""
        if not isinstance(self.npus, str):
            return self.npus
        parts = [int(part) if part.strip() else None for part in self.npus.split(":")]
        if len(parts) not in (2, 3) or any(part is not None and part < 0 for part in parts) or parts[2:] == [0]:
            raise ValueError(self.npus)
        return range(total)[slice(*parts)]


def _list_lengths(design: Design) -> Iterator[Problem]:
    dims = len(design.network.flat)
    for op in OPERATIONS:
        count = len(getattr(design.collective, op))
        if count not in (0, 1, dims):
            yield Problem(f"collective.{op}", f"names {count} algorithms for {dims} dims", f"1 or {dims} entries")


def _supported(design: Design) -> Iterator[Problem]:
    for op in OPERATIONS:
        for index, entry in enumerate(getattr(design.collective, op)):
            if able := _others_for(op, entry):
                yield Problem(f"collective.{op}[{index}]", f"{parse_algorithm(entry)[0]} has no {op}",
                              "one of " + ", ".join(able))


@lru_cache(4096)
def _others_for(op: str, entry: str) -> tuple[str, ...]:
    """Algorithms that have an operation, where the one of `entry` has not."""
    from astrarium.collective.algorithms import has_op, supporting
    from astrarium.registry import Kind
    from astrarium.vocab import CommOp

    meant, name = CommOp[op.upper()], parse_algorithm(entry)[0]
    return () if name not in Kind("algorithm") or has_op(name, meant) else supporting(meant)


def _stacked(design: Design) -> Iterator[Problem]:
    """A design that names a stack has its settings: one made in Python without them would answer in its name."""
    if design.stack is None or design.stack not in Stacks():
        return
    if not settled(design.stack, {section: getattr(design, section) for section in SECTIONS}):
        yield Problem("stack", f"is {design.stack}, and none of its settings is in the design",
                      "a design file, or ar.replace(design, 'stack', 'NAME'), which apply them")
    if design.compute.sustained and design.compute.on_products == (factor := short_factor(design.stack)) > 1:
        yield Problem("compute.clock", f"sustained: in_situ.gemm {factor} of stack {design.stack} is that clock, too",
                      "a number, or in_situ: {gemm: 1}")


def _no_astra_sim(design: Design) -> Iterator[Problem]:
    if design.astra_sim != AstraSim():
        yield Problem("astra_sim", "has no effect in the native rule book", "compat: astra_sim, or no such section")


def _short_delays(design: Design) -> Iterator[Problem]:
    """The clock counts 2^63 ps, and a hop may be two."""
    for index, dim in enumerate(design.network.dims):
        if float(getattr(dim, "latency", 0)) >= LONGEST_NS:
            yield Problem(f"network.dims[{index}].latency", "is more than 2^62 ps", "at most 53 days")
    for path, delay in (("collective.endpoint_delay", design.collective.endpoint_delay),
                        ("memory.latency", design.memory.latency)):
        if delay >= 2 * LONGEST_NS:
            yield Problem(path, "is more than 2^63 ps", "at most 106 days")


def _placed(design: Design) -> Iterator[Problem]:
    placement, npus = design.system.placement, design.network.npus
    for rank, npu in enumerate(() if isinstance(placement, str) else placement):
        if npu >= npus:
            yield Problem(f"system.placement[{rank}]", f"there is no NPU {npu}", f"0 to {npus - 1}")


def _types(design: Design) -> Iterator[Problem]:
    owner: dict[int, int] = {}
    for index, kind in enumerate(design.npu_types):
        path = f"npu_types[{index}].npus"
        try:
            members = kind.members(design.network.npus)
        except ValueError:
            yield Problem(path, f"{kind.npus!r} is not a slice", "a slice such as 0:8 or 0:64:8, or a list")
            continue
        if not members:
            yield Problem(path, "means no NPU", f"some of 0 to {design.network.npus - 1}")
        for npu in members:
            if npu >= design.network.npus:
                yield Problem(path, f"there is no NPU {npu}", f"0 to {design.network.npus - 1}")
                break
            if npu in owner:
                yield Problem(path, f"NPU {npu} is also in npu_types[{owner[npu]}]", "one type for every NPU")
                break
            owner[npu] = index


def _ranks(design: Design) -> Iterator[Problem]:
    """A workload that says how many ranks it is of is of as many as the design has."""
    needed = getattr(design.workload, "ranks", None)
    placement = design.system.placement
    ranks = design.network.npus if isinstance(placement, str) else len(placement)
    if needed is not None and needed != ranks:
        where = "network.npus" if isinstance(placement, str) else "entries of system.placement"
        yield Problem("workload", f"is of {needed} ranks (the product of its axes)", f"{ranks}: {where}")


def _jobs(design: Design) -> Iterator[Problem]:
    """Jobs are placed by their own rules, and all of them find room."""
    jobs = design.workload
    if not isinstance(jobs, Jobs):
        return
    if not isinstance(design.system.placement, str):
        yield Problem("system.placement", "cannot be combined with jobs: each job has its placement",
                      "npus or placement of each job")
    if design.stack is not None:
        yield Problem("stack", "does not reach the workloads of jobs", "no stack, and its settings in the sections")
    try:
        jobs.placed([dim.npus for dim in design.network.flat])
    except InputError as error:
        yield Problem(f"workload.{error.path}", error.message, error.expected, error.did_you_mean)


def _no_jobs(design: Design) -> Iterator[Problem]:
    if isinstance(design.workload, Jobs):
        yield Problem("workload.source", "jobs do not exist under compat: astra_sim", "compat: none, or one workload")


def _memories(design: Design) -> Iterator[tuple[str, Compute, Memory]]:
    """(path, compute, memory) of the design and of every type of NPU."""
    yield "memory", design.compute, design.memory
    for index, kind in enumerate(design.npu_types):
        yield f"npu_types[{index}].memory", kind.compute or design.compute, kind.memory or design.memory


def _placement(design: Design) -> Iterator[Problem]:
    """Tensors can be elsewhere where the workload says what they are."""
    placement, source = design.memory.placement, design.workload.tag
    for index, kind in enumerate(design.npu_types):
        if kind.memory is not None and kind.memory.placement != placement:
            yield Problem(f"npu_types[{index}].memory.placement", "differs from memory.placement",
                          "one for all NPUs")
    if not placement.away:
        return
    if source != "transformer":
        yield Problem("memory.placement", f"has no effect under workload.source: {source}",
                      "local, or workload.source: transformer")
        return
    from astrarium.workload.transformer import Transformer, unplaceable  # loaded: the workload is one

    assert isinstance(design.workload, Transformer)
    if design.workload.offload != "none":
        yield Problem("workload.offload", "cannot be combined with memory.placement",
                      "none: the placement says what is elsewhere")
    for what in PLACED:
        where, why = getattr(placement, what), unplaceable(design.workload, what)
        if where not in (LOCAL, AUTO) and why is not None:
            yield Problem(f"memory.placement.{what}", f"{where}: {what} {why[0]}", why[1])


def _all_local(design: Design) -> Iterator[Problem]:
    if any(memory.placement.away for _, _, memory in _memories(design)):
        yield Problem("memory.placement", "has no effect under compat: astra_sim", "local")


def _shared_tiers(design: Design) -> Iterator[Problem]:
    for path, _, memory in _memories(design):
        for index, tier in enumerate(memory.tiers):
            if design.network.npus % tier.npus:
                yield Problem(f"{path}.tiers[{index}].npus",
                              f"{tier.npus} do not divide the {design.network.npus} NPUs",
                              "as many NPUs for each")


def _memory_of_compute(design: Design) -> Iterator[Problem]:
    """A roofline needs a bandwidth; measured kernels are of a device with its memory (a collective alone has none)."""
    for path, compute, memory in _memories(design):
        given, measured = memory.bandwidth, compute.measured_bandwidth
        if given is None and compute.memory_bound:
            yield Problem(f"{path}.bandwidth", "is missing",
                          f"the local memory bandwidth, which compute.model: {compute.tag} needs")
        if given and measured and design.workload.tag != "collective" and not near(given, measured):
            yield Problem(f"{path}.bandwidth", f"{given} is not the memory of the device whose kernels were measured",
                          f"{Bandwidth.of(measured)} within 10 %, or compute.model: analytic or roofline")


def _idle_latency(design: Design) -> Iterator[Problem]:
    for path, compute, memory in _memories(design):
        if memory.latency > 0 and not compute.memory_bound:
            yield Problem(f"{path}.latency", "has no effect", "0 ns, or compute.model: roofline; that of a tier or "
                          "of remote memory belongs to memory.tiers[] or memory.remote")


def _pooled(design: Design) -> Iterator[Problem]:
    """A pool behind switches gives every NPU its share of the bandwidth, for one access at a time."""
    remote, system = design.memory.remote, design.system
    if remote.over == "network" and remote.dim is None and system.comm_streams not in ("auto", 1):
        yield Problem("system.comm_streams", f"{system.comm_streams}, with memory.remote.over: network", "1")
    if remote.over == "own" and remote.levels and system.copy_streams != 1:
        yield Problem("system.copy_streams", f"{system.copy_streams}, with a pool that has levels", "1")
    for path, _, memory in _memories(design):
        last = len(memory.remote.levels) - 1
        if last >= 0 and memory.remote.levels[last].ends != design.network.npus:
            yield Problem(f"{path}.remote.levels[{last}].ends", f"{memory.remote.levels[last].ends} at the last level",
                          f"{design.network.npus}, the NPUs of the network")


def _at_switches(design: Design) -> Iterator[Problem]:
    """A memory at the switches of a dim serves the NPUs that these switches join, over the links of the dim."""
    dims = design.network.flat
    for path, _, memory in _memories(design):
        all_npus, node = design.network.npus, memory.remote.npus_per_node
        remote = (f"{path}.remote", memory.remote.dim, "npus_per_node" if node else "kind", node or all_npus, None)
        for where, number, key, npus, rate in [remote, *[
                (f"{path}.tiers[{k}]", tier.dim, "npus", tier.npus, tier.bandwidth)
                for k, tier in enumerate(memory.tiers)]]:
            if number is None:
                continue
            joined = math.prod([dim.npus for dim in dims[:number + 1]])
            if number >= len(dims) or not isinstance(dims[number], Switch):
                yield Problem(f"{where}.dim", f"network.dims[{number}] is no switch", "the number of a switch dim")
            elif npus != joined:
                yield Problem(f"{where}.{key}", f"{npus} NPUs share it, and dims 0 to {number} join {joined}",
                              f"{joined}, or another dim")
            elif rate is not None and float(rate) < float(dims[number].message_bandwidth):
                yield Problem(f"{where}.bandwidth", "is less than that of an NPU's link in the dim",
                              f"at least that of network.dims[{number}]; total says what all NPUs get")


def _no_latency(design: Design) -> Iterator[Problem]:
    for path, _, memory in _memories(design):
        if memory.latency > 0:
            yield Problem(f"{path}.latency", "has no effect", "0 ns: ASTRA-sim's roofline has none")


def _no_buffer(design: Design) -> Iterator[Problem]:
    kinds = [(f"npu_types[{index}].compute", kind.compute) for index, kind in enumerate(design.npu_types)]
    for path, compute in [("compute", design.compute), *kinds]:
        if getattr(compute, "buffer", None) is not None:
            yield Problem(f"{path}.buffer", "has no effect", "no buffer: ASTRA-sim's roofline has none")


def _one_rent(design: Design) -> Iterator[Problem]:
    if design.cost.rental is not None and design.compute.hourly_price is not None:
        yield Problem("cost.rental", "cannot be combined with compute.hourly_price", "one of the two")


def _no_scaling(design: Design) -> Iterator[Problem]:
    owners = [("compute", design.compute)] + [(f"npu_types[{index}].compute", kind.compute)
                                              for index, kind in enumerate(design.npu_types) if kind.compute]
    for path, compute in owners:
        if getattr(compute, "scaling", None) is not None:
            yield Problem(f"{path}.scaling", "does not exist under compat: astra_sim", "the peak at that clock")


def _simulated(design: Design) -> Iterator[Problem]:
    if design.collective.model != "simulated":
        yield Problem("collective.model", "does not exist under compat: astra_sim", "simulated")
    if design.collective.kernels is not None:
        yield Problem("collective.kernels", "do not exist under compat: astra_sim", "none")


def _only_dims(design: Design) -> Iterator[Problem]:
    for section, name in (("network", "fabric"), ("network", "changes"), ("system", "changes")):
        if getattr(getattr(design, section), name):
            yield Problem(f"{section}.{name}", "does not exist under compat: astra_sim", "network.dims alone")


def _stored_whole(design: Design) -> Iterator[Problem]:
    if design.network.switching == "cut_through":
        yield Problem("network.switching", "does not exist under compat: astra_sim", "store_and_forward")


LONGEST_NS = 2**62 / 1000
_NATIVE = (_list_lengths, _supported, _no_astra_sim, _idle_latency, _placement)
_RULES = {"none": _NATIVE, "astra_sim": (_no_latency, _no_buffer, _stored_whole, _simulated, _only_dims, _all_local,
                                         _no_scaling, _no_jobs)}


def _by_rule_book(design: Design) -> Iterator[Problem]:
    for rule in _RULES[design.compat]:
        yield from rule(design)


_BASES: Mapping[str, type[Config]] = dict(zip(SECTIONS, (Workload, Compute, Collective, System), strict=True))


def _class_of(base: type[Config], given: object) -> type[Config] | None:
    """The class that a section's plain data ask for; None where they do not say it."""
    if is_named(base, given):
        given = spelled_out(base, given, "", [])
    return concrete(base, given, "", []) if isinstance(given, Mapping) else None


def _preset(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    return with_settings(plain, {section: partial(_class_of, base) for section, base in _BASES.items()})


class Design(Config, frozen=True, kw_only=True):
    """A distributed AI system and the work that it does."""

    preset = _preset
    implies = ("stack",)
    rules = (_by_rule_book, _short_delays, _placed, _types, _ranks, _jobs, _memory_of_compute, _pooled,
             _at_switches, _shared_tiers, _stacked, _one_rent)
    workload: Annotated[Workload, Knob("The work of every rank.")]
    network: Annotated[Named[Network], Knob("Dims and back end.")]
    collective: Annotated[Collective, Knob("Collective algorithms.")] = Collective()
    compute: Annotated[Named[Compute], Knob("How long a compute node takes.")] = default(Replay())
    memory: Annotated[Named[Memory], Knob("Local and remote memory.")] = default(Memory())
    system: Annotated[System, Knob("Streams and placement.")] = System()
    npu_types: Annotated[Sequence[NpuType], Knob("NPUs that differ from the rest.")] = ()
    compat: Annotated[Literal["none", "astra_sim"], Knob("Rule book: our own, or ASTRA-sim's to the last ns.")] = "none"
    astra_sim: Annotated[AstraSim, Knob("Settings of ASTRA-sim's rule book.")] = AstraSim()
    fold: Annotated[Literal["auto", "off"], Knob("Whether equal ranks are simulated once.")] = "auto"
    cost: Annotated[Named[Cost], Knob("Parts of the system, its site, and the price of its energy.")
                    ] = default(Cost())
    stack: Annotated[str | None, Knob("Software stack (`astrarium list stack`), whose settings apply where a file says "
                                      "nothing; left out: none.", choices=Stacks())] = None

    def _repr_html_(self) -> str:
        """What it models, network and memory, for a notebook."""
        from astrarium.registry import celled

        return celled("design", self)

    @property
    def explicit(self) -> bool:
        """A design with a stack states its defaults, which the stack would change."""
        return self.stack is not None


def npu_types(design: Design) -> tuple[npt.NDArray[np.int32], tuple[tuple[Compute, Memory], ...]]:
    """(type of every NPU [npus], (compute, memory) of every type); type 0 is the design's own."""
    kinds: list[tuple[Compute, Memory]] = [(design.compute, design.memory)]
    index = np.zeros(design.network.npus, np.int32)
    for number, kind in enumerate(design.npu_types, start=1):
        kinds.append((kind.compute or design.compute, kind.memory or design.memory))
        index[np.asarray(kind.members(design.network.npus), np.int64)] = number
    return index, tuple(kinds)


def load_design(path: str | os.PathLike[str], changes: Mapping[str, object] = MappingProxyType({})) -> Design:
    """Read a design file (YAML) with `changes` (path -> value). Files that it names are relative to its folder. Raises
    InputError with all problems of the file, each with its line."""
    return config.load(Design, path, changes)


def dump_design(design: Design, path: str | os.PathLike[str], *, defaults: bool = False) -> None:
    """Write a design file, whole or not at all; it reads back equal. `defaults`: also write fields at their default."""
    config.dump(design, path, defaults=defaults)
