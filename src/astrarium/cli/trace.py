"""`astrarium trace VERB …`: traces as a separate product. One file per sub-verb, named in one table."""

from __future__ import annotations

import argparse
import importlib
from functools import partial

from astrarium.cli.arguments import Parser

__all__ = ["SUB_VERBS", "arguments", "run"]

SUB_VERBS = {
    "link": ("trace_link", "Join a host and a device trace of PyTorch's profilers to PREFIX.RANK.et."),
    "write": ("trace_write", "Write what the workload of a design makes as PREFIX.RANK.et and a file of its groups."),
    "convert": ("trace_convert", "A text workload of ASTRA-sim 1.0 (DATA, HYBRID_TRANSFORMER, ...) as PREFIX.RANK.et."),
    "transform": ("trace_transform", "Cut, merge, rename, strip, scale, coalesce, retarget: files in, files out."),
    "collective": ("trace_collective", "A collective algorithm as traces (custom collectives) or as an MSCCL program."),
    "anonymise": ("trace_anonymise", "Names go, durations and sizes move within a budget: a trace to share."),
    "suite": ("trace_suite", "The benchmark suite: named traces of training and inference, generated on demand."),
    "synthesise": ("trace_synthesise", "Learn a model of traces, draw traces of other sizes from it, compare."),
    "graph": ("trace_graph", "The graph of a trace as a picture: .svg, .dot, .graphml; .pdf through Graphviz."),
    "collect": ("trace_collect", "Run a Python script and record what it does with PyTorch: FOLDER/trace.RANK.et."),
    "replay": ("trace_replay", "Execute traces on this machine: communication on torch.distributed, measured."),
    "show": ("trace_show", "What is in a trace file: nodes by kind, streams, collectives with busbw, overlap, idle."),
    "diff": ("trace_diff", "What differs between two traces: nodes by structure, values, totals by kind."),
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
