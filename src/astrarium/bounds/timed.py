"""Collectives whose time a timer says (`collective.model`): that is the least that they take.

Such collectives do not meet in a run. What all of them need of one port (`collective.port_time`) is a lower bound of
`Result.at_least`; the *row* of `ports` is that port, of the network's outermost dim. The two rows of `streams` are
all_gathers, and the other collectives of a group.
"""

from __future__ import annotations

import numpy as np
from msgspec import field

from astrarium.arrays import F64, I64
from astrarium.bounds.wires import OPS, Wires
from astrarium.collective.bandwidth import payload
from astrarium.collective.config import Collective
from astrarium.collective.port_time import port_ns
from astrarium.collective.timers import Way, timer_of
from astrarium.errors import InputError
from astrarium.network.config import Network
from astrarium.vocab import CommOp
from astrarium.workload.mesh import Mesh

__all__ = ["TimedWires", "wires_of"]

LARGE = float(1 << 40)      # bytes at which latencies no longer count; times per byte only fall with the bytes


class TimedWires(Wires, frozen=True, eq=False, dict=True):
    """Floors of collectives of given times."""

    _times: dict[tuple[object, ...], float] = field(default_factory=dict)
    _ports: dict[tuple[object, ...], float] = field(default_factory=dict)

    def bound(self, op: CommOp, size: float, axes: tuple[str, ...], mesh: Mesh) -> float:
        """What the timer says of the group of rank 0; 0 where it does not know, which the simulation then says."""
        group = mesh.real(axes) if op in OPS else ()
        if not group:
            return 0.0
        key = (op, size, group, mesh.axes, mesh.sizes)
        if key not in self._times:
            members, timer = mesh.groups(group)[0], timer_of(self.collective)
            try:
                found = timer(op, payload(op, round(size), len(members)), self._ways(members.astype(np.int64)))
            except InputError:
                found = 0.0
            self._times[key] = found
        return self._times[key]

    def ports(self, op: CommOp, axes: tuple[str, ...], mesh: Mesh) -> F64:
        group = mesh.real(axes) if op in OPS else ()
        key = (op, group, mesh.axes, mesh.sizes)
        if group and key not in self._ports:
            ways = self._ways(mesh.groups(group)[0].astype(np.int64))
            outermost = bool(ways) and ways[-1].path == _path(len(self.network.flat) - 1)
            needed = port_ns(self.collective, op, float(payload(op, 1, mesh.size(group))), ways) if outermost else 0.0
            self._ports[key] = min(needed, self.bound(op, LARGE, axes, mesh) / LARGE)
        return np.array([self._ports[key] if group else 0.0])

    def streams(self, op: CommOp, axes: tuple[str, ...], mesh: Mesh) -> F64:
        found = np.zeros(2)
        found[int(op == CommOp.ALL_GATHER)] = self.bound(op, LARGE, axes, mesh) / LARGE
        return found

    @property
    def shared(self) -> bool:
        return False

    @property
    def port_rows(self) -> int:
        return 1

    @property
    def stream_rows(self) -> int:
        return 2

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


def _path(number: int) -> str:
    return f"network.dims[{number}]"


def wires_of(network: Network, collective: Collective) -> Wires:
    """The floors of a design's collectives."""
    return (Wires if collective.model == "simulated" else TimedWires)(network, collective)
