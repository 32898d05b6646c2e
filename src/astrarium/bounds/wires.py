"""What a collective takes at least: its bytes over the ports of its members.

Of a group, take the blocks of its members inside the first d dims. Over the dims from d on, some member sends at least
`collective.estimate.least_sent`, at no more than an NPU's bandwidth in those dims; the largest of these times over d is
the lower bound: latencies and algorithms only add to it. Where a timer says what a collective takes
(`collective.model`), that is its lower bound; such collectives do not meet in a run, and what all of them need of one
port (`collective.port_time`) is a lower bound of `Result.at_least`.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field

from astrarium.arrays import I64
from astrarium.collective.bandwidth import payload
from astrarium.collective.config import Collective
from astrarium.collective.estimate import least_sent
from astrarium.collective.port_time import port_ns
from astrarium.collective.timers import Way, timer_of
from astrarium.errors import InputError
from astrarium.network.config import Network, Switch
from astrarium.vocab import CommOp
from astrarium.workload.mesh import Mesh

__all__ = ["Wires"]

LARGE = float(1 << 40)      # bytes at which latencies no longer count; times per byte only fall with the bytes
OPS = (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.ALL_GATHER, CommOp.ALL_TO_ALL)     # others: 0


class Wires(Struct, frozen=True, eq=False):
    """Floors of collectives on a network, for meshes of ranks placed in order."""

    network: Network
    collective: Collective = Collective()
    _rates: dict[tuple[object, ...], dict[CommOp, float]] = field(default_factory=dict)
    _times: dict[tuple[object, ...], float] = field(default_factory=dict)
    _ports: dict[tuple[object, ...], float] = field(default_factory=dict)
    _slowest: dict[tuple[object, ...], float] = field(default_factory=dict)

    def bound(self, op: CommOp, size: float, axes: tuple[str, ...], mesh: Mesh) -> float:
        """ns at least of one collective of `size` bytes (as Chakra counts them) over the group of `axes`."""
        if op not in OPS:
            return 0.0
        group = mesh.real(axes)
        if not group:
            return 0.0
        if self.collective.model != "simulated":
            return self._timed(op, size, group, mesh)
        key = (group, mesh.axes, mesh.sizes)
        found = self._rates.get(key)
        if found is None:
            found = self._rates[key] = self._per_byte(mesh, group)
        return payload(op, 1, mesh.size(group)) * size * found[op]

    def rate(self, op: CommOp, axes: tuple[str, ...], mesh: Mesh) -> float:
        """ns per byte at least, however many bytes there are and in however many collectives."""
        return self.bound(op, LARGE, axes, mesh) / LARGE

    def port(self, op: CommOp, size: float, axes: tuple[str, ...], mesh: Mesh) -> float:
        """ns at least for which a collective of given time needs each member's port of the network's outermost dim."""
        group = mesh.real(axes) if op in OPS and self.collective.model != "simulated" else ()
        if not group:
            return 0.0
        key = (op, group, mesh.axes, mesh.sizes)
        if key not in self._ports:
            ways = self._ways(mesh.groups(group)[0].astype(np.int64))
            outermost = len(self.network.flat) - 1
            reach = bool(ways) and ways[-1].path == _path(outermost)
            self._ports[key] = port_ns(self.collective, op, 1.0, ways) if reach else 0.0
        needed = self._ports[key] * payload(op, 1, mesh.size(group)) * size
        return min(needed, self.bound(op, size, axes, mesh)) if needed else 0.0

    def port_rate(self, op: CommOp, axes: tuple[str, ...], mesh: Mesh) -> float:
        """`port` per byte, however many bytes there are and in however many collectives."""
        return self.port(op, LARGE, axes, mesh) / LARGE

    @property
    def shared(self) -> bool:
        """Whether collectives share ports, so that those of different streams add up."""
        return self.collective.model == "simulated"

    def _timed(self, op: CommOp, size: float, group: tuple[str, ...], mesh: Mesh) -> float:
        """What the timer says of the group of rank 0; 0 where it does not know, which the simulation then says."""
        key = (op, size, group, mesh.axes, mesh.sizes)
        if key not in self._times:
            members, timer = mesh.groups(group)[0], timer_of(self.collective)
            try:
                found = timer(op, payload(op, round(size), len(members)), self._ways(members.astype(np.int64)))
            except InputError:
                found = 0.0
            self._times[key] = found
        return self._times[key]

    def _ways(self, members: I64) -> list[Way]:
        """The dims along which a group lies."""
        found, inside, before = [], 1, len(members)
        for number, dim in enumerate(self.network.flat):
            inside *= dim.npus
            behind = len(np.unique(members // inside))
            if behind < before:
                found.append(Way(before // behind, float(dim.npu_bandwidth), dim.fabric, _path(number)))
            before = behind
        return found

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

    def _per_byte(self, mesh: Mesh, group: tuple[str, ...]) -> dict[CommOp, float]:
        """ns per byte of payload of each operation: the least of all groups."""
        table = mesh.groups(group).astype(np.int64)
        dims, n, inside = self.network.flat, table.shape[1], 1
        found = dict.fromkeys(OPS, 0.0)
        for first in range(len(dims)):
            blocks = np.sort(table // inside, axis=1)
            fewest = 1 + int((blocks[:, 1:] != blocks[:, :-1]).sum(axis=1).min())
            rate = sum(dim.npu_bandwidth for dim in dims[first:])
            adds = any(isinstance(dim, Switch) and dim.in_switch is not None for dim in dims[first:])
            if n % fewest == 0:
                for op in OPS:
                    found[op] = max(found[op], least_sent(op, fewest, n / fewest, adds) / rate)
            inside *= dims[first].npus
        return found


def _path(number: int) -> str:
    return f"network.dims[{number}]"
