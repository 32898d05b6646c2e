"""Everything that the study simulates, once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from comet import (
    Answer,
    Changed,
    Cluster,
    Grid,
    Lab,
    LayerPhase,
    Point,
    Row,
    answers,
    by_split,
    capacities,
    compared,
    decompose,
    expansion_ratios,
    expansions,
    networks,
    scaled,
    sensitivities,
    spread_ratio,
)

import astrarium as ar

CASE, TABLES = "transformer_1t", "dlrm_1t"
STATES = ("weights", "gradients", "states")
MEASURED = {"A0": "a100_sxm_80gb", "B0": "h100_sxm"}     # clusters whose device has measured kernels
ZERO = (0, 1, 2, 3)


@dataclass(frozen=True)
class Found:
    """What the study found. `holds`: (strategy, ZeRO stage) -> (bytes of weights, gradients and states, bytes that
    count); `splits`: every strategy on the sweeps' cluster, and on the same without expanded memory; `tables`: DLRM on
    (nodes, cluster); `measured`: cluster -> the baseline's seconds by roofline, by measured kernels; `points`:
    different ones that the sweeps simulate; `rate`: CPU ms of one."""

    lab: Lab
    layers: tuple[LayerPhase, ...]
    holds: Mapping[tuple[int, int], tuple[float, float]]
    rows: tuple[Row, ...]
    spreads: Mapping[str, tuple[float, str, str]]
    expanded: Mapping[str, tuple[float, Point, Point]]
    changed: tuple[Changed, ...]
    answers: tuple[Answer, ...]
    splits: Sequence[Point]
    without: Sequence[Point]
    grids: Mapping[str, Grid]
    table_rows: tuple[Row, ...]
    tables: Mapping[tuple[int, str], Point]
    measured: Mapping[str, tuple[float, float]]
    points: int
    rate: float


def found_by(lab: Lab) -> Found:
    """Runs the study of a lab's book. Raises InputError for what the book has wrong."""
    book, case = lab.book, lab.case(CASE)
    names = book.value("ratios.clusters")
    main, plain = book.value("sweeps.cluster"), book.value("ratios.expansion")[0][0]
    rows = compared(lab, CASE, names)
    spreads = {name: spread_ratio(lab, CASE, book.value(f"ratios.{name}")) for name in ("clusters", "gpus")}
    grids, points, rate = _sweeps(lab, lab.cluster(main))
    return Found(
        lab=lab, layers=decompose(case.strategy(case.baseline)), holds=_holds(lab), rows=rows, spreads=spreads,
        expanded=expansion_ratios(lab, CASE, book.value("ratios.expansion")),
        changed=sensitivities(lab, CASE, ("clusters", "gpus", "expansion")), answers=answers(lab, CASE),
        splits=[lab.point(case, lab.cluster(main), split, name=main, parts=True) for split in case.splits],
        without=[lab.point(case, lab.cluster(plain), split, name=plain, parts=True) for split in case.splits],
        grids=grids, table_rows=compared(lab, TABLES, names), tables=_tables(lab, (plain, main)),
        measured=_measured(lab), points=points, rate=rate)


def _holds(lab: Lab) -> dict[tuple[int, int], tuple[float, float]]:
    case, found = lab.case(CASE), {}
    for split in case.splits:
        for zero in ZERO:
            held = lab.footprint(case, split, zero=zero)
            found[split, zero] = (sum(getattr(held, part) for part in STATES), case.counted(held))
    return found


def _sweeps(lab: Lab, cluster: Cluster) -> tuple[dict[str, Grid], int, float]:
    """The grids, how many points were simulated for them, and CPU ms of one (a first grid makes the strategies)."""
    value = lab.book.value
    grids = {"peak": by_split(lab, CASE, scaled(cluster, "peak", [1.0]))}
    start, before = time.process_time(), lab.simulated
    grids["peak"] = by_split(lab, CASE, scaled(cluster, "peak", value("sweeps.peak")))
    grids["bandwidth"] = by_split(lab, CASE, scaled(cluster, "bandwidth", value("sweeps.bandwidth")))
    grids["capacity"] = by_split(lab, CASE, capacities(cluster, value("sweeps.capacity")))
    grids["expansion"] = by_split(lab, CASE, expansions(cluster, value("sweeps.expansion")))
    grids["network"] = networks(lab, CASE, cluster, value("sweeps.intra"), value("sweeps.inter"))
    taken = time.process_time() - start
    count = lab.simulated - before
    return grids, count, taken / count * 1000


def _tables(lab: Lab, clusters: Sequence[str]) -> dict[tuple[int, str], Point]:
    case = lab.case(TABLES)
    return {(nodes, name): lab.point(case, lab.cluster(name), 1, nodes=nodes, name=name, parts=True)
            for nodes in case.node_counts for name in clusters}


def _measured(lab: Lab) -> dict[str, tuple[float, float]]:
    case, found = lab.case(CASE), {}
    for name, device in MEASURED.items():
        cluster = lab.cluster(name)
        kernels = ar.replace_all(cluster, {"compute": ar.Measured(device=device)})
        found[name] = (lab.point(case, cluster, case.baseline).seconds, lab.point(case, kernels, case.baseline).seconds)
    return found
