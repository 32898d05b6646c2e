"""`astrarium explain A.yaml B.yaml`: why two designs' makespans differ, by knob; of two serving files TTFT, TPOT and
tokens per second, by knob and by part; of two studies, the objectives of their best designs; with `--trace`, why a
recorded run and its prediction do, by what the ranks' time goes into."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from astrarium.cli.arguments import Parser, idle, json_flag, note, set_flag, whole
from astrarium.cli.arguments import rank as rank_number
from astrarium.cli.json_output import print_json
from astrarium.cli.pages import page_flags, page_for, write_page, written
from astrarium.config import assignments, replace_all
from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.design import Design
    from astrarium.report.pages.page import Page
    from astrarium.report.tables.table import Table

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """Two designs, or one and the other rule book, or one and the recorded run that it describes."""
    parser.set_defaults(usage=parser)
    parser.add_argument("first", metavar="A.yaml", help="the design to start from; or a serving file, or a study, for "
                                                        "its best design")
    parser.add_argument("second", metavar="B.yaml", nargs="?", help="the one to arrive at")
    set_flag(parser, "change a field of B; without B, of A, which is then compared with A as it is")
    parser.add_argument("--compat", action="store_true", dest="reread",
                        help="instead of B: A in the other mode of `compat` (astra_sim or none)")
    parser.add_argument("--trace", metavar="PATTERN",
                        help="instead of B: linked traces of the recorded run that A describes ('w.*.et')")
    parser.add_argument("--rank", type=rank_number, metavar="R", help="with --trace: only this rank was recorded")
    parser.add_argument("--steps", type=whole, default=1, metavar="N",
                        help="with --trace: steps in the recording (1)")
    parser.add_argument("--orders", type=whole, metavar="N",
                        help="orders of changes to draw if more than 8 knobs differ (64)")
    parser.add_argument("--seed", type=int, help="seed of that draw (0)")
    page_flags(parser, "the tables, and what each knob adds as a waterfall")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Load, explain, print."""
    two = options.second is not None or bool(options.set)
    if two + options.reread + (options.trace is not None) != 1:
        options.usage.error("expected two designs, or one and --set, --compat or --trace")
    page = page_for("explain", options)
    if options.trace is not None:
        for name in ("orders", "seed"):
            idle(f"--{name}", getattr(options, name) is not None, "two designs, or --compat")
        return _against_trace(options, page)
    idle("--rank", options.rank is not None, "--trace")
    idle("--steps", options.steps != 1, "--trace")
    from astrarium.cli.paths import is_serving, read_design
    from astrarium.report.tables.explain import explanation_plain, explanation_sentence, explanation_tables
    from astrarium.search.explain import explain
    from astrarium.search.rule_books import explain_rules, rule_books

    orders, seed = 64 if options.orders is None else options.orders, options.seed or 0
    if options.second is not None and _studies(options.first, options.second):
        idle("--set", options.set, "designs, not studies")
        return _gains(options, page, orders, seed)
    if two and is_serving(options.first):
        return _serving(options, page, orders, seed)
    first = read_design(options.first)
    if options.reread:
        found, second = explain_rules(first, orders=orders, seed=seed), rule_books(first)[1]
        name = f"the same with compat: {second.compat}"
    else:
        second = read_design(options.second or options.first, assignments(options.set))
        found, name = explain(first, second, orders=orders, seed=seed), _second(options)
    answer = Answer("explain", found, explanation_plain(found), list(explanation_tables(found, options.first, name)),
                    explanation_sentence(found))
    _print(options, page, answer, first, second)
    return 0


class Answer(NamedTuple):
    """What was found: name of its format, itself, as plain data, as tables, in a sentence."""

    format: str
    found: object
    plain: dict[str, Any]
    tables: Sequence[Table]
    said: str = ""


def _print(options: argparse.Namespace, page: Page | None, answer: Answer, *designs: Design) -> None:
    """Print tables or JSON, and write the page, whose header has the designs."""
    if written(options):
        from msgspec.structs import replace

        from astrarium.report.pages.about import about_all
        from astrarium.report.pages.page import ShownTables

        first, *rest = answer.tables
        first = replace(first, title="the difference")
        lead = answer.said and f"{answer.said} "
        lead += "All times are simulated." if options.trace is None else "Predictions are simulated, the rest recorded."
        names = ("first", "second")[:len(designs)]
        write_page(page, options, ShownTables(f"Why they differ: {answer.tables[0].title}", lead, [first, *rest],
                                              answer.found, about=about_all(dict(zip(names, designs, strict=True)))))
    if options.json:
        print_json(answer.format, answer.plain)
        return
    from astrarium.report.tables.table import print_tables

    print_tables(answer.tables, sys.stdout)


def _second(options: argparse.Namespace) -> str:
    """What the design to arrive at is called."""
    return " ".join([options.second or "the same", *([f"with {', '.join(options.set)}"] if options.set else [])])


def _studies(*paths: str) -> bool:
    """Whether both files are studies. Raises InputError if one of them is."""
    from astrarium.search.studyfile import is_study

    which = [os.path.isfile(path) and is_study(path) for path in paths]
    if any(which) and not all(which):
        raise InputError(paths[which.index(False)], "is not a study, and the other is",
                         expected="two designs, or two studies")
    return all(which)


def _gains(options: argparse.Namespace, page: Page | None, orders: int, seed: int) -> int:
    """The best designs of two studies."""
    from astrarium.report.tables.gains import gains_plain, gains_tables
    from astrarium.search.gains import best_gains
    from astrarium.search.studyfile import load_study

    found = best_gains(load_study(options.first), load_study(options.second), orders=orders, seed=seed)
    _print(options, page, Answer("explain studies", found, gains_plain(found),
                                 list(gains_tables(found, options.first, options.second))))
    return 0


def _serving(options: argparse.Namespace, page: Page | None, orders: int, seed: int) -> int:
    """Two serving files."""
    from astrarium.cli.paths import read_as
    from astrarium.report.tables.explain_serving import serving_explanation_plain, serving_explanation_tables
    from astrarium.report.tables.interval import interval_remarks
    from astrarium.search.explain_serving import explain_serving
    from astrarium.serving.design import load_serving_design

    first, second = (read_as("serving file", load_serving_design, path)
                     for path in (options.first, options.second or options.first))
    second = replace_all(second, assignments(options.set))
    found = explain_serving(first, second, orders=orders, seed=seed)
    if found.saturated:
        note(f"{found.saturated:,} of the streams are saturated: their latencies grow with the length of the stream")
    for text in [] if any(each.known for each in found.within) else interval_remarks(found.within):
        note(text)
    _print(options, page, Answer("explain serving", found, serving_explanation_plain(found),
                                 list(serving_explanation_tables(found, options.first, _second(options)))))
    return 0


def _against_trace(options: argparse.Namespace, page: Page | None) -> int:
    """The design's run, and the replay of the recording."""
    from astrarium.cli.paths import read_design
    from astrarium.cli.replay_design import replay_design
    from astrarium.report.tables.gap import gap_plain, gap_tables
    from astrarium.result.gap import gap_of
    from astrarium.simulate import simulate
    from astrarium.trace.columns import Traces
    from astrarium.trace.linked import unrecorded_line

    design = read_design(options.first)
    recorded = simulate(replay_design(options.trace, options.rank), note=note)
    said = unrecorded_line(recorded.traces.classes) if isinstance(recorded.traces, Traces) else None
    if said is not None:
        note(said)
    found = gap_of(simulate(design, note=note), recorded, options.steps, options.rank)
    _print(options, page, Answer("explain trace", found, gap_plain(found),
                                 list(gap_tables(found, options.first, options.trace))), design)
    return 0
