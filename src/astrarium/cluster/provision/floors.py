"""The time of a design as affine cuts in the inverse bandwidths of its dims.

A design is lowered once; its dependency graph, and what each collective sends over each dim, do not depend on
bandwidths. With y[d] = 1 / (bandwidth out of an NPU in dim d), one chunk takes alpha + beta y[d] (ns) in a phase over
dim d, and a collective of C chunks at least the largest of

    sum over phases + (C - 1) * one phase      for each phase, where one chunk is in a phase at a time
    bytes over dim d * y[d]                    for each dim: LIBRA's law (arXiv 2109.11762), whatever the chunks

(`search.bounds.collectives` has the proof of both). The makespan is at least that of the longest chain, and of the
busiest lane with what must come before and after it (`search.bounds.graph`). Each is a sum of such maxima and of
constants, so the whole is a convex, piecewise affine function of y, and at any y the terms that are largest give a
*cut*: an affine function that is nowhere above the makespan. Rounding takes a byte per chunk and two ps per step from
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from astrarium.collective.algorithms import has_op
from astrarium.collective.config import algorithms_of, parse_algorithm
from astrarium.collective.estimate import PhaseBound, lower_bound
from astrarium.design import Design
from astrarium.engine.plan import Chunk, CollectivePlan, Phase, Plan
from astrarium.errors import InputError, UnsupportedError
from astrarium.lower import Given, Kept, lower, plugins_of, read_work, work_of
from astrarium.network.config import LinkDim, Ring
from astrarium.network.needs import needs_dims
from astrarium.search.bounds.graph import Chain, Key, WorkGraph, bounds_of, graph_of
from astrarium.search.bounds.objective import NATIVE
from astrarium.vocab import CommOp

__all__ = ["DesignFloor", "floor_of"]

F64 = npt.NDArray[np.float64]
ROUNDED = 0.002      # ns per step


class _Pieces(Struct, frozen=True):
    """Affine functions of y of which the largest counts: row i is constant[i] + slope[i] @ y. Arrays [pieces] and
    [pieces, dims]."""

    constant: F64
    slope: F64

    def at(self, y: F64) -> tuple[float, int]:
        """The largest one at y, and its row."""
        values = self.constant + self.slope @ y
        row = int(values.argmax())
        return float(values[row]), row


class DesignFloor(Struct, frozen=True, eq=False):
    """What a design takes at least. `dims`: their number."""

    dims: int
    graph: WorkGraph
    pieces: Mapping[Key, tuple[_Pieces, _Pieces]]      # with all that is known; of the dims' loads alone
    _seen: dict[bytes, tuple[F64, F64]] = field(default_factory=dict)

    def cuts(self, y: F64) -> tuple[F64, F64]:
        """(constant [cuts], slope [cuts, dims]): affine functions of inverse bandwidths (ns per byte) that the makespan
        (ns) is nowhere below; the largest at `y` is the floor there."""
        key = y.tobytes()
        if key not in self._seen:
            self._seen[key] = self._cuts(y)
        return self._seen[key]

    def _cuts(self, y: F64) -> tuple[F64, F64]:
        whole = {key: pieces.at(y) for key, (pieces, _) in self.pieces.items()}
        loads = {key: pieces.at(y) for key, (_, pieces) in self.pieces.items()}
        found = bounds_of(self.graph, {key: value for key, (value, _) in whole.items()},
                          {key: value for key, (value, _) in loads.items()})
        rows = []
        for bound in found:
            constant, slope = self._chain(bound.fixed, {key: row for key, (_, row) in loads.items()}, 1)
            for chains in (bound.front, bound.behind):
                more = self._chain(_common(chains), {key: row for key, (_, row) in whole.items()}, 0)
                constant, slope = constant + more[0], slope + more[1]
            rows.append((constant, slope))
        return np.array([constant for constant, _ in rows]), np.array([slope for _, slope in rows])

    def _chain(self, chain: Chain, row: Mapping[Key, int], kind: int) -> tuple[float, F64]:
        constant, slope = chain.ns, np.zeros(self.dims)
        for key, count in chain.counts.items():
            pieces = self.pieces[key][kind]
            constant += count * float(pieces.constant[row[key]])
            slope = slope + count * pieces.slope[row[key]]
        return constant, slope


def _common(chains: Sequence[Chain]) -> Chain:
    """What all of the chains have: of several, the shortest counts, and none is shorter than this."""
    first = chains[0]
    counts = {key: min(chain.counts.get(key, 0) for chain in chains) for key in first.counts}
    return Chain(min(chain.ns for chain in chains), {key: count for key, count in counts.items() if count})


def floor_of(design: Design, given: Given | None, kept: Kept) -> DesignFloor:
    """The floor of a design. `given` takes the place of the workload's files. Raises UnsupportedError where there is
    none."""
    _refuse(design)
    work = read_work(design, {}, kept) if given is None else work_of(design, given)
    plan = lower(design, work, plugins_of(design, None), kept=kept)
    if any(each.custom is not None or each.lasts for each in plan.collectives):
        raise UnsupportedError("collective.custom", "there is no floor of custom collectives by bandwidth")
    graph = graph_of(plan)
    laws = _Laws(design, plan)
    pieces = {key: laws.of(key) for key in dict.fromkeys(key for key in graph.key if key is not None)}
    return DesignFloor(len(design.network.flat), graph, pieces)


def _refuse(design: Design) -> None:
    network, collective, native = design.network, design.collective, NATIVE[design.compat]
    needs_dims(network, "a floor", written=True)
    if not native or network.backend not in ("closed_form", "contention"):
        raise UnsupportedError("network.backend", "there is no floor of the makespan but in the native rule book, on "
                               "closed_form and contention", expected="one of these, and compat: none")
    if collective.model != "simulated":
        raise UnsupportedError("collective.model", f"{collective.model} has no bandwidth to choose",
                               expected="simulated")
    if collective.kernels is not None:
        raise UnsupportedError("collective.kernels", "GPU kernels have no bandwidth of a dim to choose",
                               expected="none")
    if collective.choice != "none":
        raise UnsupportedError("collective.choice", f"{collective.choice} picks other algorithms at every bandwidth",
                               expected="none, with algorithms, composition and chunks in the design")
    for place, dim in enumerate(network.dims):
        if not isinstance(dim, LinkDim) or (isinstance(dim, Ring) and dim.one_way):
            raise UnsupportedError(f"network.dims[{place}]", "there is no floor of one-way rings and of tori",
                                   expected="another shape; a torus as its ring dims")


class _Laws(Struct, frozen=True, eq=False, dict=True):
    """The pieces of a plan's collectives."""

    design: Design
    plan: Plan

    @cached_property
    def memory_rate(self) -> float:
        """Bytes/ns at which reductions go, of the fastest NPU; 0: they are free."""
        rates = self.plan.reduce_bandwidth if self.plan.reduce_bandwidth.size else [self.plan.policy.reduce_bandwidth]
        return 0.0 if min(rates) == 0 else float(max(rates)) / 1e9

    @cached_property
    def ascending(self) -> bool:
        """Whether every group lists its NPUs upwards."""
        plan = self.plan
        every = (plan.npu_of, *(plan.npu_of[group] for group in plan.groups))
        return all(bool((np.diff(npus) > 0).all()) for npus in every)

    def of(self, key: Key) -> tuple[_Pieces, _Pieces]:
        """What a node's collective takes at least: of several that it may be, what all of them take."""
        made = [self._collective(self.plan.collectives[index]) for index in key]
        first = made[0]
        if all(np.array_equal(first[kind].constant, other[kind].constant)
               and np.array_equal(first[kind].slope, other[kind].slope) for other in made for kind in (0, 1)):
            return first
        nothing = _Pieces(np.zeros(1), np.zeros((1, len(self.design.network.flat))))
        return nothing, nothing

    def _collective(self, made: CollectivePlan) -> tuple[_Pieces, _Pieces]:
        dims = len(self.design.network.flat)
        least = min(made.chunks, key=lambda chunk: sum(phase.size for phase in chunk.phases))
        chunks = sum(chunk.repeat for chunk in made.chunks)
        phases = [(phase, floor) for phase in least.phases if phase.n > 1 and phase.dim >= 0
                  and (floor := self._floor(made, phase)) is not None]
        if len(phases) < len([phase for phase in least.phases if phase.n > 1]):
            nothing = _Pieces(np.zeros(1), np.zeros((1, dims)))
            return nothing, nothing
        loads = np.zeros((dims, dims))
        for phase, floor in phases:
            loads[phase.dim, phase.dim] += (chunks * self._port_blocks(made, phase, floor) * _block(phase, floor)
                                            / self._efficiency(phase))
        own = _Pieces(np.zeros(dims), loads)
        constant = np.array([self._constant(phase, floor) for phase, floor in phases])
        slope = np.zeros((len(phases), dims))
        for row, (phase, floor) in enumerate(phases):
            slope[row, phase.dim] = floor.blocks * _block(phase, floor) / self._efficiency(phase)
        if not phases:
            return own, own
        pipelined = (chunks - 1) * (made.active_chunks == 1 and _one_list(made, least))
        shop = _Pieces(constant.sum() + pipelined * constant, slope.sum(axis=0) + pipelined * slope)
        return _Pieces(np.concatenate([shop.constant, own.constant]), np.concatenate([shop.slope, own.slope])), own

    def _port_blocks(self, made: CollectivePlan, phase: Phase, floor: PhaseBound) -> float:
        """Blocks through one port of an NPU, in units of its whole bandwidth: those of all steps where these take the
        same port, as on a switch, around a ring, and directly; else no fewer than `own`."""
        shape = self.design.network.flat[phase.dim].tag
        one_port = shape == "switch" or self._algorithm(made, phase).partition(":")[0] in ("ring", "direct")
        return floor.blocks if floor.hops and one_port else floor.own

    def _efficiency(self, phase: Phase) -> float:
        return float(self.design.network.flat[phase.dim].efficiency)

    def _constant(self, phase: Phase, floor: PhaseBound) -> float:
        dim = self.design.network.flat[phase.dim]
        ns = floor.hops * float(dim.latency) + floor.delays * (float(self.design.collective.endpoint_delay) - ROUNDED)
        if floor.reduced and self.memory_rate:
            ns += 3 * floor.reduced * _block(phase, floor) / self.memory_rate
        return max(0.0, ns)

    def _floor(self, made: CollectivePlan, phase: Phase) -> PhaseBound | None:
        dim = self.design.network.flat[phase.dim]
        chain = self.design.network.backend == "closed_form" and (dim.tag != "ring" or self.ascending)
        return lower_bound(dim.tag, self._algorithm(made, phase), CommOp(phase.op), phase.n, dim.npus, chain)

    def _algorithm(self, made: CollectivePlan, phase: Phase) -> str:
        """That of the collective's operation, where it has the phase's, else that of the phase's own."""
        shapes, op = [dim.tag for dim in self.design.network.flat], CommOp(phase.op)
        for each in (CommOp(made.op), op):
            name = algorithms_of(self.design.collective, each.name.lower(), shapes)[phase.dim]
            if has_op(parse_algorithm(name)[0], op):
                break
        return name


def _one_list(made: CollectivePlan, chunk: Chunk) -> bool:
    """Whether all chunks pass the same phases in one order, a list of turns per phase."""
    ways = {tuple((phase.dim, phase.op) for phase in each.phases) for each in made.chunks}
    return not made.turns and ways == {tuple((phase.dim, phase.op) for phase in chunk.phases)}


def _block(phase: Phase, floor: PhaseBound) -> float:
    """Bytes of a block of one chunk, a byte less for what chunks differ."""
    return max(0, phase.size - 1) * (phase.n if phase.op == CommOp.ALL_GATHER else 1) / floor.count


def check_same_dims(designs: Sequence[Design]) -> None:
    """Raises InputError where designs have different networks to buy."""
    first = [(dim.tag, dim.npus) for dim in designs[0].network.flat]
    for place, design in enumerate(designs[1:], 1):
        if [(dim.tag, dim.npus) for dim in design.network.flat] != first:
            raise InputError(f"workloads[{place}]", "has other network dims than the first",
                             expected="the same shapes and sizes: one network serves all of them")
