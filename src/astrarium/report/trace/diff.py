"""The difference of two traces as tables."""

from __future__ import annotations

from astrarium.report.tables.table import Table
from astrarium.trace.diff import RankDiff, TraceDiff
from astrarium.trace.read import spans

__all__ = ["diff_tables"]

SHOWN = 20


def diff_tables(found: TraceDiff) -> list[Table]:
    """Per pair of different traces: totals by kind, and the first nodes that differ."""
    tables = []
    if found.ranks[0] != found.ranks[1]:
        tables.append(Table(f"{found.ranks[0]:,} ranks against {found.ranks[1]:,}: the common ones are compared", "<",
                            []))
    for pair in found.pairs:
        tables += _pair(pair)
    return tables


def _pair(pair: RankDiff) -> list[Table]:
    ranks = spans(pair.ranks)
    if pair.same:
        return [Table(f"ranks {ranks}: {pair.matched:,} nodes, no difference", "<", [])]
    title = (f"ranks {ranks}: {pair.matched:,} nodes in both, {len(pair.changed):,} of them changed; "
             f"{len(pair.removed):,} only in the first, {len(pair.added):,} only in the second")
    rows = [(kind, *(f"{a:,}" if a == b else f"{a:,} -> {b:,}" for a, b in (words["nodes"], words["recorded_us"],
                                                                          words["flop"], words["bytes"])))
            for kind, words in pair.totals.items()]
    if pair.kinds[0] != pair.kinds[1]:
        title += f" (a {pair.kinds[0] or 'nameless'} trace and a {pair.kinds[1] or 'nameless'} one)"
    tables = [Table(title, "<>>>>", rows, ("kind", "nodes", "recorded us", "flop", "bytes"))]
    nodes = [*(("-", str(number), name, "") for number, name in pair.removed[:SHOWN]),
             *(("+", str(number), name, "") for number, name in pair.added[:SHOWN]),
             *(("~", str(each.before), each.name, ", ".join(f"{word} {a} -> {b}" for word, (a, b) in
                                                           each.fields.items())) for each in pair.changed[:SHOWN])]
    total = len(pair.removed) + len(pair.added) + len(pair.changed)
    more = f" (the first {SHOWN} of each; --json has all)" if len(nodes) < total else ""
    tables.append(Table(f"nodes{more}", "<><<", [(sign, number, name[:50], text) for sign, number, name, text in nodes],
                        ("", "id", "name", "what")))
    return tables
