"""The collectives of a run by kind: one table of a run, one of several runs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.report.tables.table import Table
from astrarium.result import Result
from astrarium.trace.columns import Traces
from astrarium.trace.linked import logical_ops
from astrarium.units import format_bytes, format_rate, format_time
from astrarium.vocab import CommOp

__all__ = ["CollectiveKind", "collective_kinds", "collective_table", "collectives_side_by_side"]

TOP = 8             # kinds of collectives shown
PS_PER_NS = 1000


class CollectiveKind(Struct, frozen=True):
    """Collectives of one operation, number of ranks and payload (bytes): how many, the time that they took from the
    last rank's arrival and the wait before, both together in ps, bandwidths over all (GB/s; NaN if unknown), and
    composition, algorithms and chunks."""

    op: str
    ranks: int
    payload: int
    count: int
    spent: int
    waited: int
    algbw: float
    busbw: float
    how: str

    @property
    def mean_ns(self) -> float:
        """Mean time of one in ns."""
        return self.spent / self.count / PS_PER_NS


def collective_kinds(result: Result) -> list[CollectiveKind]:
    """Kinds of collectives by the time that they took together; bandwidths as in nccl-tests."""
    c = result.collectives
    if not len(c.op):
        return []
    key = np.stack([c.op.astype(np.int64), c.ranks, c.payload], axis=1)
    kinds, kind_of = np.unique(key, axis=0, return_inverse=True)
    kind_of = kind_of.reshape(-1)
    many = _sum(kind_of, c.instances, len(kinds))
    spent = _sum(kind_of, (c.end - c.ready) * c.instances, len(kinds))
    waited = _sum(kind_of, (c.ready - c.start) * c.instances, len(kinds))
    factor = np.full(len(kinds), np.nan)           # busbw / algbw, the same for all of a kind
    known = np.flatnonzero(~np.isnan(c.algbw) & (c.algbw > 0))
    factor[kind_of[known]] = c.busbw[known] / c.algbw[known]
    found = []
    for kind in sorted(range(len(kinds)), key=lambda kind: -spent[kind]):
        op, ranks, payload = kinds[kind].tolist()
        algbw = payload * many[kind] / (spent[kind] / PS_PER_NS) if spent[kind] else np.nan
        found.append(CollectiveKind(CommOp(op).name.lower(), ranks, payload, many[kind], spent[kind], waited[kind],
                                    algbw, float(algbw * factor[kind]), _how(c.how[kind_of == kind])))
    return found


def collective_table(result: Result) -> Table:
    """The kinds of collectives that took longest."""
    kinds = collective_kinds(result)
    rows = [(each.op, f"{each.ranks:,}", format_bytes(each.payload), f"{each.count:,}", format_time(each.mean_ns),
             format_time(each.waited / each.count / PS_PER_NS), _rate(each.algbw), _rate(each.busbw), each.how)
            for each in kinds[:TOP]]
    more = f", {TOP} of {len(kinds)} kinds" if len(kinds) > TOP else ""
    head = ("operation", "ranks", "payload", "times", "mean time", "mean wait", "algbw", "busbw", "how")
    width = len(head) if any(row[-1] for row in rows) else len(head) - 1
    return Table(f"collectives{more} (time: from the last rank's arrival{_asked(result)})", "<>>>>>>><"[:width],
                 [row[:width] for row in rows], head[:width])


def collectives_side_by_side(results: Mapping[str, Result]) -> Table | None:
    """The kinds that took longest in any of the runs, a row for each run that has it; None without collectives."""
    found: dict[tuple[str, int, int], dict[str, CollectiveKind]] = {}
    for name, result in results.items():
        for each in collective_kinds(result):
            found.setdefault((each.op, each.ranks, each.payload), {})[name] = each
    order = sorted(found, key=lambda kind: -max(each.spent for each in found[kind].values()))
    rows = [(each.op, f"{each.ranks:,}", format_bytes(each.payload), name, f"{each.count:,}", format_time(each.mean_ns),
             _rate(each.busbw), each.how) for kind in order[:TOP] for name, each in found[kind].items()]
    more = f", {TOP} of {len(order)} kinds" if len(order) > TOP else ""
    head = ("operation", "ranks", "payload", "design", "times", "mean time", "busbw", "how")
    return Table(f"collectives{more} (time: from the last rank's arrival)", "<>><>>><", rows, head) if rows else None


def _how(of_a_kind: npt.NDArray[np.str_]) -> str:
    """Composition, algorithms and chunks of a kind; groups of several shapes may run in several ways."""
    ways = list(dict.fromkeys(of_a_kind.tolist()))
    return ways[0] if len(ways) == 1 else f"{ways[0]}; {len(ways) - 1} more"


def _asked(result: Result) -> str:
    """Operations that a back end ran for others, as the recorded host operators say."""
    if not isinstance(result.traces, Traces):
        return ""
    pairs = {(CommOp(int(columns.comm_type[node])).name.lower(), asked) for columns in result.traces.classes
             for node, asked in logical_ops(columns).items() if int(columns.comm_type[node]) in set(CommOp)}
    return "".join(f"; {ran} ran for {asked}, too" for ran, asked in sorted(pairs))


def _sum(place: npt.NDArray[np.integer], values: I64, length: int) -> list[int]:
    total = np.zeros(length, np.int64)
    np.add.at(total, place, values)
    found: list[int] = total.tolist()
    return found


def _rate(value: float) -> str:
    return "" if np.isnan(value) else format_rate(value)
