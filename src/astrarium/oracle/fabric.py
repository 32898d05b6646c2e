"""Fabrics: where NPUs are in the dims of a network, and by which links a message goes from one to another.

Routes through dims are computed (dimension order, innermost first); routes through a graph are `engine.routes`.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Sequence
from math import prod
from typing import Protocol

from astrarium.engine.plan import Attached, Changes, Changing, Dim, Graph, NetworkPlan, Phase, Shape
from astrarium.oracle.clock import Rates, rates_of, ticks
from astrarium.oracle.epochs import Epochs
from astrarium.oracle.record import Port

__all__ = ["Fabric", "Hop", "bandwidths", "circle_base", "coordinate", "differing_dims", "end_at", "fabric_of",
           "first_switches", "hops", "link_rates", "links_that_stand", "port_numbers", "strides", "switch_of"]


def strides(dims: tuple[Dim, ...]) -> list[int]:
    """The distance in NPU numbers between neighbours of each dim (product of the inner sizes)."""
    result, product = [], 1
    for dim in dims:
        result.append(product)
        product *= dim.npus
    return result


def coordinate(npu: int, stride: int, size: int) -> int:
    """The place of `npu` in a dim."""
    return (npu // stride) % size


def differing_dims(dims: tuple[Dim, ...], stride: list[int], source: int, destination: int) -> list[int]:
    """The dims in which two NPUs differ, innermost first."""
    return [d for d, dim in enumerate(dims)
            if coordinate(source, stride[d], dim.npus) != coordinate(destination, stride[d], dim.npus)]


def end_at(dim: Dim, place: int) -> Dim | Attached:
    """Whose bandwidth and latency the link between a place of a switch and the switch has."""
    first = dim.npus - len(dim.ends)
    return dim if place < first else dim.ends[place - first]


def hops(shape: Shape, size: int, source: int, destination: int) -> int:
    """Links between two places of a dim; 0 between a place and itself."""
    if source == destination:
        return 0
    if shape == Shape.SWITCH:
        return 2
    if shape == Shape.FULLY_CONNECTED:
        return 1
    if shape == Shape.MESH:
        return abs(destination - source)
    if shape == Shape.HYPERCUBE:
        return bin(source ^ destination).count("1")
    clockwise = (destination - source) % size
    return clockwise if shape == Shape.RING_ONE_WAY else min(clockwise, size - clockwise)


def first_switches(dims: tuple[Dim, ...]) -> list[int]:
    """Per dim the number of its first switch; NPUs come first, and dims without switches have none."""
    npus = strides(dims)[-1] * dims[-1].npus
    found, number = [], npus
    for dim in dims:
        found.append(number)
        number += npus // dim.npus if dim.shape == Shape.SWITCH and dim.npus > 1 else 0
    return found


def switch_of(dims: tuple[Dim, ...], d: int, npu: int) -> int:
    """The number of the switch of dim `d` that an NPU is linked to."""
    stride = strides(dims)[d]
    return first_switches(dims)[d] + npu // (stride * dims[d].npus) * stride + npu % stride


def circle_base(phase: Phase, position: int) -> tuple[int, int]:
    """(first position, own index) of the participants of a phase: first + k * stride for k in 0..n-1."""
    index = (position // phase.stride) % phase.n
    return position - index * phase.stride, index


class Hop:
    """A link: its name in the traffic, bytes per ns, and latency in ps."""

    __slots__ = ("bandwidth", "latency", "port")

    def __init__(self, port: Port, bandwidth: float, latency: float) -> None:
        self.port, self.bandwidth, self.latency = port, bandwidth, ticks(latency)


class Fabric(Protocol):
    """The links of a network, and the routes through them."""

    def between(self, source: int, destination: int) -> Sequence[Hop]:
        """The links of a message's route in order; none from an NPU to itself."""

    def ports(self) -> list[Port]:
        """The name of each link in the traffic, by its number."""

    def onward(self, at: int, source: int, destination: int) -> Sequence[Hop]:
        """The links from a node on, where links fail."""

    @property
    def epochs(self) -> Epochs | None:
        """Where links fail: the routes that are left."""


def fabric_of(network: NetworkPlan, changes: Changes | None = None) -> Fabric:
    """The fabric of a checked network, whose links change."""
    return DimsFabric(network.dims) if network.graph is None else GraphFabric(network, network.graph, changes)


def bandwidths(network: NetworkPlan) -> list[float]:
    """Bytes per ns of the links: one figure per dim and memory at its switches, or per link of the graph."""
    if network.graph is not None:
        found: list[float] = network.graph.bandwidth.tolist()
        return found
    return [bandwidth for dim in network.dims for bandwidth in (dim.bandwidth, *(end.bandwidth for end in dim.ends))]


def link_rates(fabric: Fabric, changes: Changes | None) -> Rates[Port]:
    """The changes of the fabric's links."""
    by_number = rates_of(changes, Changing.LINK)
    return by_number.renamed(fabric.ports()) if by_number else Rates({})


def links_that_stand(fabric: Fabric, rates: Rates[Port], wanted: Collection[Port]) -> list[str]:
    """A sentence for each of the wanted links that stands still for ever, by number."""
    return [f"link {number} stands still for ever, since {since} ps" for number, port in enumerate(fabric.ports())
            if port in wanted and (since := rates.stops(port)) is not None]


class DimsFabric:
    """The links between two NPUs, worked out once."""

    def __init__(self, dims: tuple[Dim, ...]) -> None:
        self._dims, self._strides, self._switches = dims, strides(dims), first_switches(dims)
        self._npus = prod(dim.npus for dim in dims)
        self._known: dict[tuple[int, int], list[Hop]] = {}
        self.epochs = None

    def between(self, source: int, destination: int) -> list[Hop]:
        """The links in order; none from an NPU to itself."""
        route = self._known.get((source, destination))
        if route is None:
            between = self._route if max(source, destination) < self._npus else self._half
            route = self._known[source, destination] = between(source, destination)
        return route

    def onward(self, at: int, source: int, destination: int) -> list[Hop]:
        """The same way from each node on it."""
        del source
        return self.between(at, destination)

    def _half(self, source: int, destination: int) -> list[Hop]:
        """The link between an NPU and its switch."""
        up = destination >= self._npus
        d = bisect(self._switches, max(source, destination)) - 1
        link = self._dims[d]
        return [Hop((d, source, -1, 0) if up else (d, -1, destination, 0), link.bandwidth, link.latency)]

    def ports(self) -> list[Port]:
        """The names of the links, numbered as `fabric.graph.graph_of` does: those that leave NPUs, then switches'."""
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
    """(port number, next place) on the route from one place of a dim to another."""
    if dim.shape in (Shape.RING, Shape.RING_ONE_WAY):
        back = dim.shape == Shape.RING and port_numbers(dim, start, end)[0]
        return (1, (start - 1) % dim.npus) if back else (0, (start + 1) % dim.npus)
    if dim.shape == Shape.MESH:
        return (1, start - 1) if end < start else (0, start + 1)
    if dim.shape == Shape.HYPERCUBE:
        bit = port_numbers(dim, start, end)[0]
        return bit, start ^ (1 << bit)
    return (end, end) if dim.shape == Shape.FULLY_CONNECTED else (0, end)


class GraphFabric:
    """The links of a graph; routes as `engine.routes` finds them. Where links fail, `epochs` says of which time."""

    def __init__(self, network: NetworkPlan, graph: Graph, changes: Changes | None) -> None:
        every = Epochs(network, graph, changes)
        self.epochs, self._routes = every if every.change else None, every.whole
        rows = zip(self._routes.source, self._routes.target, graph.bandwidth.tolist(), graph.latency.tolist(),
                   strict=True)
        self._hops = [Hop((0, source, target, number), bandwidth, latency)
                      for number, (source, target, bandwidth, latency) in enumerate(rows)]

    def between(self, source: int, destination: int) -> list[Hop]:
        """The links in order; none from an NPU to itself."""
        return self.onward(source, source, destination)

    def onward(self, at: int, source: int, destination: int) -> list[Hop]:
        """The links from a node on, of a message between two others."""
        if self.epochs is None and at == source:
            return [self._hops[link] for link in self._routes.between(source, destination)]
        found: list[Hop] = []
        while at != destination:
            link = (self.epochs or self._routes).next(at, source, destination)
            found.append(self._hops[link])
            at = self._routes.target[link]
        return found

    def ports(self) -> list[Port]:
        """The names of the links, by number."""
        return [hop.port for hop in self._hops]
