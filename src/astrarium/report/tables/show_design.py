"""A design for people: every field with its unit, what was left out included, and the network's links."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from astrarium.design import Design
from astrarium.network.config import LinkDim, Network, Ring
from astrarium.report.tables.table import Table
from astrarium.units import Quantity, format_rate, format_time

__all__ = ["network_rows", "network_table", "with_units"]


def _ring(dim: LinkDim) -> int:
    if dim.npus < 2:
        return 0
    return dim.npus if isinstance(dim, Ring) and dim.one_way else 2 * dim.npus


_LINKS: Mapping[str, Callable[[LinkDim], int]] = MappingProxyType({
    "ring": _ring,
    "switch": lambda dim: 2 * dim.npus if dim.npus > 1 else 0,
    "fully_connected": lambda dim: dim.npus * (dim.npus - 1),
    "mesh": lambda dim: 2 * (dim.npus - 1),
    "hypercube": lambda dim: dim.npus * (dim.npus.bit_length() - 1),
})
"""One-way links of one instance of a dim; a switch has one up and one down per NPU."""


def network_rows(network: Network) -> list[dict[str, Any]]:
    """Per dim, innermost first: shape, NPUs, instances, one-way links of all of them, bandwidths, latency."""
    total, rows = network.npus, []
    for number, dim in enumerate(network.flat):
        instances = total // dim.npus
        each = _LINKS[dim.tag](dim)
        rows.append({"dim": number, "shape": dim.tag, "npus": dim.npus, "instances": instances,
                     "links": each * instances, "link_bandwidth_gb_per_s": dim.link_bandwidth,
                     "npu_bandwidth_gb_per_s": dim.npu_bandwidth, "latency_ns": dim.hop_latency})
    return rows


def network_table(design: Design) -> Table:
    """`network_rows` as a table."""
    rows = [(str(row["dim"]), row["shape"], f"{row['npus']:,}", f"{row['instances']:,}", f"{row['links']:,}",
             format_rate(row["link_bandwidth_gb_per_s"]), format_rate(row["npu_bandwidth_gb_per_s"]),
             format_time(row["latency_ns"])) for row in network_rows(design.network)]
    return Table(f"network: {design.network.npus:,} NPUs, {design.network.backend}", "><>>>>>>", rows,
                 ("dim", "shape", "NPUs", "times", "one-way links", "per link", "per NPU", "latency"))


def with_units(plain: Any) -> Any:
    """Plain data with every quantity as text with its unit."""
    if isinstance(plain, Quantity):
        return str(plain)
    if isinstance(plain, Mapping):
        return {key: with_units(value) for key, value in plain.items()}
    return [with_units(value) for value in plain] if isinstance(plain, (list, tuple)) else plain
