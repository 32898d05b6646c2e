"""What a collective takes at least: its bytes over the ports of its members.

Of a group, take the blocks of its members inside the first d dims. Over the dims from d on, some member sends at least
`collective.estimate.least_sent`, at no more than an NPU's bandwidth in those dims; where the design names algorithms,
in each dim what these send (`phases`). Latencies only add to it. (A run rounds every message to a picosecond: without
latencies it may take less by half a picosecond for each of those that follow one another.) There are two ways to count,
each in *rows* of D dims:

- `ports`, over all links of an NPU: those in the dims from each on, and in each. What all collectives of a rank need of
  them adds up, row by row.
- `streams`, over those that members of one group use: messages in a dim to n - 1 others leave a ring's NPU, or a fully
  connected one, by at most n - 1 links; and the one to the next member. What collectives of this group need of them
  adds up, row by row.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct, field

from astrarium.arrays import F64
from astrarium.bounds.phases import walk_of
from astrarium.bounds.spread import Spread, spread_of
from astrarium.collective.bandwidth import payload
from astrarium.collective.config import Collective, chunks_of
from astrarium.collective.estimate import least_sent
from astrarium.network.config import Network
from astrarium.network.shapes import LinkDim, Switch
from astrarium.vocab import CommOp
from astrarium.workload.mesh import Mesh

__all__ = ["OPS", "Wires"]

OPS = (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.ALL_GATHER, CommOp.ALL_TO_ALL)     # others: 0
EACH_LINK = ("ring", "fully_connected")     # dims of several links, of which a message to an NPU takes one


class _Needs(Struct, frozen=True, eq=False):
    """ns per byte of payload: [rows] over all links and over those of a group, and of a `Walk`."""

    ports: F64
    streams: F64
    all: float
    longest: float


class Wires(Struct, frozen=True, eq=False, dict=True):
    """Floors of collectives that send messages on a network, for meshes of ranks placed in order."""

    network: Network
    collective: Collective = Collective()
    _needs: dict[tuple[object, ...], _Needs] = field(default_factory=dict)
    _slowest: dict[tuple[object, ...], float] = field(default_factory=dict)

    def bound(self, op: CommOp, size: float, axes: tuple[str, ...], mesh: Mesh) -> float:
        """ns at least of one collective of `size` bytes (as Chakra counts them) over the group of `axes`."""
        needs = self._of(op, axes, mesh)
        if needs is None:
            return 0.0
        members, count = mesh.size(axes), chunks_of(self.collective)
        whole = payload(op, 1, members) * size
        chunked = max(0.0, whole - count * members) * (needs.all + (count - 1) * needs.longest) / count
        return max(chunked, whole * float(needs.streams.max()))

    def ports(self, op: CommOp, axes: tuple[str, ...], mesh: Mesh) -> F64:
        """[port_rows] ns per byte at least of what a rank sends, however many bytes there are and in however many
        collectives: see above."""
        needs = self._of(op, axes, mesh)
        return np.zeros(self.port_rows) if needs is None else payload(op, 1, mesh.size(axes)) * needs.ports

    def streams(self, op: CommOp, axes: tuple[str, ...], mesh: Mesh) -> F64:
        """[stream_rows] the same, on the links of its group."""
        needs = self._of(op, axes, mesh)
        return np.zeros(self.stream_rows) if needs is None else payload(op, 1, mesh.size(axes)) * needs.streams

    @property
    def shared(self) -> bool:
        """Whether collectives of different groups share ports in a run."""
        return True

    @property
    def port_rows(self) -> int:
        """Rows of `ports`."""
        return 2 * len(self.network.flat)

    @property
    def stream_rows(self) -> int:
        """Rows of `streams`."""
        return 3 * len(self.network.flat)

    def passed(self, size: float, axes: tuple[str, ...], shift: int, mesh: Mesh) -> float:
        """ns for which a message of `size` bytes to the rank `shift` further along an axis keeps a port busy, on the
        rank where that is longest: the port of the outermost dim that it crosses."""
        key = (axes, shift, mesh.axes, mesh.sizes)
        found = self._slowest.get(key)
        if found is None:
            here = np.arange(mesh.ranks, dtype=np.int64)
            there, inside, found = mesh.shifted(axes[0], shift).astype(np.int64), 1, 0.0
            for dim in self.network.flat:
                differ = here // inside % dim.npus != there // inside % dim.npus
                found = max(found, float(differ.any()) / dim.npu_bandwidth)
                inside *= dim.npus
            self._slowest[key] = found
        return size * found

    def _of(self, op: CommOp, axes: tuple[str, ...], mesh: Mesh) -> _Needs | None:
        group = mesh.real(axes) if op in OPS else ()
        if not group:
            return None
        key = (op, group, mesh.axes, mesh.sizes)
        if key not in self._needs:
            self._needs[key] = self._needed(op, mesh.size(group), spread_of(mesh, group, self._sizes))
        return self._needs[key]

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        return tuple([dim.npus for dim in self.network.flat])

    def _needed(self, op: CommOp, members: int, spread: Spread) -> _Needs:
        dims, known = self.network.flat, spread.even and self.network.backend == "closed_form"
        rates = np.array([dim.npu_bandwidth * dim.efficiency for dim in dims])
        used = np.array([_used(dim, n) if known else 1.0 for dim, n in zip(dims, spread.places, strict=True)])
        ports, streams = np.zeros((2, len(dims))), np.zeros((3, len(dims)))
        for first, fewest in enumerate(spread.blocks):
            if members % fewest == 0:
                adds = any(isinstance(dim, Switch) and dim.in_switch is not None for dim in dims[first:])
                sent = least_sent(op, fewest, members / fewest, adds)
                ports[0, first] = sent / rates[first:].sum()
                streams[0, first] = sent / max(1e-9, (rates * used)[first:].sum())
        walks = [walk_of(self.collective, op, parts, dims) for parts in spread.shapes] if known else []
        found = [walk for walk in walks if walk is not None]
        if not found or len(found) < len(walks):
            return _Needs(ports.ravel(), streams.ravel(), 0.0, 0.0)
        ports[1] = np.min([walk.sent for walk in found], axis=0)
        streams[1] = ports[1] / np.maximum(used, 1e-9)
        streams[2] = np.min([walk.next for walk in found], axis=0)
        return _Needs(ports.ravel(), streams.ravel(), min(walk.all for walk in found),
                      min(walk.longest for walk in found))


def _used(dim: LinkDim, places: int) -> float:
    """The part of an NPU's links in a dim that lead to members, which are in so many places there."""
    if dim.tag not in EACH_LINK:
        return float(places > 1)
    return min(1.0, (places - 1) / dim.links_per_npu)
