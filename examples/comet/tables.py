"""The study's report as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from comet import MARKS, PHASES, Book, Point, Row
from verdicts import said, verdicts
from work import CASE, TABLES, ZERO, Found

from astrarium.plugins import Bandwidth, FlopRate

HEAD = """# COMET's study, reconstructed

This is a **reconstruction**. The body of the paper ([arXiv 2211.16648](https://arxiv.org/abs/2211.16648)) was not
available: the abstract is read, the rest recalled or assumed. Every number stands in `parameters.yaml` with its source
and mark. None is fitted to the published ratios.
"""


def report(found: Found, seconds: float) -> str:
    """The whole report; `seconds`: CPU time so far."""
    parts = (_ratios, _changed, _answers, _verdicts, _clusters, _holds, _layers, _strategies, _sweeps, _tables,
             _measured, _parameters)
    body = [line for part in parts for line in part(found)]
    effort = (f"{seconds:.0f} CPU-seconds in all; a point of the sweeps takes {found.rate:.1f} CPU-ms "
              f"({found.points} different points).")
    return "\n".join([HEAD, effort, "", *body]) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A table as lines of Markdown."""
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
            *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows), ""]


def _ratios(found: Found) -> Iterator[str]:
    yield "## Ratios\n"
    book = found.lab.book
    rows = []
    for name, told in (("clusters", "all clusters"), ("gpus", "A to C")):
        each, slow, fast = found.spreads[name]
        rows.append([f"clusters, {told}", f"up to {book.value('published.clusters'):g}x", f"{each:.2f}x",
                     f"{slow} over {fast}"])
    for name, (each, before, after) in found.expanded.items():
        rows.append([f"expanded memory, {name}", f"up to {book.value('published.expansion'):g}x", f"{each:.2f}x",
                     f"{before.name} {before.seconds:.1f} s -> {after.name} {after.seconds:.1f} s"])
    yield from table(["ratio", "published", "here", "of"], rows)


def _changed(found: Found) -> Iterator[str]:
    yield "## What they become with another number\n"
    now = [found.spreads["clusters"][0], found.spreads["gpus"][0], max(each for each, _, _ in found.expanded.values())]
    _, before, after = next(iter(found.expanded.values()))
    rows = [["as the parameters are", *[f"{each:.2f}x" for each in now], f"MP{before.split} to MP{after.split}"]]
    rows += [[each.name, *[f"{value:.2f}x" for value in each.ratios.values()],
              "MP{} to MP{}".format(*each.moved)] for each in found.changed]
    yield from table(["difference", "all clusters", "A to C", "expanded memory", "strategy of A with it"], rows)


def _answers(found: Found) -> Iterator[str]:
    yield "## Which parameter would have to be what\n"
    rows = []
    for each in found.answers:
        path, value = each.parameter, ""
        if each.factor is not None:
            scaled = found.lab.book.scaled({path: each.factor})
            value = _short(scaled.value(path))
        rows.append([each.ratio, f"{each.target:g}x", f"`{path}`", "no value" if each.factor is None else
                     f"{each.factor:.2f} times: {value}", f"{each.first:g} to {each.last:g} times",
                     f"{each.low:.2f} to {each.high:.2f}x"])
    yield from table(["ratio", "published", "parameter", "would have to be", "looked for in", "ratio there"], rows)


def _short(value: object) -> str:
    if isinstance(value, FlopRate):
        return f"{value / 1000:,.4g} TFLOP/s"
    return f"{value / 1:,.4g} GB/s" if isinstance(value, Bandwidth) else str(value)


def _verdicts(found: Found) -> Iterator[str]:
    yield "## Findings\n"
    yield from table(["finding", "verdict", "reason"], list(verdicts(found)))


def _clusters(found: Found) -> Iterator[str]:
    yield "## Clusters, Transformer-1T, each with its best strategy that fits\n"
    rows = []
    for row in found.rows:
        cluster, point = found.lab.cluster(row.cluster), row.point
        rows.append([row.cluster, cluster.title, point.name, f"{point.held / 1e9:.0f}",
                     f"{point.spread.bandwidth:,.0f}", f"{point.seconds:.2f}", *parts_of(row), said(row.bound)])
    yield from table(["", "cluster", "strategy", "GB a node", "GB/s of it", "s", "compute", "exposed", "bound by"],
                      rows)
    yield "![clusters](clusters.svg)\n"


def parts_of(row: Row) -> tuple[str, str]:
    """Shares of compute and of exposed communication."""
    parts = row.point.parts
    assert parts is not None
    total = parts.total
    return (f"{sum(parts.compute.values()) / total:.0%}", f"{sum(parts.exposed.values()) / total:.0%}")


def _holds(found: Found) -> Iterator[str]:
    yield "## Bytes of one node, Transformer-1T, GB\n"
    yield "Weights, gradients and states; behind the stroke all that counts, with one sample's activations.\n"
    case = found.lab.case(CASE)
    rows = [[f"MP{split}_DP{case.nodes // split}", *["{:,.1f} / {:,.1f}".format(*[part / 1e9 for part in
                                                                                    found.holds[split, zero]])
                                                      for zero in ZERO]] for split in case.splits]
    yield from table(["strategy", *[f"ZeRO {zero}" for zero in ZERO]], rows)
    yield "![footprint](footprint.svg)\n"


def _layers(found: Found) -> Iterator[str]:
    case = found.lab.case(CASE)
    yield f"## One node's work per layer and phase, MP{case.baseline}_DP{case.nodes // case.baseline}\n"
    rows = [[row.layer, row.layers, row.phase, len(row.products), f"{row.flops / 1e12:,.2f}", f"{row.bytes / 1e9:,.2f}",
             ", ".join(f"{op} {size / 1e9:.3g} GB over {'x'.join(axes)}" for op, size, axes in row.collectives)]
            for row in found.layers]
    yield from table(["layer", "of them", "phase", "products", "TFLOP", "GB, operands once", "collectives"], rows)


def _strategies(found: Found) -> Iterator[str]:
    yield "## Strategies on A1, s by phase (compute + exposed communication)\n"
    rows = [[point.name, "yes" if point.fits else "no", f"{point.held / 1e9:.0f}", f"{point.seconds:.2f}",
             *_by_phase(point, 1e9)] for point in found.splits]
    yield from table(["strategy", "fits", "GB", "s", *PHASES], rows)
    yield "![strategies](strategies.svg)\n"


def _by_phase(point: Point, unit: float) -> list[str]:
    assert point.parts is not None
    return [f"{point.parts.compute[phase] / unit:.3g} + {point.parts.exposed[phase] / unit:.3g}" for phase in PHASES]


def _sweeps(found: Found) -> Iterator[str]:
    yield "## Sweeps of A1: the best strategy that fits\n"
    for name, told in (("peak", "peak"), ("bandwidth", "local bandwidth"), ("capacity", "local memory, no other"),
                       ("expansion", "bandwidth of expanded memory, as large as needed")):
        grid = found.grids[name]
        rows = []
        for number, row in enumerate(grid.rows):
            best = grid.best(number)
            rows.append([row, "none fits", ""] if best is None else [row, best.name, f"{best.seconds:.2f}"])
        yield from table([told, "strategy", "s"], rows)
    grid = found.grids["network"]
    yield from table(["within pods / between", *grid.columns],
                      [[row, *["" if point is None else f"{point.name} {point.seconds:.1f}" for point in points]]
                       for row, points in zip(grid.rows, grid.points)])
    yield from (f"![{name}]({name}.svg)\n" for name in ("expansion", "peak", "capacity", "network"))


def _tables(found: Found) -> Iterator[str]:
    case = found.lab.case(TABLES)
    yield f"## {case.title}, ms by phase (compute + exposed communication)\n"
    rows = [[row.cluster, row.point.nodes, f"{row.point.held / 1e9:.0f}", f"{row.point.seconds * 1e3:.3f}",
             *_by_phase(row.point, 1e6)[:4], said(row.bound)] for row in found.table_rows]
    yield from table(["cluster", "nodes", "GB", "ms", *PHASES[:4], "bound by"], rows)
    rows = [[nodes, name, f"{point.held / 1e9:.0f}", "yes" if point.fits else "no", f"{point.spread.bandwidth:,.0f}",
             f"{point.seconds * 1e3:.3f}", f"{point.seconds * nodes * 1e3:.0f}"]
            for (nodes, name), point in found.tables.items()]
    yield from table(["nodes", "cluster", "GB", "fits", "GB/s of it", "ms", "node-ms"], rows)
    yield "![dlrm](dlrm.svg)\n"


def _measured(found: Found) -> Iterator[str]:
    yield "## Compute by measured kernels in place of the roofline, MP64_DP16\n"
    yield from table(["cluster", "roofline, s", "measured kernels, s", "ratio"],
                      [[name, f"{one:.2f}", f"{other:.2f}", f"{other / one:.2f}"]
                       for name, (one, other) in found.measured.items()])


def _parameters(found: Found) -> Iterator[str]:
    yield from parameters(found.lab.book)


def parameters(book: Book) -> Iterator[str]:
    """Every number of a book with its mark and source."""
    count = Counter(each.mark for each in book.parameters.values())
    yield "## Parameters\n"
    yield ", ".join(f"{count[mark]} {told} ({mark})" for mark, told in MARKS.items()) + ".\n"
    yield from table(["parameter", "value", "", "source"],
                      [[f"`{path}`", str(each.value)[:60].replace("|", "/"), each.mark, book.source(path)]
                       for path, each in book.parameters.items()])
