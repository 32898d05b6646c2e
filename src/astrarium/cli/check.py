"""`astrarium check PATHS…`: the doctor. Every finding at once, each with its place and the fix."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from astrarium.cli.arguments import Parser, idle, json_flag, note, set_flag, whole
from astrarium.cli.imports import say_imports
from astrarium.cli.json_output import print_json
from astrarium.cli.paths import is_design, is_program, read_design
from astrarium.config import assignments
from astrarium.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from astrarium.design import Design
    from astrarium.trace import Dependencies
    from astrarium.workload.config import Trace

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """Paths and how to read them."""
    parser.add_argument("paths", nargs="+", metavar="PATH",
                        help="a design file (.yaml), traces (the prefix of prefix.RANK.et, or prefix.*.et), an MSCCL++ "
                        "plan (.json) or an MSCCL program (.xml), which is proved")
    set_flag(parser, "change a field of the designs first")
    parser.add_argument("--groups", metavar="FILE", help="JSON file of communicator groups (default: those of the "
                                                         "traces)")
    parser.add_argument("--dependencies", choices=("data+ctrl", "data"),
                        help="dependencies that a node waits for (data+ctrl); for a design, those of the design")
    parser.renamed = {"--limit": "--most"}
    parser.add_argument("--most", metavar="N", type=whole, default=1000, help="most findings of one code (1000)")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Print findings; 1 when one of them is an error."""
    traces = any(not is_design(path) and not is_program(path) for path in options.paths)
    idle("--groups", options.groups and not traces, "traces; a design file names its groups")
    idle("--dependencies", options.dependencies and not traces, "traces; a design file says it itself")
    idle("--set", options.set and not any(map(is_design, options.paths)), "a design file")
    changes, found = assignments(options.set), list[dict[str, Any]]()
    for path in options.paths:
        try:
            if is_program(path):
                _prove(path)
            else:
                found += _design(path, changes, options.most) if is_design(path) else _traces(path, path, options)
        except InputError as error:
            found += _faults(path, error)
    errors = sum(finding["severity"] == "error" for finding in found)
    if options.json:
        print_json("check", found)
    else:
        for finding in found:
            print(finding["text"])
        print(f"{_counted(errors, 'error')}, {_counted(len(found) - errors, 'warning')}", file=sys.stderr)
    return 1 if errors else 0


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _design(path: str, changes: Mapping[str, Any], limit: int) -> list[dict[str, Any]]:
    """Findings of the traces that a design names; where there are none, why it cannot run. ConfigError with every
    problem of the design itself."""
    from astrarium.simulate import prepare
    from astrarium.workload.config import Trace
    from astrarium.workload.jobs import Jobs

    design = read_design(path, changes)
    say_imports(design)
    works = [job.workload for job in design.workload.jobs] if isinstance(design.workload, Jobs) else [design.workload]
    found = [finding for work in works if isinstance(work, Trace)
             for finding in _of_workload(path, work, limit)]
    if not any(finding["severity"] == "error" for finding in found):
        try:
            prepare(design, record=False)
        except InputError as error:
            return found + _faults(path, error)
        found += _programs(path, design)
    return found


def _programs(path: str, design: Design) -> list[dict[str, Any]]:
    """What is wrong with the programs of collectives that a design names: a run times them and does not ask what they
    compute. A program without a proof is a warning."""
    found = list[dict[str, Any]]()
    for op in design.collective.custom.__struct_fields__:
        program = getattr(design.collective.custom, op)
        if not isinstance(program, str) or not is_program(program):
            continue
        try:
            _prove(program)
        except UnsupportedError as error:
            found += [each | {"severity": "warning", "code": "unproved"} for each in _faults(path, error)]
        except InputError as error:
            found += [each | {"code": "wrong_program"} for each in _faults(path, error)]
    return found


def _prove(program: str) -> None:
    """Say which operation a program computes, for any timing. Raises InputError where it computes none."""
    from astrarium.gpu import prove_program


    note(f"{program}: proved: {prove_program(program).name.lower()}, whatever the timing")


def _of_workload(path: str, work: Trace, limit: int) -> list[dict[str, Any]]:
    """Findings of the traces that a workload names."""
    from astrarium.trace import read_groups
    from astrarium.trace.read import trace_of_rank

    groups = read_groups(work.groups) if work.groups else None
    traces = work.path if work.rank is None else trace_of_rank(work.path, work.rank)
    return _findings(path, traces, groups, work.dependencies, limit)


def _traces(path: str, workload: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    from astrarium.trace import read_groups

    groups = read_groups(options.groups) if options.groups else None
    return _findings(path, workload, groups, options.dependencies or "data+ctrl", options.most)


def _findings(path: str, workload: str, groups: Mapping[str, Sequence[int]] | None, dependencies: Dependencies,
              limit: int) -> list[dict[str, Any]]:
    from astrarium.trace import check, read_traces

    traces = read_traces(workload)
    return [{"path": path, "severity": f.severity, "code": f.code, "ranks": list(f.ranks), "node": f.node,
             "name": f.name, "message": f.message, "fix": f.fix, "text": f"{path}: {f}"}
            for f in check(traces, groups, deps=dependencies, limit=limit)]


def _faults(path: str, error: InputError) -> list[dict[str, Any]]:
    """Why a path cannot be read at all, as findings: one per problem of a design file."""
    from astrarium.config.base import ConfigError

    parts = [error] if not isinstance(error, ConfigError) else [
        InputError(each.path, each.message, expected=each.expected, did_you_mean=each.did_you_mean)
        for each in error.problems]
    return [{"path": path, "severity": "error", "code": "unreadable", "ranks": [], "node": None, "name": None,
             "message": str(part), "fix": part.expected or "", "text": str(part)} for part in parts]
