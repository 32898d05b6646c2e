"""Points of a study: a case under a strategy on a cluster, simulated once each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from astrarium import Collective, Design, InputError, Memory, Network, Transformer, decode, simulate
from astrarium.cache import Cache
from astrarium.lower import Kept
from astrarium.plugins import Bandwidth, Bytes
from astrarium.workload import Footprint
from comet.cases import Case, case_of, name_of
from comet.decompose import UPDATE
from comet.machines import Cluster, Spread, cluster_of, spread_of
from comet.parameters import Book
from comet.phases import Breakdown, breakdown, phases_of, trace_of

__all__ = ["Lab", "Point"]

HELD, POINTS = 4096, 65536


class Point(Struct, frozen=True):
    """One strategy on one cluster. `seconds`: the time of an iteration, whether the footprint fits or not; `held`:
    bytes of one node that count; `parts`: times by phase, None where they were not asked for."""

    cluster: str
    nodes: int
    split: int
    held: float
    spread: Spread
    seconds: float
    parts: Breakdown | None = None

    @property
    def fits(self) -> bool:
        """Whether a node holds its part."""
        return self.spread.fits

    @property
    def name(self) -> str:
        """COMET's name of the strategy."""
        return name_of(self.split, self.nodes)


class _Shared(Struct, frozen=True, eq=False):
    """Caches of labs of one study: what runs share, footprints, phases of nodes, strategies, collective settings."""

    kept: Kept
    footprints: Cache[Footprint]
    phases: Cache[npt.NDArray[np.int8]]
    strategies: Cache[Transformer]
    networks: Cache[Network]
    points: Cache[Point]


def _shared() -> _Shared:
    return _Shared(Kept(), Cache(HELD), Cache(HELD), Cache(HELD), Cache(HELD), Cache(POINTS))


class Lab:
    """Runs points of a book, and keeps what they have in common. `Lab.of(other book)` shares it with another lab."""

    def __init__(self, book: Book, shared: _Shared | None = None):
        """Raises InputError where the book's collectives are wrong."""
        self.book = book
        self._shared = _shared() if shared is None else shared
        self.collective = decode(Collective, book.plain("collective"))
        self._cases = dict[str, Case]()
        self._clusters = dict[str, Cluster]()

    def of(self, book: Book) -> Lab:
        """A lab of another book."""
        return Lab(book, self._shared)

    @property
    def simulated(self) -> int:
        """Different points that this lab and those that share with it hold (at most 65,536)."""
        return len(self._shared.points)

    def case(self, name: str) -> Case:
        """A case of the book."""
        if name not in self._cases:
            self._cases[name] = case_of(self.book, name)
        return self._cases[name]

    def cluster(self, name: str) -> Cluster:
        """A cluster of the book."""
        if name not in self._clusters:
            self._clusters[name] = cluster_of(self.book, name)
        return self._clusters[name]

    def footprint(self, case: Case, split: int, nodes: int | None = None, **changes: Any) -> Footprint:
        """What one node holds."""
        key = (_frozen(case.workload), _frozen(case.footprint_set), split, nodes or case.nodes, _frozen(changes))
        return self._shared.footprints.get(key, lambda: case.footprint(split, nodes, **changes))

    def design(self, case: Case, cluster: Cluster, split: int, bandwidth: float, nodes: int | None = None) -> Design:
        """The design of a point, its memory with `bandwidth` byte/ns."""
        count = nodes or case.nodes
        key = (_frozen(case.workload), split, count)
        workload = self._shared.strategies.get(key, lambda: case.strategy(split, count))
        network = self._shared.networks.get((tuple(cluster.dims), count), lambda: cluster.network(count))
        return Design(workload=workload, network=network, collective=self.collective,
                      compute=cluster.model(),
                      memory=Memory(Bytes.of(float(cluster.capacity)), Bandwidth.of(bandwidth)))

    def point(self, case: Case, cluster: Cluster, split: int, *, nodes: int | None = None, name: str = "",
              parts: bool = False) -> Point:
        """One strategy, simulated. `parts`: times by phase, too. Raises InputError for what cannot run."""
        count = nodes or case.nodes
        held = case.counted(self.footprint(case, split, count))
        spread = spread_of(held, cluster)
        wanted = parts or not case.update
        key = (_frozen(case.workload), cluster.peak, cluster.buffer, cluster.compute, tuple(cluster.dims),
               spread.bandwidth, self.collective, split, count, wanted, case.update)
        found = self._shared.points.get(key, lambda: self._run(case, cluster, split, count, spread, wanted))
        return replace(found, cluster=name or cluster.title, held=held, spread=spread)

    def _run(self, case: Case, cluster: Cluster, split: int, nodes: int, spread: Spread, parts: bool) -> Point:
        design = self.design(case, cluster, split, spread.bandwidth, nodes)
        result = simulate(design, record=parts, kept=self._shared.kept)
        if not parts:
            return Point("", nodes, split, 0.0, spread, result.makespan_ps / 1e12)
        workload = design.workload
        assert isinstance(workload, Transformer)
        trace, row = trace_of(result), result.last_rank
        key = (_frozen(case.workload), split, nodes, 0 if workload.pp == 1 else row)
        found = breakdown(result, self._shared.phases.get(key, lambda: phases_of(workload, trace)))
        seconds = result.makespan_ps / 1e12
        if not case.update:
            found = found.without(UPDATE)
            seconds = found.total / 1e9
        return Point("", nodes, split, 0.0, spread, seconds, found)

    def best(self, case: Case, cluster: Cluster, *, name: str = "", nodes: int | None = None,
             splits: Iterable[int] | None = None) -> Point | None:
        """The fastest strategy that fits; None where none does. The strategies are those of the case."""
        found = None
        for split in case.splits if splits is None else splits:
            if not spread_of(case.counted(self.footprint(case, split, nodes)), cluster).fits:
                continue
            point = self.point(case, cluster, split, nodes=nodes, name=name)
            if found is None or point.seconds < found.seconds:
                found = point
        return found

    def must(self, point: Point | None, case: str, cluster: str) -> Point:
        """The point. Raises InputError where there is none."""
        if point is None:
            raise InputError(f"clusters.{cluster}", f"holds no strategy of {case}", expected="more memory, or fewer "
                             "parts in the footprint")
        return point


def _frozen(value: Any) -> Any:
    """A value that can be a key of a cache."""
    if isinstance(value, Mapping):
        return tuple([(key, _frozen(each)) for key, each in value.items()])
    return tuple([_frozen(each) for each in value]) if isinstance(value, (list, tuple)) else value
