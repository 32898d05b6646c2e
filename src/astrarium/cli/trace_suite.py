"""`astrarium trace suite list|card NAME|design NAME|make NAME -o PREFIX`: the benchmark suite."""

from __future__ import annotations

import argparse
import json
import sys

from astrarium.cli.arguments import Parser, note
from astrarium.cli.json_output import print_json
from astrarium.cli.trace_write import files_flags, how, progress, report
from astrarium.errors import InputError

__all__ = ["arguments", "run"]

MOST_BYTES, NODE_BYTES = 2e9, 80       # asked for before more is written; a node's bytes in a file, about


def arguments(parser: Parser) -> None:
    """What to do with which benchmark."""
    from astrarium.workload.suite import suite_names

    verbs = parser.add_subparsers(dest="suite_verb", metavar="list|card|design|make", required=True,
                                  parser_class=Parser)
    listed = verbs.add_parser("list", prog="astrarium trace suite list", description="All benchmarks.",
                              help="All benchmarks.")
    listed.add_argument("--json", action="store_true", help="print JSON")
    for verb, words in (("card", "Print a benchmark's sizes, work and checksum (JSON)."),
                        ("design", "The workload section of a design file, to run without files."),
                        ("make", "Write its traces, groups and card.")):
        sub = verbs.add_parser(verb, prog=f"astrarium trace suite {verb}", description=words, help=words)
        sub.add_argument("name", metavar="NAME", help="one of " + ", ".join(suite_names()))
        if verb == "make":
            sub.add_argument("--force", action="store_true", help="write even if the files take more than 2 GB")
            files_flags(sub)


def run(options: argparse.Namespace) -> int:
    """List, describe or write."""
    from astrarium.workload.suite import card_of, suite_entry, suite_names, suite_version

    if options.suite_verb == "list":
        entries = [suite_entry(name) for name in suite_names()]
        if options.json:
            rows = [{"name": each.name, "title": each.title, "workload": dict(each.workload)} for each in entries]
            print_json("trace suite list", {"version": suite_version(), "benchmarks": rows})
            return 0
        from astrarium.report.tables.table import Table, print_tables

        print_tables([Table(f"benchmark suite, version {suite_version()}", "<<",
                            [(each.name, each.title) for each in entries], ("name", "what"))], sys.stdout)
        return 0
    entry = suite_entry(options.name)
    if options.suite_verb == "design":
        print("workload:")
        print("".join(f"  {key}: {json.dumps(value)}\n" for key, value in entry.workload.items()), end="")
        return 0
    if options.suite_verb == "card":
        print(json.dumps(card_of(entry).plain(), indent=1))
        return 0
    return _make(options)


def _make(options: argparse.Namespace) -> int:
    from astrarium.config.whole import write_whole
    from astrarium.trace.export import write_generated
    from astrarium.workload.generate import generate
    from astrarium.workload.suite import card_of, suite_entry

    entry = suite_entry(options.name)
    made = generate(entry.config())
    card = card_of(entry, made)
    if entry.checksum is not None and card.checksum != entry.checksum:
        note(f"this is not version {card.version} of {entry.name}: its checksum was {entry.checksum[:16]}…")
    if card.nodes * NODE_BYTES > MOST_BYTES and not options.force:
        raise InputError("suite", f"{entry.name} has {card.nodes:,} nodes on {card.ranks:,} ranks, about "
                         f"{card.nodes * NODE_BYTES / 1e9:.0f} GB of files",
                         expected="--force, or `astrarium trace suite design`, which runs without files")
    written = write_generated(made, options.out, jobs=options.jobs, link=how(options), compress=options.gzip,
                              progress=progress())
    with write_whole(f"{options.out}.card.json") as stream:
        stream.write((json.dumps(card.plain(), indent=1) + "\n").encode())
    report(options, written)
    return 0
