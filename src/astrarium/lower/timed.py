"""Collectives whose time a timer says (`collective.model`): a plan without messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, prod
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from astrarium.collective import timers
from astrarium.collective.bandwidth import payload
from astrarium.collective.config import Collective
from astrarium.collective.groups import FLAT, SubDim
from astrarium.collective.port_time import port_ns
from astrarium.collective.timers import Timer, Way
from astrarium.compute.checked import to_ps
from astrarium.design import Design
from astrarium.engine.plan import CollectivePlan
from astrarium.errors import InputError, PluginError, UnsupportedError
from astrarium.vocab import CommOp

if TYPE_CHECKING:
    from astrarium.workload.inference.config import Inference
    from astrarium.workload.inference.disaggregated import Disaggregated

__all__ = ["Timed", "collective_of", "pools_differ", "timer_of", "times_of"]

Timed = Callable[[CommOp, int, Sequence[SubDim], npt.NDArray[np.int32]], CollectivePlan | None]


def timer_of(design: Design) -> Timed | None:
    """What plans collectives of a group (its shape, its NPUs in order) by the design's timer; None: messages say how
    long they take."""
    name = design.collective.model
    if name == "simulated":
        return None

    def plan(op: CommOp, size: int, shape: Sequence[SubDim], npus: npt.NDArray[np.int32]) -> CollectivePlan:
        ranks, said = _ranks(design, shape, npus), collective_of(design, npus)
        ways, whole = _ways(design, ranks), payload(op, size, npus.size)
        lasts = max(1, int(to_ps([_time(name, timers.timer_of(said), op, whole, ways)])[0]))
        fabrics, wire = timers.named(ways, op, said), ceil(port_ns(said, op, whole, ways) * 1000)
        return CollectivePlan(int(op), size, (), lasts=lasts, how=f"{name}: {fabrics}" if fabrics else name,
                              wires=((max(ranks), min(wire, lasts)),) if wire else ())

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
    ranks = _ranks(design, (SubDim(FLAT, npus.size, 1),), npus)
    found = timers.times(collective_of(design, npus), op, whole, _ways(design, ranks))
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


def _ranks(design: Design, shape: Sequence[SubDim], npus: npt.NDArray[np.int32]) -> dict[int, int]:
    """The dims along which a group lies, and how many of its members along each."""
    ranks = {part.dim: part.n for part in shape}
    if FLAT in ranks:       # members in another order than the dims', or unevenly on them
        ranks = _along(npus, [dim.npus for dim in design.network.flat])
        if prod(ranks.values()) != npus.size:
            raise UnsupportedError("collective.model", f"{design.collective.model}: a group of {npus.size} NPUs (the "
                                   f"first is {int(npus[0])}) that lies unevenly on the dims", expected="simulated")
    return {number: count for number, count in ranks.items() if count > 1}


def _ways(design: Design, ranks: Mapping[int, int]) -> tuple[Way, ...]:
    """These dims, innermost first."""
    return tuple(Way(ranks[number], float(dim.npu_bandwidth), dim.fabric, f"network.dims[{number}]")
                 for number, dim in enumerate(design.network.flat) if number in ranks)
