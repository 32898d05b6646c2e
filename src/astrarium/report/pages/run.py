"""A run as one HTML page that needs nothing else: what `run` prints, and its plots."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from astrarium.design import Design
from astrarium.report.pages.about import about
from astrarium.report.pages.figures import figures
from astrarium.report.pages.html import named, note, page, section, table, table_of, wide
from astrarium.report.pages.page import Page, ShownRun
from astrarium.report.plot.plots.roofline import kernel_sums
from astrarium.report.tables.summary import makespan_words, summary_tables
from astrarium.result import Result
from astrarium.units import format_bytes, format_flop_rate, format_flops, format_rate, format_time
from astrarium.workload.transformer import Transformer

__all__ = ["PAGE", "run_page", "run_parts"]

BUSIEST = 3     # links of a fabric that its picture's remark names


def run_page(found: ShownRun) -> str:
    """The page."""
    ranks = len(found.result.outcome.row)
    what = " a step" if isinstance(found.design.workload, Transformer) else " from start to end"
    return page(named(found.title), f"{ranks:,} ranks, {makespan_words(found.result)}{what}. All figures "
                "are simulated.", run_parts(found), about(found.design))


def run_parts(found: ShownRun) -> Iterator[str]:
    """The parts of the page: times, plots, the other tables."""
    first, *rest = summary_tables(found.result, "Times and memory", *found.tables)
    yield table_of(first)
    yield from figures("run", found)
    yield from fabric_part(found.design, found.result)
    yield from kernel_part(found.result)
    for each in rest:       # the plot has the title "Critical path"
        yield table_of(replace(each, title="work on the critical path") if each.title == "critical path" else each)


def fabric_part(design: Design, result: Result) -> Iterator[str]:
    """The picture of a design's fabric, whose links are the redder the longer they are busy."""
    if design.network.fabric is not None:
        from astrarium.report.tables.show_fabric import busy_links, fabric_picture, shown_fabric

        busy, found = busy_links(result), result.links
        said = "" if not busy else (
            "Of the links of a name the busiest counts. The busiest of all, of the run: " + ", ".join(
                f"{found.name(int(at))} {100 * float(found.utilisation[at]):.1f} %"
                for at in np.argsort(-found.utilisation, kind="stable")[:BUSIEST]) + ".")
        yield section("The fabric", wide(fabric_picture(shown_fabric(design.network.fabric), busy)), note(said))


def kernel_part(result: Result) -> Iterator[str]:
    """Kernels by kind, as a table."""
    sums = kernel_sums(result)
    if not sums:
        return
    whole = sum(each.time for each in sums)
    rows = [(each.name, f"{each.nodes:,}", format_flops(each.flops), format_bytes(each.bytes), format_time(each.time),
             f"{100 * each.time / whole:.1f} %" if whole else "", format_flop_rate(each.flops / each.time)
             if each.time else "", format_rate(each.bytes / each.time) if each.time else "") for each in sums]
    yield section("Kernels", table(("kernel", "nodes", "FLOPs", "bytes", "time", "share", "reached", "bandwidth"), rows,
                                   "<>>>>>>>", "Kernels"), note("One rank of each class of equal ranks."))


PAGE = Page("run", run_page)
