"""`astrarium show PATH`: a trace as tables, a design with everything that it leaves out, a network or a fabric with its
links, and its picture."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from astrarium.cli.arguments import Parser, idle, json_flag, place, rank, set_flag, wrote
from astrarium.cli.imports import say_imports
from astrarium.cli.json_output import print_json
from astrarium.cli.paths import is_design, is_fabric, read_design
from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.design import Design
    from astrarium.report.tables.show_fabric import ShownFabric
    from astrarium.trace import Traces

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """`PATH [--nodes] [--rank R] [--workload] [-o FILE] [--json]`."""
    parser.add_argument("path", metavar="PATH", help="a design file or a fabric (.yaml, .json, .xml, .txt), one trace "
                        "(.et), or the prefix of prefix.RANK.et")
    parser.add_argument("--nodes", action="store_true", help="list the nodes of one rank of a trace")
    parser.add_argument("--rank", metavar="R", type=rank, help="the rank of --nodes (0)")
    parser.add_argument("--workload", action="store_true",
                        help="print the generated workload of a design: operators, FLOPs, bytes, communication, memory")
    set_flag(parser, "change a field of the design or the fabric first")
    parser.add_argument("-o", "--out", metavar="FILE.svg", help="draw the network of a design, or the fabric")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Print what the path holds."""
    _picture_name(options.out)
    if is_fabric(options.path):
        for flag in ("nodes", "workload"):
            idle(f"--{flag}", getattr(options, flag), "a design or a trace")
        idle("--rank", options.rank is not None, "a trace and --nodes")
        return _fabric(options)
    if is_design(options.path):
        idle("--nodes", options.nodes, "a trace")
        idle("--rank", options.rank is not None, "a trace and --nodes")
        return _design(options)
    idle("--set", options.set, "a design or a fabric")
    idle("--out", options.out, "a design or a fabric; `astrarium trace graph` draws traces")
    idle("--workload", options.workload, "a design file")
    idle("--rank", options.rank is not None and not options.nodes, "--nodes as well")
    if options.nodes:
        return _nodes(options)
    from astrarium.report.tables.table import print_tables
    from astrarium.report.trace.show import class_rows, class_table

    traces = _read(options.path)
    if options.json:
        print_json("show traces", class_rows(traces))
    else:
        print_tables([class_table(traces)], sys.stdout)
    return 0


def _nodes(options: argparse.Namespace) -> int:
    from astrarium.report.tables.table import print_tables
    from astrarium.report.trace.show import node_lines, node_table

    traces = _read(options.path)
    if options.json:
        for line in node_lines(traces, options.rank or 0):
            print(line)
    else:
        print_tables([node_table(traces, options.rank or 0)], sys.stdout)
    return 0


def _read(path: str) -> Traces:
    """One file as rank 0, or the ranks of a prefix."""
    from astrarium.trace import read_traces

    return read_traces(path)


def _design(options: argparse.Namespace) -> int:
    from astrarium.config import assignments, dumps, to_plain
    from astrarium.report.tables.show_design import network_rows, network_table, with_units
    from astrarium.report.tables.show_fabric import fabric_rows, fabric_table, shown_dims, shown_fabric
    from astrarium.report.tables.table import print_tables

    design = read_design(options.path, assignments(options.set))
    say_imports(design)
    if options.workload:
        idle("--out", options.out, "no --workload")
        return _workload(design, options)
    fabric = None if design.network.fabric is None else shown_fabric(design.network.fabric)
    if options.out:
        _draw(fabric or shown_dims(design.network), options.out)
    if options.json:
        found = {"design": with_units(to_plain(design, defaults=True)), "npus": design.network.npus,
                 "network": network_rows(design.network), **({"fabric": fabric_rows(fabric)} if fabric else {})}
        print_json("show", found)
        return 0
    print(dumps(design, defaults=True))
    print_tables([network_table(design), *([fabric_table(fabric)] if fabric else [])], sys.stdout)
    return 0


def _fabric(options: argparse.Namespace) -> int:
    from astrarium.config import assignments, decode, put
    from astrarium.fabric.config import FabricFile
    from astrarium.report.tables.show_fabric import fabric_rows, fabric_table, shown_fabric
    from astrarium.report.tables.table import print_tables

    fabric = decode(FabricFile, put({"file": options.path}, assignments(options.set)))
    say_imports(fabric)
    shown = shown_fabric(fabric)
    if options.out:
        _draw(shown, options.out)
    if options.json:
        print_json("show fabric", fabric_rows(shown))
    else:
        print_tables([fabric_table(shown)], sys.stdout)
    return 0


def _picture_name(path: str | None) -> None:
    if path is not None and not path.lower().endswith(".svg") and not path.startswith("/dev/"):
        raise InputError("--out", f"{path!r}", expected="a name that ends in .svg")
    place("--out", path)


def _draw(shown: ShownFabric, path: str) -> None:
    from astrarium.config.whole import write_whole
    from astrarium.report.tables.show_fabric import fabric_picture

    picture = fabric_picture(shown).encode()
    with write_whole(path) as stream:
        stream.write(picture)
    wrote(path)


def _workload(design: Design, options: argparse.Namespace) -> int:
    from astrarium.report.tables.show_workload import workload_rows, workload_tables
    from astrarium.report.tables.table import print_tables

    if options.json:
        print_json("show workload", workload_rows(design))
    else:
        print_tables(workload_tables(design), sys.stdout)
    return 0
