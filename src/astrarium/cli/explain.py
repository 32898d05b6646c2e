"""`astrarium explain A.yaml B.yaml`: why two designs' makespans differ, by knob."""

from __future__ import annotations

import argparse
import json
import sys

from astrarium.cli.arguments import Parser, json_flag, whole

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """Two designs, or one and the other rule book."""
    parser.set_defaults(usage=parser)
    parser.add_argument("first", metavar="A.yaml", help="the design to start from")
    parser.add_argument("second", metavar="B.yaml", nargs="?", help="the design to arrive at")
    parser.add_argument("--compat", action="store_true", dest="reread",
                        help="instead of B: A under the other rule book (ASTRA-sim's; our own for compat: astra_sim)")
    parser.add_argument("--orders", type=whole, default=64, metavar="N",
                        help="orders of changes to draw where more than 8 knobs differ (64)")
    parser.add_argument("--seed", type=int, default=0, help="of that drawing (0)")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Load, explain, print."""
    if (options.second is None) != options.reread:
        options.usage.error("expected two designs, or one and --compat")
    from astrarium.cli.paths import read_design
    from astrarium.report.explain import explanation_plain, explanation_tables
    from astrarium.report.tables import print_tables
    from astrarium.search.explain import explain
    from astrarium.search.rule_books import explain_rules, rule_books

    first = read_design(options.first)
    if options.reread:
        found = explain_rules(first, orders=options.orders, seed=options.seed)
        name = f"the same with compat: {rule_books(first)[1].compat}"
    else:
        found = explain(first, read_design(options.second), orders=options.orders, seed=options.seed)
        name = options.second
    if options.json:
        print(json.dumps(explanation_plain(found), indent=1))
        return 0
    print_tables(explanation_tables(found, options.first, name), sys.stdout)
    return 0
