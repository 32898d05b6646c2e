"""Links and bandwidth of an NPU in a dim, as expressions over the knobs of a space."""

from __future__ import annotations

from collections.abc import Collection

from astrarium.design import Design

__all__ = ["links_text", "npu_bandwidth"]


def links_text(dim: str) -> str:
    """An NPU's links in the dim at path `dim`, as an expression over its shape and size."""
    return f"if({dim}.shape == 'ring', 2, if({dim}.shape == 'fully_connected', max(1, {dim}.npus - 1), " \
           f"if({dim}.shape == 'mesh', 2, if({dim}.shape == 'hypercube', ceil(log2(max(2, {dim}.npus))), 1))))"


def npu_bandwidth(design: Design, chosen: Collection[str], dim: str) -> str:
    """Bandwidth (byte/ns) of all of an NPU's links in the dim at path `dim`, as an expression over what the base
    `design` gives or the space has `chosen` (paths): the sum over links, or one link's times their number."""
    base = design.network.flat[int(dim[dim.index("[") + 1:-1])]
    per_link = base.bandwidth is not None or f"{dim}.bandwidth" in chosen or f"{dim}.link" in chosen
    if f"{dim}.bandwidth_per_npu" in chosen or not per_link:
        return f"{dim}.bandwidth_per_npu"
    return f"{dim}.bandwidth * {links_text(dim)}"
