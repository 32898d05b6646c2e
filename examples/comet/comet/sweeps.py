"""Sweeps: one or two resources of a cluster at several values, each under every strategy or under the best one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from astrarium import replace_all
from astrarium.plugins import Bandwidth, Bytes, FlopRate
from comet.lab import Lab, Point
from comet.machines import Cluster, Expansion

__all__ = ["Grid", "by_split", "capacities", "expansions", "faster", "networks", "resources", "scaled"]


class Grid(Struct, frozen=True):
    """Points of `rows` x `columns`; None where no strategy fits. `best` chooses the fastest that fits of a row."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    points: tuple[tuple[Point | None, ...], ...]

    def best(self, row: int) -> Point | None:
        """The fastest point of a row that fits."""
        there = [point for point in self.points[row] if point is not None and point.fits]
        return min(there, key=lambda point: point.seconds, default=None)


def faster(cluster: Cluster, factors: Mapping[str, float]) -> Cluster:
    """The cluster with resources times factors: `peak`, `bandwidth`, `expansion`, `dims[0]`, ..."""
    values: dict[str, object] = {}
    for name, factor in factors.items():
        if name == "peak":
            values["peak"] = FlopRate.of(float(cluster.peak) * factor)
        elif name == "bandwidth":
            values["bandwidth"] = Bandwidth.of(float(cluster.bandwidth) * factor)
        elif name == "expansion":
            assert cluster.expansion is not None
            values["expansion.bandwidth"] = Bandwidth.of(float(cluster.expansion.bandwidth) * factor)
        else:
            dim = cluster.links[int(name[5:-1])]
            values[f"{name}.bandwidth"] = Bandwidth.of(dim.link_bandwidth * factor)
    return replace_all(cluster, values)


def resources(cluster: Cluster, point: Point) -> tuple[str, ...]:
    """Names of the cluster's resources that a point uses."""
    behind = ("expansion",) if cluster.expansion is not None and point.spread.expanded else ()
    return ("peak", "bandwidth", *behind, *[f"dims[{number}]" for number in range(len(cluster.dims))])


def scaled(cluster: Cluster, name: str, factors: Sequence[float]) -> dict[str, Cluster]:
    """The cluster with one resource times each factor."""
    return {f"{factor:g}x": faster(cluster, {name: factor}) for factor in factors}


def expansions(cluster: Cluster, bandwidths: Sequence[str]) -> dict[str, Cluster]:
    """The cluster with expanded memories of these bandwidths, each as large as a strategy needs."""
    return {text: replace_all(cluster, {"expansion": Expansion(bandwidth=Bandwidth(text))}) for text in bandwidths}


def capacities(cluster: Cluster, sizes: Sequence[str]) -> dict[str, Cluster]:
    """The cluster with local memories of these sizes and no other."""
    return {text: replace_all(cluster, {"capacity": Bytes(text), "expansion": None}) for text in sizes}


def by_split(lab: Lab, case: str, clusters: Mapping[str, Cluster], *, unfit: bool = False) -> Grid:
    """Clusters x strategies. `unfit`: strategies that do not fit are there, too, with the time that they would take."""
    chosen = lab.case(case)
    rows = []
    for cluster in clusters.values():
        points = [lab.point(chosen, cluster, split) for split in chosen.splits]
        rows.append(tuple([point if unfit or point.fits else None for point in points]))
    return Grid(tuple(clusters), tuple(f"MP{split}" for split in chosen.splits), tuple(rows))


def networks(lab: Lab, case: str, cluster: Cluster, intra: Sequence[float], inter: Sequence[float]) -> Grid:
    """Bandwidth within pods x between pods, each with the best strategy that fits."""
    chosen, rows = lab.case(case), []
    for near in intra:
        rows.append(tuple([lab.best(chosen, faster(cluster, {"dims[0]": near, "dims[1]": far})) for far in inter]))
    return Grid(tuple(f"{near:g}x" for near in intra), tuple(f"{far:g}x" for far in inter), tuple(rows))
