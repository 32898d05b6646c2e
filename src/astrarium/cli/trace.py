"""`astrarium trace VERB …`. One file per sub-verb, named in one table."""

from __future__ import annotations

import argparse
import importlib
from functools import partial

from astrarium.cli.arguments import Parser

__all__ = ["SUB_VERBS", "arguments", "run"]

SUB_VERBS = {
    "link": ("trace_link", "Link a host and a device trace of PyTorch's profilers to PREFIX.RANK.et."),
    "write": ("trace_write", "Write the generated workload of a design as PREFIX.RANK.et and a file of its groups."),
    "convert": ("trace_convert", "Convert a text workload of ASTRA-sim 1.0, or a trace of another form, to "
                                 "PREFIX.RANK.et."),
    "transform": ("trace_transform", "Transform traces: cut, merge, rename, strip, scale, coalesce, retarget."),
    "collective": ("trace_collective", "Write a collective algorithm as traces (custom collectives) or as an MSCCL "
                                       "program."),
    "anonymise": ("trace_anonymise", "Anonymise a trace to share it: remove names, change durations and sizes within a "
                                     "budget."),
    "suite": ("trace_suite", "List or generate the benchmark suite: named traces of training and inference."),
    "synthesise": ("trace_synthesise", "Learn a model of traces, draw traces of other sizes from it, and compare "
                                       "them."),
    "graph": ("trace_graph", "Draw the graph of a trace: .svg, .dot, .graphml; .pdf with Graphviz."),
    "collect": ("trace_collect", "Run a Python script and record its PyTorch operators to FOLDER/trace.RANK.et."),
    "replay": ("trace_replay", "Execute traces on this machine: communication on torch.distributed, measured."),
    "show": ("trace_show", "Print a trace file: nodes by kind, streams, collectives with busbw, overlap, idle."),
    "diff": ("trace_diff", "Compare two traces: nodes by structure, values, totals by kind."),
}
"""Sub-verb -> (module in this package, one sentence)."""


def arguments(parser: Parser) -> None:
    """A parser per sub-verb, of which only the one that is asked for gets its arguments."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    for name, (module, sentence) in SUB_VERBS.items():
        sub = verbs.add_parser(name, prog=f"astrarium trace {name}", description=sentence, help=sentence)
        sub.fill = partial(_fill, module)


def _fill(module: str, parser: Parser) -> None:
    importlib.import_module(f"astrarium.cli.{module}").arguments(parser)


def run(options: argparse.Namespace) -> int:
    """The sub-verb."""
    code: int = importlib.import_module(f"astrarium.cli.{SUB_VERBS[options.verb][0]}").run(options)
    return code
