"""`astrarium calibrate FILE... -o mydevice.toml`: your own timings of kernels to a device that designs can name."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from glob import glob
from types import MappingProxyType
from typing import TYPE_CHECKING

from astrarium.cli.arguments import Parser, apart, idle, json_flag, note, place, seconds, whole, wrote
from astrarium.cli.json_output import json_text
from astrarium.cli.pages import page_flags, page_for, write_page, written
from astrarium.errors import InputError
from astrarium.units import Bandwidth, FlopRate

if TYPE_CHECKING:
    from astrarium.compute.kernels import Machine
    from astrarium.compute.timings import Timing
    from astrarium.report.pages.page import Page
    from astrarium.report.tables.table import Table

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """Timings, the device that they correct, and where to write."""
    parser.add_argument("file", nargs="*", metavar="FILE", help="timings (CSV with a header, or JSON; columns: "
                        "docs/guides/calibrate.md), or recordings: a Chakra trace (PREFIX or files .et), files of "
                        "Kineto, with execution traces of the same runs next to them")
    parser.add_argument("-o", "--out", metavar="FILE", help="where to write the device (standard output)")
    parser.add_argument("--base", metavar="DEVICE", help="a device with measured kernels that the timings correct")
    parser.add_argument("--rows", metavar="FILE.csv", help="also write the timings that were found in recordings; with "
                        "--measure the file of rows, which a second run continues (OUT.rows.csv)")
    parser.add_argument("--peak", metavar="RATE", help="without --base: dense bf16 peak of the data sheet")
    parser.add_argument("--bandwidth", metavar="RATE", help="without --base: memory bandwidth of the data sheet")
    parser.add_argument("--units", type=whole, metavar="N", help="without --base: multiprocessors or compute units")
    parser.add_argument("--fabric", metavar="NAME", help="FILEs are logs of nccl-tests, inside one host or over "
                        "several: write a row of this name for --catalog, which a dim takes as its `fabric`")
    parser.renamed = {"--link": "--link-bandwidth", "--host": "--inside"}
    parser.add_argument("--link-bandwidth", metavar="RATE", help="with --fabric: bandwidth out of one NPU (of several "
                        "hosts: of its NIC) of the data sheet")
    parser.add_argument("--inside", metavar="FABRIC", help="with logs of several hosts: the fabric inside them")
    parser.add_argument("--serving", metavar="FILE.yaml", help="FILE is a log of one engine, a request a line: print "
                        "the policy's overhead and stream_offset with which this serving file gives its mean times")
    parser.add_argument("--measure", metavar="DESIGN", nargs="?", const="",
                        help="without DESIGN: measure a stated kit of kernels on this GPU with PyTorch, and write the "
                             "device to -o; with it: the distinct kernels of the design's workload, and write their "
                             "timings to -o")
    parser.add_argument("--limit", metavar="TIME", type=seconds,
                        help="with --measure and no DESIGN: limit of the time, such as '5 min'; default 600 s")
    page_flags(parser, "rows that were used, and errors before and after")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Calibrate, or measure; 0."""
    place("--out", options.out)
    place("--rows", options.rows)
    for flag, path in (("--out", options.out), ("--rows", options.rows)):
        apart(flag, path, (*options.file, options.serving, options.measure))
    if options.rows and options.out and os.path.realpath(options.rows) == os.path.realpath(options.out):
        raise InputError(f"--rows {options.rows}", "is the file of --out, too", expected="another name")
    page = page_for("calibrate", options)
    if options.measure is not None:
        return _measure(options)
    idle("--limit", options.limit, "--measure without DESIGN")
    _there(options.file)
    if options.serving is not None:
        for name in ("base", "rows", "peak", "bandwidth", "units", "fabric", "link_bandwidth", "inside"):
            idle(f"--{name.replace('_', '-')}", getattr(options, name), "no --serving")
        return _engine(options, page)
    if options.fabric is not None:
        for name in ("base", "rows", "peak", "bandwidth", "units"):
            idle(f"--{name}", getattr(options, name), "no --fabric")
        return _fabric(options, page)
    idle("--link-bandwidth", options.link_bandwidth, "with --fabric")
    idle("--inside", options.inside, "with --fabric")
    return _device(options, page)


def _device(options: argparse.Namespace, page: Page | None) -> int:
    """A device corrected by timings of kernels."""
    from astrarium.compute.timings import read_timings
    from astrarium.validate.calibrate import device_by_timings

    base = _base(options)
    tables, timings, rows, recorded = _recorded(options, base)
    made = device_by_timings(base, [*timings, *(timing for path in tables for timing in read_timings(path))], rows)
    text = made.text
    if options.json:
        figures = {name: {"rows": made.found.counts[name], "before": before, "after": after}
                   for name, (before, after) in made.errors.items()}
        said = json_text("calibrate", {"classes": figures, **recorded})
        if options.out is None:
            text = said
        else:
            sys.stdout.write(said)
    for row in (*made.sentences, *made.notes):
        note(row)
    if written(options):
        from astrarium.report.tables.calibration import class_table

        table = class_table(made.found.counts, made.errors)
        facts = {"base": base if isinstance(base, str) else "data sheet: " + ", ".join(
            f"{name} {getattr(options, name)}" for name in ("peak", "bandwidth", "units"))}
        _page(options, page, [table], made.notes, made.text, made.found, facts)
    _write(options.out, text)
    return 0


def _page(options: argparse.Namespace, page: Page | None, tables: Sequence[Table], notes: Sequence[str], made: str,
          found: object, facts: Mapping[str, str] = MappingProxyType({})) -> None:
    """Write the page and plots of what was `found`; `made`: what the calibration gives, to download."""
    from astrarium.report.pages.about import About
    from astrarium.report.pages.page import ShownTables

    facts = {"files": ", ".join(map(os.path.basename, options.file)), **facts}
    name = os.path.basename(options.out or "device.toml")
    write_page(page, options, ShownTables("Calibration", "Errors of the model on the rows that were measured.", tables,
                                          found, notes, About(facts, {name: made})))


def _there(files: Sequence[str]) -> None:
    """Raises InputError where there are no files, or where one does not exist."""
    if not files:
        raise InputError("calibrate", "there are no timings", expected="FILE..., or --measure")
    for path in files:
        if os.path.splitext(path)[1] and not os.path.exists(path) and not glob(path):      # else a prefix of traces
            raise InputError(path, "cannot be read (No such file or directory)", expected="a file of timings")


def _recorded(options: argparse.Namespace, base: str | Machine
              ) -> tuple[list[str], list[Timing], list[str], dict[str, object]]:
    """(files that are no recordings, timings of the others, what was used of these in words, and as JSON)."""
    from astrarium.cli.calibrate_trace import plain, recordings, sentences

    tables, runs = recordings(options.file)
    if not runs:
        idle("--rows", options.rows, "with a recording")
        return tables, [], [], {}
    from astrarium.compute.calibration import refusal
    from astrarium.compute.recorded import recorded_timings
    from astrarium.compute.timings import written_csv

    found = recorded_timings(runs, refusal(base))
    if not found.times and not tables:
        for row in sentences(found):
            note(row)
        raise InputError(runs[0].where, "holds no kernel whose shape and time are both known",
                         expected="a recording with record_shapes=True, or its execution trace next to it")
    if options.rows is not None:
        _write(options.rows, written_csv(found.timings, (len(ns) for ns in found.times.values())))
    return tables, found.timings, list(sentences(found)), {"recorded": plain(found)}


def _fabric(options: argparse.Namespace, page: Page | None) -> int:
    from astrarium.validate.calibrate import fabric_by_logs

    if options.link_bandwidth is None:
        raise InputError("--link-bandwidth", "is missing", expected='such as "450 GB/s"')
    made = fabric_by_logs(options.fabric, options.link_bandwidth, options.file, options.inside, "--")
    for text in made.notes:
        note(text)
    if written(options):
        from astrarium.report.tables.calibration import error_table

        _page(options, page, [error_table(made.errors)], (), made.text, made.errors)
    said = json_text("calibrate fabric", {"median_errors": made.errors})
    if options.json and options.out is not None:
        sys.stdout.write(said)
    _write(options.out, said if options.json and options.out is None else made.text)
    return 0


def _engine(options: argparse.Namespace, page: Page | None) -> int:
    """Constants of an engine's host from its log, as a policy section."""
    from astrarium.cli.paths import read_as
    from astrarium.serving.serve import load_serving
    from astrarium.validate.calibrate import engine_by_log

    if len(options.file) != 1:
        raise InputError("FILE", f"{len(options.file)} logs", expected="one log of one engine")
    apart("--out", options.out, (read_as("serving file", load_serving, options.serving).alone,))
    made = engine_by_log(options.file[0], options.serving)
    for line in made.notes:
        note(line)
    if written(options):
        from astrarium.report.tables.calibration import engine_table

        _page(options, page, [engine_table(made.found)], (), made.text, made.found)
    if options.json:
        found = made.found
        figures = {"overhead_ns": found.overhead * 1e3, "stream_offset_ns": found.offset * 1e6} | {
            f"{name}_mean_{when}_ns": getattr(getattr(found, when), name) * 1e6
            for name in ("tpot", "ttft") for when in ("measured", "before", "after")}
        _write(options.out, json_text("calibrate serving", figures))
        return 0
    _write(options.out, made.text)
    return 0


def _base(options: argparse.Namespace) -> str | Machine:
    sheet = {name: getattr(options, name) for name in ("peak", "bandwidth", "units")}
    if options.base is not None:
        for name, value in sheet.items():
            idle(f"--{name}", value, "without --base")
        from astrarium.compute.kernels import load

        load(options.base)
        return str(options.base)
    for name, value in sheet.items():
        if value is None:
            raise InputError(f"--{name}", "is missing", expected="--base DEVICE, or --peak, --bandwidth and --units")
    from astrarium.compute.kernels import Machine

    peak, bandwidth = float(FlopRate(options.peak)), float(Bandwidth(options.bandwidth))
    for name, value in (("peak", peak), ("bandwidth", bandwidth)):
        if not value:
            raise InputError(f"--{name}", f"{getattr(options, name)!r} is 0",
                             expected="the rate of a data sheet, above 0")
    return Machine("the data sheet", {"bf16": peak}, bandwidth, options.units)


def _measure(options: argparse.Namespace) -> int:
    """The kit, or the kernels of a design."""
    idle("FILE", options.file, "one of FILE and --measure")
    device = "base", "rows", "peak", "bandwidth", "units"
    for name in ("fabric", "link_bandwidth", "inside", "serving", "json", "html", "plot"):
        idle(f"--{name.replace('_', '-')}", getattr(options, name), "no --measure")
    for name in ("limit", *device) if options.measure else ():
        idle(f"--{name}", getattr(options, name), "--measure without DESIGN")
    if not options.measure:
        from astrarium.cli.calibrate_kit import run_kit

        known = any(getattr(options, name) is not None for name in device if name != "rows")
        return run_kit(options, _base(options) if known else None)
    from astrarium.compute.measure import kernels_of, measured
    from astrarium.compute.timings import written
    from astrarium.design import load_design
    from astrarium.simulate import simulate

    design = load_design(options.measure)
    timings, notes, where = measured(kernels_of(lambda plugins: simulate(design, plugins=plugins)))
    for text in notes:
        note(text)
    note(f"{len(timings)} kernels on {where}")
    _write(options.out, written(timings))
    return 0


def _write(path: str | None, text: str) -> None:
    if path is None:
        sys.stdout.write(text)
        return
    from astrarium.config.whole import write_whole

    with write_whole(path) as file:
        file.write(text.encode())
    wrote(path)
