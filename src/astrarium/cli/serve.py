"""`astrarium serve SERVING.yaml`: a stream of requests on a design; latencies, throughput, goodput."""

from __future__ import annotations

import argparse
import json
import sys

from astrarium.cli.arguments import Parser, json_flag
from astrarium.cli.imports import say_imports
from astrarium.cli.progress import Counted, Line
from astrarium.units import format_time

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """The serving file and changes to it."""
    parser.add_argument("serving", metavar="SERVING.yaml", help="the serving file: design, requests, policy, objective")
    parser.add_argument("--set", metavar="path=value", action="append", default=[],
                        help="change a field, such as requests.rate=4; may be repeated")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Serve and print."""
    from astrarium.cli.paths import read_as
    from astrarium.config import assignments
    from astrarium.design import load_design
    from astrarium.serving import load_serving, serve

    changes = assignments(options.set)
    serving = read_as("serving file", lambda path: load_serving(path, changes), options.serving)
    design = load_design(serving.design)
    say_imports(design)
    told = Counted()
    with Line(sys.stderr, told):
        served = serve(design, serving.requests, serving.policy, serving.buckets,
                       progress=lambda done, of, now: told.show(
                           done, of, f"requests answered, {format_time(now / 1e3)} simulated"))
    if options.json:
        print(json.dumps(dict(served.summary(serving.objective)), indent=1))
        return 0
    from astrarium.report.serving import serving_tables
    from astrarium.report.tables import print_tables

    print_tables(serving_tables(served, serving.objective, options.serving), sys.stdout)
    return 0
