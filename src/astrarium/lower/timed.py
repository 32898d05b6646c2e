"""Collectives whose time a timer says (`collective.model`): a plan without messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from astrarium.cache import Cache
from astrarium.collective import timers
from astrarium.collective.bandwidth import payload
from astrarium.collective.config import Collective
from astrarium.collective.groups import FLAT, SubDim
from astrarium.collective.timers import Timer, Way
from astrarium.compute.checked import to_ps
from astrarium.design import Design
from astrarium.engine.plan import Chunk, CollectivePlan, Phase
from astrarium.errors import InputError, PluginError, UnsupportedError
from astrarium.gpu import KernelTimes
from astrarium.vocab import CommOp, PeerMode, Schedule

if TYPE_CHECKING:
    from astrarium.workload.inference.config import Inference
    from astrarium.workload.inference.disaggregated import Disaggregated

__all__ = ["Timed", "collective_of", "pools_differ", "timer_of", "times_of", "with_kernels"]

Timed = Callable[[CommOp, int, Sequence[SubDim], npt.NDArray[np.int32]], CollectivePlan | None]


def timer_of(design: Design, kept: Cache[Any]) -> Timed | None:
    """What plans collectives of a group (its shape, its NPUs in order) by the design's kernels or timer; None, also of
    one collective: messages say how long they take. `kept`: times of kernels that were simulated before."""
    kernels, timer = design.collective.kernels, _timer_of(design)
    if kernels is None:
        return timer
    _needs_innermost(design)
    _needs_steady_links(design)

    def plan(op: CommOp, size: int, shape: Sequence[SubDim], npus: npt.NDArray[np.int32]) -> CollectivePlan | None:
        if kernels.of(op) is not None and all(part.dim == 0 for part in shape):
            return _kernel_plan(kernels, op, size, npus.size, kept)
        return None if timer is None else timer(op, size, shape, npus)

    return plan


def _needs_innermost(design: Design) -> None:
    """Raise UnsupportedError on a graph without dims: all NPUs, of every host, are its one dim."""
    if design.network.fabric is None or design.network.dims:
        return
    from astrarium.network.planned import on_graph

    if on_graph(design.network):
        raise UnsupportedError("collective.kernels", "on a graph no dim is the innermost one", expected="network.dims "
                               "together with network.fabric: kernels run in the first dim")


def _needs_steady_links(design: Design) -> None:
    """Raise UnsupportedError for links of the innermost dim whose speed changes, which a kernel would not notice."""
    for place, change in enumerate(design.network.changes):
        ends = change.link or ()
        if all(isinstance(end, int) for end in ends) and len(
                {int(end) // design.network.flat[0].npus for end in ends}) == 1:
            raise UnsupportedError(f"network.changes[{place}].link", f"{list(ends)} inside the innermost dim, whose "
                                   "kernels (collective.kernels) know of no changes", expected="links of other dims")


def with_kernels(plan: CollectivePlan, times: KernelTimes, kept: Cache[Any]) -> CollectivePlan:
    """A collective over several dims, whose phases in the innermost one last as long as their kernels."""
    numbers = {phase for chunk in plan.chunks for phase in chunk.phases
               if phase.dim == 0 and phase.n > 1 and times.of(CommOp(phase.op)) is not None}
    if not numbers:
        return plan
    timed = {phase: _kernel_phase(phase, times, kept) for phase in numbers}
    names = sorted({f"{CommOp(phase.op).name.lower()} {chosen.name}" for phase in numbers
                    if (chosen := times.of(CommOp(phase.op))) is not None})
    chunks = [Chunk(chunk.repeat, tuple([timed.get(phase, phase) for phase in chunk.phases])) for chunk in plan.chunks]
    return replace(plan, chunks=tuple(chunks), how=f"{plan.how}; innermost: kernel {', '.join(names)}")


def _kernel_phase(phase: Phase, times: KernelTimes, kept: Cache[Any]) -> Phase:
    """The phase without messages, of a given time."""
    lasts = _kernel_lasts(times, CommOp(phase.op), phase.size, phase.n, kept)
    quiet = kept.get(("kernel without messages", phase.op, phase.n), lambda: _quiet(CommOp(phase.op), phase.n))
    return replace(phase, schedule=quiet, in_switch=None, lasts=lasts)


def _quiet(op: CommOp, n: int) -> Schedule:
    """A schedule without messages."""
    none, pointer = np.zeros(0, np.int32), np.zeros(2, np.int32)
    return Schedule(op=op, algorithm="kernel", n=n, blocks=1, peer_mode=PeerMode.RELATIVE,
                    program=np.zeros(n, np.int32), send_ptr=pointer, send_peer=none, send_needs=none, send_match=none,
                    send_block_ptr=np.zeros(1, np.int32), send_block=none, recv_ptr=pointer, recv_peer=none,
                    recv_reduce=np.zeros(0, np.bool_))


def _kernel_plan(times: KernelTimes, op: CommOp, size: int, members: int, kept: Cache[Any]) -> CollectivePlan:
    """A collective of a given time: that of its kernel, simulated alone."""
    chosen = times.of(op)
    return CollectivePlan(int(op), size, (), lasts=_kernel_lasts(times, op, size, members, kept),
                          how=f"kernel: {chosen.name if chosen else ''}")


def _kernel_lasts(times: KernelTimes, op: CommOp, size: int, members: int, kept: Cache[Any]) -> int:
    """Time of a kernel in ps; `size` counts as an operation's in a trace does."""
    from astrarium.gpu import kernel_time
    from astrarium.gpu.kernels.programs import digest

    chosen, path = times.of(op), f"collective.kernels.{op.name.lower()}"

    def simulated() -> int:
        return kernel_time(op, payload(op, size, members), members, times.gpu, chosen, path=path).makespan

    lasts: int = kept.get(("kernel", op, size, members, times.gpu, chosen, digest(chosen, path=path)), simulated)
    return lasts


def _timer_of(design: Design) -> Timed | None:
    name = design.collective.model
    if name == "simulated":
        return None

    def plan(op: CommOp, size: int, shape: Sequence[SubDim], npus: npt.NDArray[np.int32]) -> CollectivePlan:
        ways, said = _ways(design, shape, npus), collective_of(design, npus)
        time = _time(name, timers.timer_of(said), op, payload(op, size, npus.size), ways)
        fabrics = timers.named(ways, op, said)
        return CollectivePlan(int(op), size, (), lasts=max(1, int(to_ps([time])[0])),
                              how=f"{name}: {fabrics}" if fabrics else name)

    return plan


def pools_differ(design: Design) -> bool:
    """Whether groups that lie alike may take different times: pools exchange tokens of experts in different ways."""
    if design.workload.tag != "disaggregated" or design.collective.exchange is not None:
        return False
    pools = cast("Disaggregated", design.workload)
    return pools.prefill.exchange != pools.decode.exchange


def collective_of(design: Design, npus: npt.NDArray[np.int32]) -> Collective:
    """The design's collectives for a group of NPUs: the exchange that is left out is that of the group's workload."""
    if design.collective.exchange is not None or design.workload.tag not in ("inference", "disaggregated"):
        return design.collective
    if design.workload.tag == "disaggregated":
        pools, placement = cast("Disaggregated", design.workload), design.system.placement
        rank = int(npus[0]) if isinstance(placement, str) else list(placement).index(int(npus[0]))
        exchange = (pools.prefill if rank < pools.prefill.ranks else pools.decode).exchange
    else:
        exchange = cast("Inference", design.workload).exchange
    return design.collective if exchange == "all_gather" else replace(design.collective, exchange=exchange)


def times_of(design: Design, op: CommOp, sizes: npt.NDArray[np.int64], npus: npt.NDArray[np.int32]
             ) -> npt.NDArray[np.int64]:
    """ps [sizes] that the design's timer says of one operation of a group of NPUs, as a run rounds them; `sizes` in
    bytes as nodes of a trace have them. Raises UnsupportedError where messages say how long collectives take."""
    if design.collective.model == "simulated":
        raise UnsupportedError("collective.model", "simulated: messages say how long a collective takes",
                               expected="measured")
    whole = np.asarray(sizes * payload(op, 1, npus.size), np.float64)
    found = timers.times(collective_of(design, npus), op, whole, _ways(design, (SubDim(FLAT, npus.size, 1),), npus))
    return np.maximum(1, to_ps(found))


def _time(name: str, timer: Timer, op: CommOp, size: float, ways: Sequence[Way]) -> float:
    try:
        return float(timer(op, size, ways))
    except InputError:
        raise
    except Exception as error:
        raise PluginError(f"collective timer {name}", f"raised {type(error).__name__}: {error}") from error


def _along(npus: npt.NDArray[np.int32], sizes: Sequence[int]) -> dict[int, int]:
    """How many parts of each dim, innermost first, a part of the next one has, where all have as many (a group of two
    in different hosts has one in each, wherever in its host); else a table whose product is not the group's size."""
    place, found = npus.astype(np.int64), dict[int, int]()
    for number, size in enumerate(sizes):
        inner, place = np.unique(place), place // size
        counts = np.unique(inner // size, return_counts=True)[1]
        found[number] = int(counts.max()) if counts.min() == counts.max() else 0
    return found


def _ways(design: Design, shape: Sequence[SubDim], npus: npt.NDArray[np.int32]) -> tuple[Way, ...]:
    """The dims along which a group lies, innermost first."""
    dims = design.network.flat
    ranks = {part.dim: part.n for part in shape}
    if FLAT in ranks:       # members in another order than the dims', or unevenly on them
        ranks = _along(npus, [dim.npus for dim in dims])
        if prod(ranks.values()) != npus.size:
            raise UnsupportedError("collective.model", f"{design.collective.model}: a group of {npus.size} NPUs (the "
                                   f"first is {int(npus[0])}) that lies unevenly on the dims", expected="simulated")
    return tuple(Way(ranks[number], float(dim.npu_bandwidth), dim.fabric, f"network.dims[{number}]")
                 for number, dim in enumerate(dims) if ranks.get(number, 1) > 1)
