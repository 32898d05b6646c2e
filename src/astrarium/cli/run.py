"""`astrarium run DESIGN.yaml`: simulate a design and say where the time goes. Of a matrix product beside a collective:
say what each costs the other."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from astrarium.cli.arguments import Parser, fold, idle, json_flag, note, place, set_flag, timeline
from astrarium.cli.arguments import rank as rank_number
from astrarium.cli.imports import say_imports
from astrarium.cli.pages import page_flags, page_for, write_page, written
from astrarium.report.notes.design import design_notes
from astrarium.report.notes.kernels import kernel_notes
from astrarium.report.notes.ports import port_notes

if TYPE_CHECKING:
    from astrarium.cost.interval import Interval
    from astrarium.design import Design
    from astrarium.report.pages.page import Page
    from astrarium.result import Result

__all__ = ["arguments", "run"]

MANY = 1 << 12      # NPUs for which the pure-Python engine takes about a minute of CPU per small collective


def arguments(parser: Parser) -> None:
    """The design, changes to it, and what to write."""
    parser.set_defaults(usage=parser)
    parser.add_argument("designs", nargs="*", metavar="DESIGN.yaml", help="the design file, or a matrix product next "
                        "to a collective (`gemm`, `op`, `gpu`, ...); of several designs, one table")
    parser.add_argument("--trace", metavar="PATTERN",
                        help="run traces ('w.*.et': *, ? or [...] for the rank) instead of the design's workload; "
                             "without a design, replay them")
    parser.add_argument("--rank", metavar="R", type=rank_number,
                        help="run only this rank's trace: alone, or on each NPU of the design (equal ranks)")
    set_flag(parser, 'change a field, such as "network.dims[1].bandwidth=100 GB/s"')
    fold(parser, None)
    json_flag(parser)
    timeline(parser)
    parser.add_argument("--parquet", metavar="DIR", help="write every table as DIR/<table>.parquet (extra: parquet)")
    page_flags(parser, "figures, where the time goes, pipeline, memory")
    parser.add_argument("--nodes", action="store_true", help="add the times of every node to --json and --parquet")
    parser.add_argument("--figure", metavar="NAME", action="append", default=[],
                        help="also print this figure (`astrarium list figure`), or the inputs that it lacks; may be "
                             "repeated")
    parser.add_argument("-v", "--verbose", action="store_true",
                        help="print what was simulated, and earlier attempts with the reason of their end")
    parser.add_argument("--pure", action="store_true", help="run the pure-Python engine: equal integers, but slow")


def run(options: argparse.Namespace) -> int:
    """Simulate, write the files, print."""
    from astrarium.cli.paths import is_overlap

    if len(options.designs) > 1:
        from astrarium.cli.run_several import run_several

        return run_several(options)
    options.design = next(iter(options.designs), None)
    if options.design is not None and is_overlap(options.design):
        from astrarium.cli.run_overlap import run_overlap

        return run_overlap(options)
    return _run(options)


def _run(options: argparse.Namespace) -> int:
    """Of one design, or of traces alone."""
    from astrarium.engine import HAVE_CORE
    from astrarium.workload.config import Trace

    idle("--timeline-ranks", options.timeline_ranks and options.timeline is None, "--timeline as well")
    idle("--nodes", options.nodes and not options.json and not options.parquet, "--json or --parquet as well")
    place("--timeline", options.timeline)
    page = page_for("run", options)
    design = _design(options)
    say_imports(design)
    if not HAVE_CORE and not options.pure:
        note("no compiled core here: the pure-Python engine runs (same integers, slowly)")
    if (options.pure or not HAVE_CORE) and design.network.npus > MANY:
        note(f"{design.network.npus:,} NPUs, and the pure-Python engine runs every rank: minutes to hours")
    result = _simulated(design, options)
    if isinstance(design.workload, Trace):
        from astrarium.cli.trace_notes import trace_notes

        for line in trace_notes(design, result):
            note(line)
    if result.outcome.unfolded_because and options.fold != "off":
        note(f"every rank was simulated: {result.outcome.unfolded_because}")
    clocks = _clocks(design, result)
    for ranks, found in clocks.items():
        note(f"compute.clock: {1000 * found['clock_ghz']:,.0f} MHz ({found['share']:.2f} of the highest) on {ranks}, "
             f"whose kernels draw {found['watts']} W")
    for line in (*design_notes(design), *kernel_notes(design, result), *port_notes(design, result)):
        note(line)
    if options.verbose:
        for attempt in result.outcome.how:
            note(attempt)
    if result.outcome.in_program_order:
        note("collectives were issued in program order: by collective.scheduling "
             f"{design.collective.scheduling} ranks would wait for each other")
    from astrarium.cost.interval import interval_of

    within = interval_of(design)
    more = {**_figures(design, result, options, within), **({"clocks": clocks} if clocks else {})}
    if options.timeline:
        _timeline(result, options)
    if options.parquet:
        from astrarium.result import write_parquet

        write_parquet(result, options.parquet, nodes=options.nodes, more=more)
    _print(design, result, options, more, within, page)
    return 0


def _clocks(design: Design, result: Result) -> dict[str, dict[str, float]]:
    """Class of ranks whose clock follows from its kernels -> its clock, and its power."""
    from astrarium.lower.clocks import clocks_of

    found = {}
    for ranks, each in clocks_of(design, result.traces):
        name = f"rank {ranks[0]}" + (f" and {len(ranks) - 1:,} equal ones" if len(ranks) > 1 else "")
        found[name] = {"clock_ghz": round(each.clock, 3), "share": round(each.share, 4), "watts": round(each.watts)}
    return found


def _simulated(design: Design, options: argparse.Namespace) -> Result:
    """The run, with a line of its progress on a terminal."""
    from astrarium.cli.progress import Line, Running
    from astrarium.engine import Limit
    from astrarium.simulate import simulate

    limit = Limit()
    with Line(sys.stderr, Running(limit)) as line:
        limit.begin()
        try:
            return simulate(design, fold=options.fold, pure=options.pure, note=line.note)
        finally:
            limit.end()


def _design(options: argparse.Namespace) -> Design:
    """The file's design with the traces of `--trace` and every `--set` in it, checked together; without a file the
    traces replay what they recorded."""
    from astrarium.config import assignments, replace, replace_all

    changes = assignments(options.set)
    if options.design is None and options.trace is None:
        options.usage.error("the following arguments are required: DESIGN.yaml or --trace PATTERN")
    if options.design is None:
        from astrarium.cli.replay_design import assumed, replay_design

        made = replay_design(options.trace, options.rank, changes)
        note(f"no design: {assumed(made)}")
        return made
    from astrarium.cli.paths import read_design
    from astrarium.workload.config import Trace

    late: dict[str, object] = {}
    if options.trace is not None:       # parts of the workload are those of the traces
        late = {path: changes.pop(path) for path in [*changes] if path.startswith("workload.")}
        changes.setdefault("workload", Trace(options.trace))
    design = replace_all(read_design(options.design, changes), late)
    idle("--rank", options.rank is not None and not isinstance(design.workload, Trace), "a workload of traces")
    return design if options.rank is None else replace(design, "workload.rank", options.rank)


def _timeline(result: Result, options: argparse.Namespace) -> None:
    from astrarium.report.timeline.counters import memory_counters, network_counters, queue_counters
    from astrarium.report.timeline.run import Recorded, write_timeline

    recorded = Recorded(result.plan, result.outcome, result.traces, memory_counters(result),
                        network_counters(result.plan, result.outcome) + queue_counters(result), result.first_rank,
                        None if result.job_ranks is None else result.job_ranks.label)
    write_timeline(options.timeline, recorded, ranks=options.timeline_ranks)
    if os.path.isfile(options.timeline):
        note(f"wrote {options.timeline}: open it at https://ui.perfetto.dev")


def _figures(design: Design, result: Result, options: argparse.Namespace,
             within: Interval | None) -> dict[str, dict[str, Any]]:
    """The figures, what holds for those of training, and the interval of the step time."""
    from astrarium.cost import figures
    from astrarium.cost.known import prices_assumed
    from astrarium.cost.training import conditions
    from astrarium.report.tables.interval import plain_interval

    about, found = conditions(design), figures(design, result, options.figure)
    prices = prices_assumed(design, found)
    if prices:
        note(f"money and energy: {'; '.join(prices)}")
    return {"figures": found, **({"training": about} if about else {}),
            **({"prices": {"assumed": prices}} if prices else {}),
            **({"interval": plain_interval(within, float(result.at_least))} if within else {})}


def _print(design: Design, result: Result, options: argparse.Namespace, more: dict[str, dict[str, Any]],
           within: Interval | None, page: Page | None) -> None:
    from astrarium.report.tables.about import about
    from astrarium.report.tables.figures import figure_table
    from astrarium.report.tables.interval import interval_table
    from astrarium.report.tables.summary import summary_tables
    from astrarium.report.tables.table import print_tables

    title = options.trace if options.design is None else f"{options.design}: {about(design)}"
    tables = (figure_table(more["figures"], more.get("training", {}), within), interval_table(within, result))
    if written(options):
        from astrarium.report.pages.page import ShownRun

        write_page(page, options, ShownRun(design, result, title, tables))
    if not options.json:
        print_tables(summary_tables(result, title, *tables), sys.stdout)
        return
    from astrarium.result.export import json_pieces

    for piece in json_pieces(result, nodes=options.nodes, more=more):
        sys.stdout.write(piece)
