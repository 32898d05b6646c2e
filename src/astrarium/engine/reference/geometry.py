"""Where NPUs are: coordinates in the dims, hops between them, and which ranks take part in a phase."""

from __future__ import annotations

from astrarium.engine.plan import Attached, Dim, Phase, Shape

__all__ = ["circle_base", "coordinate", "differing_dims", "end_at", "first_switches", "hops",
           "kinds_of_links", "strides", "switch_of"]


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


def kinds_of_links(dim: Dim) -> list[Dim | Attached]:
    """All whose bandwidth and latency links of a dim have."""
    return [dim, *dim.ends]


def hops(shape: Shape, size: int, source: int, destination: int) -> int:
    """Links on the way between two places of a dim; 0 between a place and itself."""
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
