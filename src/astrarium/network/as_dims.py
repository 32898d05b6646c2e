"""A fabric as `closed_form` takes it: the dims that it is without congestion (`fabric.uncongested`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from astrarium.config import Problem
from astrarium.fabric.built import Built
from astrarium.fabric.uncongested import Uncongested, uncongested
from astrarium.network.dims import config_dim, sizes_of
from astrarium.network.shapes import LinkDim
from astrarium.units import Time

__all__ = ["PORTS", "no_closed_form", "taken_as", "without_congestion"]

PORTS = "closed_form"       # has no links of a graph


@lru_cache(maxsize=8)
def without_congestion(built: Built) -> Uncongested | str:
    """The dims that a fabric is without congestion, or why it is none."""
    return uncongested(built.graph, built.npus, built.name)


def taken_as(built: Built) -> str:
    """What `closed_form` makes of a fabric, in words."""
    found = without_congestion(built)
    assert isinstance(found, Uncongested)
    dims = " x ".join(f"{dim.tag} of {dim.npus} ({dim.bandwidth}, {dim.latency})"
                      for dim in map(config_dim, found.dims))
    near = f"; messages between NPUs behind one switch take up to {Time.of(found.nearer)} less" if found.nearer else ""
    return f"closed_form takes the fabric as dims, {dims}: nothing waits between switches{near}"


def no_closed_form(built: Built, written: Sequence[LinkDim], able: str, in_switch: bool) -> Iterator[Problem]:
    """Problems of a fabric that `closed_form` cannot take as dims, and of `written` dims next to it that are others.

    Args:
        built: The fabric.
        written: The dims of the design; empty if it has none.
        able: The back ends that have links of a graph, for messages.
        in_switch: Whether its switches compute.
    """
    if in_switch:
        yield Problem("backend", "closed_form has no links of a graph, and the fabric has in_switch", able)
        return
    if built.dims is not None:
        return
    found = without_congestion(built)
    if isinstance(found, str):
        yield Problem("backend", f"closed_form has no links of a graph, and the fabric is no dims: {found}", able)
        return
    dims = [config_dim(dim) for dim in found.dims]
    if (written or len(dims) > 1) and sizes_of(written) != sizes_of(dims):
        yield Problem("dims", "are not those that closed_form takes the fabric as" if written else
                      "are missing: closed_form takes the fabric as dims, and every back end must lay collectives out "
                      "on them", "dims: [" + ", ".join(map(_text, dims)) + "]")


def _text(dim: LinkDim) -> str:
    """A dim as a design file has it."""
    return f"{{shape: {dim.tag}, npus: {dim.npus}, bandwidth: {dim.bandwidth}, latency: {dim.latency}}}"
