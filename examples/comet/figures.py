"""The study's figures as SVG."""

from __future__ import annotations

from collections.abc import Sequence

from comet import PHASES, Breakdown, Grid, Point
from maps import heat_map, stacked_bars
from work import CASE, ZERO, Found

COLOURS = ("#4477aa", "#aa3377", "#66ccee", "#228833", "#bbbbbb")
LIGHTER = ("#a9c2dc", "#dba8c8", "#bfe8f6", "#9cc9a1", "#e3e3e3")
PARTS = [*[(f"{phase}, compute", colour) for phase, colour in zip(PHASES, COLOURS)],
         *[(f"{phase}, exposed", colour) for phase, colour in zip(PHASES, LIGHTER)]]
RISES = (0.8, 1.0, 1.2, 1.4)        # lines of equal speed-up


def figures(found: Found) -> dict[str, str]:
    """Name -> SVG."""
    baseline = found.lab.case(CASE).baseline
    grids, base = found.grids, next(point for point in found.without if point.split == baseline)
    return {
        "strategies": bars("Transformer-1T by strategy, with expanded memory (A1), s",
                            [(point.name, point) for point in found.splits if point.fits]),
        "clusters": bars("Transformer-1T, each cluster with its best strategy, s",
                          [(f"{row.cluster} {row.point.name}", row.point) for row in found.rows]),
        "footprint": _footprint(found),
        "expansion": _gain("Speed over MP64_DP16 without expanded memory", "bandwidth of expanded memory",
                           grids["expansion"], base),
        "peak": _gain("Speed over MP64_DP16 of A0, by peak", "times the peak", grids["peak"], base),
        "capacity": _gain("Speed over MP64_DP16 of A0, by local memory", "local memory", grids["capacity"], base),
        "network": _gain("Speed over MP64_DP16 of A0, best strategy", "within pods", grids["network"], base,
                         "between pods"),
        "dlrm": bars("DLRM-1.2T by nodes, without (A0) and with (A1) expanded memory, ms",
                      [(f"{nodes} x {name}", point) for (nodes, name), point in found.tables.items() if point.fits],
                      1e6),
    }


def _values(parts: Breakdown | None, unit: float) -> list[float]:
    assert parts is not None
    return [each[phase] / unit for each in (parts.compute, parts.exposed) for phase in PHASES]


def bars(title: str, points: Sequence[tuple[str, Point]], unit: float = 1e9) -> str:
    """Points as bars of their times by phase."""
    rows = [(name, _values(point.parts, unit)) for name, point in points]
    used = [at for at in range(len(PARTS)) if any(values[at] > 0 for _, values in rows)]
    shown = [(name, [values[at] for at in used]) for name, values in rows]
    return stacked_bars(title, [PARTS[at] for at in used], shown, lambda value: f"{value:.3g}")


def _gain(title: str, rows: str, grid: Grid, base: Point, columns: str = "model-parallel nodes") -> str:
    cells = [[None if point is None or not point.fits else base.seconds / point.seconds for point in row]
             for row in grid.points]
    return heat_map(title, (rows, grid.rows), (columns, grid.columns), cells, lambda value: f"{value:.2f}x", RISES)


def _footprint(found: Found) -> str:
    splits = found.lab.case(CASE).splits
    cells = [[found.holds[split, zero][1] / 1e9 for split in splits] for zero in ZERO]
    return heat_map("Bytes of one node, GB", ("ZeRO", [f"stage {zero}" for zero in ZERO]),
                    ("strategy", [f"MP{split}" for split in splits]), cells, lambda value: f"{value:,.0f}", (80, 560))
