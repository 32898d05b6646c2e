"""Refusals of what is known of dims only."""

from __future__ import annotations

from astrarium.errors import UnsupportedError
from astrarium.network.config import Network

__all__ = ["needs_dims"]


def needs_dims(network: Network, what: str, *, written: bool = False) -> None:
    """Raise UnsupportedError for `what` of a fabric that is no dims, whose dims only lay out collectives. `written`: of
    any fabric without `network.dims`, too, which would have the numbers."""
    if network.fabric is None:
        return
    from astrarium.network.planned import on_graph

    if on_graph(network):
        raise UnsupportedError("network.fabric", f"{what} is not known of a graph that is no dims",
                               expected="network.dims, or a fabric that is dims, without network.ecmp")
    if written and not network.dims:
        raise UnsupportedError("network.fabric", f"{what} needs dims that are written out",
                               expected="network.dims (also together with the fabric)")
