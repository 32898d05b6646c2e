"""A fabric for people: its nodes and links as rows and a table, and the picture (`fabric_svg`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from astrarium.engine.plan import Shape
from astrarium.fabric.built import Laid, laid_of, laid_out
from astrarium.fabric.config import Fabric
from astrarium.fabric.numbers import Said, known
from astrarium.fabric.of_dims import document_of_dims
from astrarium.fabric.schema import COMPONENTS
from astrarium.fabric.sketch import sketch
from astrarium.network.config import Network
from astrarium.network.dims import plan_dims
from astrarium.report.svg.fabric import fabric_svg, link_words
from astrarium.report.tables.table import Table
from astrarium.units import format_rate, format_time

__all__ = ["ShownFabric", "fabric_picture", "fabric_rows", "fabric_table", "shown_dims", "shown_fabric"]


class ShownFabric(Struct, frozen=True, eq=False):
    """Nodes and edges of a fabric, what is known of each link, and what it is called."""

    laid: Laid
    known: list[Said]
    title: str


def shown_fabric(fabric: Fabric) -> ShownFabric:
    """A fabric, whatever is missing of its links. Raises InputError for a bad one."""
    laid = laid_out(fabric)
    said = {**{name: Said(free=True) for name in fabric.free}, **fabric.said}
    return ShownFabric(laid, known(laid.expanded.links, said, inside_free=fabric.inside == "free", tiers=laid.tiers,
                                   file=fabric.title), fabric.title)


def shown_dims(network: Network) -> ShownFabric:
    """The dims of a network as a fabric; a ring that goes one way is drawn as one that goes both."""
    dims = [type(dim)(Shape.RING if dim.shape == Shape.RING_ONE_WAY else dim.shape, dim.npus, dim.bandwidth,
                      dim.latency) for dim in plan_dims(network)]
    laid = laid_of(document_of_dims(dims))
    return ShownFabric(laid, known(laid.expanded.links, {}), "dims")


def fabric_rows(shown: ShownFabric) -> dict[str, Any]:
    """Nodes by kind, and per link: how many (each both ways), whether they lie on ways between XPUs, numbers, tier."""
    found = shown.laid.expanded
    counts = np.bincount(found.kinds, minlength=len(COMPONENTS))
    links, used = (np.bincount(each, minlength=len(found.links)) for each in (found.link,
                                                                             found.link[shown.laid.on_ways]))
    rows = [{"link": link.path, "links": int(links[at]), "on_ways": int(used[at]), "free": word.free,
             "bandwidth_gb_per_s": word.bandwidth,
             "latency_ns": word.latency, "tier": word.tier or None}
            for at, (link, word) in enumerate(zip(found.links, shown.known, strict=True)) if links[at]]
    return {"npus": int(shown.laid.npus.size),
            "nodes": {kind: int(count) for kind, count in zip(COMPONENTS, counts, strict=True) if count}, "links": rows}


def fabric_table(shown: ShownFabric) -> Table:
    """`fabric_rows` as a table."""
    plain = fabric_rows(shown)
    rows = []
    for row in plain["links"]:
        rate, time = row["bandwidth_gb_per_s"], row["latency_ns"]
        rows.append((row["link"], f"{row['links']:,}", f"{row['on_ways']:,}",
                     "free" if row["free"] else "not given" if rate is None else format_rate(rate),
                     "" if row["free"] else "not given" if time is None else format_time(time), row["tier"] or ""))
    nodes = ", ".join(f"{count:,} {kind}" for kind, count in plain["nodes"].items())
    return Table(f"fabric: {shown.title}: {nodes}", "<>>>><", rows,
                 ("link", "links", "on ways", "bandwidth", "latency", "tier"))


def fabric_picture(shown: ShownFabric) -> str:
    """The picture as SVG."""
    found = shown.laid.expanded
    plain = np.array([word.free or word.bandwidth is word.latency is None for word in shown.known], np.bool_)
    drawn = sketch(found, shown.laid.npus, shown.laid.on_ways, plain)
    words = {at: link_words(link.path, word) for at, (link, word) in enumerate(zip(found.links, shown.known,
                                                                                    strict=True))}
    return fabric_svg(f"{shown.title}: {shown.laid.npus.size:,} NPUs", drawn, words)
