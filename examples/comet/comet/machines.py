"""Clusters of a study: one node's compute and memories, and the network between nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from msgspec import Struct

from astrarium import InputError, Network, Roofline, decode, replace
from astrarium.compute.config import Compute
from astrarium.config import default
from astrarium.network.config import Dim, LinkDim
from astrarium.plugins import Bandwidth, Bytes, Config, FlopRate, Knob, Problem
from astrarium.units import Money, OptionalBytes
from comet.hybrid import hybrid_bandwidth
from comet.parameters import Book

__all__ = ["Cluster", "Expansion", "Spread", "cluster_of", "spread_of"]


class Expansion(Config, frozen=True, kw_only=True):
    """A second memory of a node, behind the local one."""

    bandwidth: Annotated[Bandwidth, Knob("Bandwidth of one node's.", gt=0)]
    capacity: Annotated[OptionalBytes, Knob("Bytes of one node's; left out: as many as are needed.", gt=0)
                        ] = default(None)


def _counted(cluster: Cluster) -> Iterable[Problem]:
    for place, dim in enumerate(cluster.dims):
        if not isinstance(dim, LinkDim):
            yield Problem(f"dims[{place}].shape", f"{dim.tag} is several dims", "its rings, each as one dim")


class Cluster(Config, frozen=True, kw_only=True):
    """Equal nodes and their network. A node is what holds one rank: a GPU, a board, a tile."""

    rules = (_counted,)
    title: Annotated[str, Knob("What it is, as reports print it.")] = ""
    peak: Annotated[FlopRate, Knob("Peak of one node, at the precision of the workload.", gt=0)]
    buffer: Annotated[OptionalBytes, Knob("On-chip buffer of one node (compute.buffer).", gt=0)] = default(None)
    capacity: Annotated[Bytes, Knob("Local memory of one node.", gt=0)]
    bandwidth: Annotated[Bandwidth, Knob("Its bandwidth.", gt=0)]
    expansion: Annotated[Expansion | None, Knob("Memory behind it; left out: none.")] = None
    dims: Annotated[Sequence[Dim], Knob("Network, innermost dim first; `npus` at most.")]
    compute: Annotated[Compute | None, Knob("Compute model; left out: roofline with peak and buffer.")] = None
    price: Annotated[str | None, Knob("US dollars of one node, with its share of all that joins nodes.")] = None

    @property
    def dollars(self) -> float | None:
        """Price of a node; None: the book has none. Raises InputError for text that is no sum of money."""
        return None if self.price is None else float(Money(self.price))

    @property
    def links(self) -> tuple[LinkDim, ...]:
        """The dims."""
        return tuple([dim for dim in self.dims if isinstance(dim, LinkDim)])

    def network(self, nodes: int) -> Network:
        """The network of so many nodes: dims are filled from the innermost, what is left of the last ones falls away.
        Raises InputError where the dims do not make that many."""
        made, left = list[Dim](), nodes
        for dim in self.links:
            count = min(dim.npus, left)
            if left % count:
                raise InputError("nodes", f"{nodes} are not whole pods of {dim.npus}", expected="a multiple")
            if count > 1 or (dim is self.links[-1] and not made):
                made.append(replace(dim, "npus", count))
            left //= count
        if left > 1:
            raise InputError("nodes", f"{nodes} do not fit the cluster", expected=f"at most {nodes // left}")
        return Network(made)

    def model(self) -> Compute:
        """How long a node computes."""
        return self.compute or Roofline(self.peak, buffer=self.buffer)


class Spread(Struct, frozen=True):
    """Where a footprint lies: bytes in local and in expanded memory, whether they fit, and the bandwidth of all of it
    (byte/ns): COMET's hybrid one, that of local memory where all lies there or there is no other memory."""

    local: float
    expanded: float
    fits: bool
    bandwidth: float


def cluster_of(book: Book, name: str) -> Cluster:
    """A cluster of the book. Raises InputError with its path."""
    names = book.names("clusters")
    if name not in names:
        raise InputError(f"clusters.{name}", f"is not in {book.name}", expected="one of " + ", ".join(names))
    try:
        return decode(Cluster, book.plain(f"clusters.{name}"))
    except InputError as error:
        raise InputError(f"clusters.{name}.{error.path}", error.message, expected=error.expected,
                         did_you_mean=error.did_you_mean) from None


def spread_of(footprint: float, cluster: Cluster) -> Spread:
    """Local memory is filled first, expanded memory takes the rest; traffic is spread as the bytes are."""
    local, near = min(footprint, float(cluster.capacity)), float(cluster.bandwidth)
    rest, behind = footprint - local, cluster.expansion
    if behind is None or rest == 0:
        return Spread(local, rest, rest == 0, near)
    fits = behind.capacity is None or rest <= float(behind.capacity)
    return Spread(local, rest, fits, hybrid_bandwidth((local, rest), (near, float(behind.bandwidth))))
