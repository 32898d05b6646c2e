"""Ways through the native network: the links of a dimension-ordered route, innermost dim first, and their ports."""

from __future__ import annotations

from bisect import bisect
from math import prod

from astrarium.engine.plan import Dim, Shape
from astrarium.engine.reference.geometry import coordinate, differing_dims, end_at, first_switches, strides
from astrarium.engine.reference.hop import Hop
from astrarium.engine.reference.traffic import Port

__all__ = ["Routes", "port_numbers"]


class Routes:
    """The links between two NPUs, worked out once."""

    def __init__(self, dims: tuple[Dim, ...]) -> None:
        self._dims, self._strides, self._switches = dims, strides(dims), first_switches(dims)
        self._npus = prod(dim.npus for dim in dims)
        self._known: dict[tuple[int, int], list[Hop]] = {}

    def between(self, source: int, destination: int) -> list[Hop]:
        """The links in order; none from an NPU to itself."""
        route = self._known.get((source, destination))
        if route is None:
            between = self._route if max(source, destination) < self._npus else self._half
            route = self._known[source, destination] = between(source, destination)
        return route

    def _half(self, source: int, destination: int) -> list[Hop]:
        """The link between an NPU and its switch."""
        up = destination >= self._npus
        d = bisect(self._switches, max(source, destination)) - 1
        link = self._dims[d]
        return [Hop((d, source, -1, 0) if up else (d, -1, destination, 0), link.bandwidth, link.latency)]

    def ports(self) -> list[Port]:
        """The names of the links, numbered as `network.graph.graph_of` does: those that leave NPUs, then switches'."""
        switches = [d for d, dim in enumerate(self._dims) if dim.shape == Shape.SWITCH and dim.npus > 1]
        npus = range(prod(dim.npus for dim in self._dims))
        return ([port for d in range(len(self._dims)) for npu in npus for port in self._ports_of(d, npu)]
                + [(d, -1, npu, 0) for d in switches for npu in npus])

    def _ports_of(self, d: int, npu: int) -> list[Port]:
        """Of the links of a dim those that leave an NPU, by port."""
        dim, stride = self._dims[d], self._strides[d]
        n, place = dim.npus, coordinate(npu, stride, dim.npus)
        if n == 1:
            return []
        if dim.shape == Shape.SWITCH:
            return [(d, npu, -1, 0)]
        ends = {Shape.RING: [(place + 1) % n, (place - 1) % n][:n - 1], Shape.RING_ONE_WAY: [(place + 1) % n],
                Shape.MESH: [end for end in (place + 1, place - 1) if 0 <= end < n],
                Shape.HYPERCUBE: [place ^ 1 << bit for bit in range(n.bit_length() - 1)],
                Shape.FULLY_CONNECTED: [end for end in range(n) if end != place]}[dim.shape]
        return [(d, npu, npu + (end - place) * stride, _neighbour(dim, place, end)[0]) for end in ends]

    def _route(self, source: int, destination: int) -> list[Hop]:
        route: list[Hop] = []
        at = source
        for d in differing_dims(self._dims, self._strides, source, destination):
            dim, stride = self._dims[d], self._strides[d]
            end = coordinate(destination, stride, dim.npus)
            while (start := coordinate(at, stride, dim.npus)) != end:
                number, place = _neighbour(dim, start, end)
                landing = at + (place - start) * stride
                ports: list[tuple[Port, int]] = [((d, at, landing, number), start)]
                if dim.shape == Shape.SWITCH:
                    ports = [((d, at, -1, 0), start), ((d, -1, landing, 0), place)]
                for port, which in ports:
                    link = end_at(dim, which)
                    route.append(Hop(port, link.bandwidth, link.latency))
                at = landing
        return route


def port_numbers(dim: Dim, start: int, end: int) -> tuple[int, int]:
    """(out, in): ring and mesh 0 up and 1 down; fully_connected the peer; hypercube the first and the last bit."""
    if dim.shape == Shape.RING:
        clockwise = (end - start) % dim.npus
        back = int(dim.npus - clockwise < clockwise)
        return back, back
    if dim.shape == Shape.MESH:
        return int(end < start), int(end < start)
    if dim.shape == Shape.FULLY_CONNECTED:
        return end, start
    if dim.shape == Shape.HYPERCUBE:
        bits = start ^ end
        return (bits & -bits).bit_length() - 1, bits.bit_length() - 1
    return 0, 0


def _neighbour(dim: Dim, start: int, end: int) -> tuple[int, int]:
    """(port number, next place) on the way from one place of a dim to another."""
    if dim.shape in (Shape.RING, Shape.RING_ONE_WAY):
        back = dim.shape == Shape.RING and port_numbers(dim, start, end)[0]
        return (1, (start - 1) % dim.npus) if back else (0, (start + 1) % dim.npus)
    if dim.shape == Shape.MESH:
        return (1, start - 1) if end < start else (0, start + 1)
    if dim.shape == Shape.HYPERCUBE:
        bit = port_numbers(dim, start, end)[0]
        return bit, start ^ (1 << bit)
    return (end, end) if dim.shape == Shape.FULLY_CONNECTED else (0, end)
