"""Clusters beside each other: each with its best strategy, what bounds it, and the ratios between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from astrarium import InputError
from comet.lab import Lab, Point
from comet.machines import Cluster
from comet.sweeps import faster, resources

__all__ = ["Row", "bounds", "compared", "expansion_ratios", "ratio", "spread_ratio"]


class Row(Struct, frozen=True):
    """A cluster with its best strategy (with times by phase), and what an iteration gains where one resource is twice
    as fast (1.3: it then takes 1 / 1.3 of the time)."""

    cluster: str
    point: Point
    gains: Mapping[str, float]

    @property
    def bound(self) -> str:
        """The resource that gains most."""
        return max(self.gains, key=lambda name: self.gains[name])


def bounds(lab: Lab, case: str, cluster: Cluster, point: Point) -> Mapping[str, float]:
    """Gain of each resource, twice as fast, under the same strategy. Equal resources of dims: one after the other."""
    chosen = lab.case(case)
    other = {name: lab.point(chosen, faster(cluster, {name: 2.0}), point.split, nodes=point.nodes)
             for name in resources(cluster, point)}
    return {name: point.seconds / each.seconds for name, each in other.items()}


def compared(lab: Lab, case: str, names: Sequence[str], nodes: int | None = None) -> tuple[Row, ...]:
    """Each cluster with its best strategy that fits; clusters that hold none are left out."""
    rows, chosen = list[Row](), lab.case(case)
    for name in names:
        cluster = lab.cluster(name)
        best = lab.best(chosen, cluster, nodes=nodes)
        if best is not None:
            point = lab.point(chosen, cluster, best.split, nodes=nodes, name=name, parts=True)
            rows.append(Row(name, point, bounds(lab, case, cluster, point)))
    return tuple(rows)


def spread_ratio(lab: Lab, case: str, names: Sequence[str]) -> tuple[float, str, str]:
    """(slowest over fastest, the slowest, the fastest) of clusters, each with its best strategy that fits. Clusters
    that hold none are left out; raises InputError where none holds one."""
    chosen, times = lab.case(case), dict[str, float]()
    for name in names:
        best = lab.best(chosen, lab.cluster(name))
        if best is not None:
            times[name] = best.seconds
    if not times:
        raise InputError("clusters", f"none of {', '.join(names)} holds a strategy of {case}", expected="more memory")
    slow, fast = max(times, key=lambda name: times[name]), min(times, key=lambda name: times[name])
    return times[slow] / times[fast], slow, fast


def expansion_ratios(lab: Lab, case: str, pairs: Sequence[Sequence[str]]) -> dict[str, tuple[float, Point, Point]]:
    """Cluster without expanded memory -> (its time over that with it, both points), each with its best strategy."""
    chosen, found = lab.case(case), dict[str, tuple[float, Point, Point]]()
    for without, expanded in pairs:
        before, after = (lab.must(lab.best(chosen, lab.cluster(name), name=name), case, name)
                         for name in (without, expanded))
        found[without] = before.seconds / after.seconds, before, after
    return found


def ratio(lab: Lab, case: str, name: str) -> float:
    """One of the book's `ratios`."""
    given = lab.book.value(f"ratios.{name}")
    if _are_names(given):
        return spread_ratio(lab, case, given)[0]
    if not isinstance(given, list) or not given or not all(_are_names(pair) and len(pair) == 2 for pair in given):
        raise InputError(f"ratios.{name}", f"{given!r:.60} is impossible", expected="a list of clusters, or of pairs")
    return max(each for each, _, _ in expansion_ratios(lab, case, given).values())


def _are_names(given: object) -> bool:
    return isinstance(given, list) and bool(given) and all(isinstance(each, str) for each in given)
