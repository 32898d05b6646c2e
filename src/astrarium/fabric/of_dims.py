"""Dims as an InfraGraph document: what `recognise` finds again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from astrarium.engine.plan import Dim, Shape
from astrarium.errors import UnsupportedError
from astrarium.fabric.make import between, component, device, document, instance, link
from astrarium.fabric.schema import Device, Document, Edge, Instance, Link

__all__ = ["document_of_dims"]

Slices = tuple[str, str]        # of two ends, one2one


def document_of_dims(dims: Sequence[Dim], name: str = "dims", *, numbers: bool = True) -> Document:
    """An infrastructure of one `npu` per NPU and, for dim d, links `dim<d>` and the switches `switch<d>`.

    `numbers`: with bandwidths and latencies. Raises UnsupportedError for a ring that goes one way: edges of the schema
    go both ways.
    """
    npus = prod([dim.npus for dim in dims])
    devices: list[Device] = [device("npu", [component("xpu", "xpu", 1)])]
    instances: list[Instance] = [instance("npu", npus)]
    links: list[Link] = []
    edges: list[Edge] = []
    stride = 1
    for number, dim in enumerate(dims):
        if dim.shape == Shape.RING_ONE_WAY and dim.npus > 2:
            raise UnsupportedError(f"network.dims[{number}].one_way", "edges of InfraGraph go both ways",
                                   expected="one_way: false")
        if dim.npus > 1:
            links.append(link(f"dim{number}", dim.bandwidth if numbers else None, dim.latency if numbers else None))
            if dim.shape == Shape.SWITCH:
                devices.append(device(f"switch{number}", [component("switch", "switch", 1)]))
                instances.append(instance(f"switch{number}", npus // dim.npus))
            edges += _edges(dim, number, stride, npus)
        stride *= dim.npus
    return document(name, devices, links, instances, edges)


def _edges(dim: Dim, number: int, stride: int, npus: int) -> Iterator[Edge]:
    """The edges of a dim, line by line."""
    for line in range(npus // dim.npus):
        base = line // stride * (stride * dim.npus) + line % stride
        all_of = f"npu[{_slice(base, dim.npus, stride)}]"
        if dim.shape == Shape.SWITCH:
            yield between(all_of, "xpu", f"switch{number}[{line}]", "switch", f"dim{number}", "many2many")
        elif dim.shape == Shape.FULLY_CONNECTED:
            yield between(all_of, "xpu", all_of, "xpu", f"dim{number}", "many2many")
        else:
            for one, two in _pairs(dim, base, stride):
                yield between(f"npu[{one}]", "xpu", f"npu[{two}]", "xpu", f"dim{number}", "one2one")


def _pairs(dim: Dim, base: int, stride: int) -> Iterator[Slices]:
    n = dim.npus
    if dim.shape == Shape.HYPERCUBE:
        for bit in (1 << place for place in range(n.bit_length() - 1)):
            for low in range(0, n, 2 * bit):
                yield _slice(base + low * stride, bit, stride), _slice(base + (low + bit) * stride, bit, stride)
        return
    yield _slice(base, n - 1, stride), _slice(base + stride, n - 1, stride)
    if dim.shape != Shape.MESH and n > 2:
        yield str(base + (n - 1) * stride), str(base)


def _slice(first: int, count: int, step: int) -> str:
    """`count` numbers from `first` on, `step` apart."""
    return str(first) if count == 1 else f"{first}:{first + (count - 1) * step + 1}" + (f":{step}" if step > 1 else "")
