"""The counts of one trace file as tables."""

from __future__ import annotations

from astrarium.report.tables.table import Table
from astrarium.trace.counts import Statistics
from astrarium.units import format_bytes, format_flops, format_time

__all__ = ["statistics_tables"]

NS_PER_US = 1000


def statistics_tables(counted: Statistics, title: str) -> list[Table]:
    """Nodes by kind, collectives by operation, operations by stream."""
    counts = [*counted.by_kind.items(), ("host nodes", counted.host_nodes), ("GPU operations", counted.gpu_operations),
              ("GPU memory fills", counted.gpu_memsets)]
    rows = [(name, f"{count:,}") for name, count in counts]
    kind = counted.metadata.get("kind")
    if counted.flop or counted.tensor_bytes:
        rows += [("FLOPs of compute", format_flops(counted.flop)),
                  ("bytes of compute", format_bytes(counted.tensor_bytes))]
    tables = [Table(f"{title}: {f'{kind}, ' if kind else ''}{counted.nodes:,} nodes, "
                    f"{counted.edges['data']:,} data and {counted.edges['control']:,} control dependencies", "<>",
                    rows, ("nodes", "count")),
              Table("recorded time", "<>", [(name, format_time(micros * NS_PER_US))
                                            for name, micros in counted.recorded_us.items()], ("where", "time"))]
    if counted.collectives:
        tables.append(Table("collectives", "<>>", [
            (name, f"{count:,}", format_bytes(counted.collective_bytes[name]))
            for name, count in counted.collectives.items()], ("operation", "count", "bytes")))
    if counted.streams:
        tables.append(Table("GPU streams", "<>>", [
            (name, f"{each['operations']:,}", format_time(each["recorded_us"] * NS_PER_US))
            for name, each in counted.streams.items()], ("stream", "operations", "recorded time")))
    return tables
