"""`astrarium report STUDY...`: what studies have found, and why."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from typing import TYPE_CHECKING, Any

from astrarium.cli.arguments import Parser, idle, json_flag, place, rank, wrote
from astrarium.cli.json_output import print_json
from astrarium.cli.pages import page_flags, page_for, write_page, written
from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.report.tables.study_data import StudyReport
    from astrarium.search.studyfile import StoredStudy

__all__ = ["arguments", "reported", "run"]


def arguments(parser: Parser) -> None:
    """Studies of one space, and what to write."""
    parser.add_argument("studies", metavar="STUDY", nargs="+", help="study files of one space and goal")
    page_flags(parser, "best designs, why, Pareto front, convergence")
    parser.add_argument("--csv", metavar="FILE", help="every trial as a row (- : standard output)")
    parser.add_argument("--parquet", metavar="FILE", help="the same as Parquet, with a data-set card (extra: parquet)")
    parser.add_argument("--trajectory", metavar="FILE", help="ArchGym-like lines of JSON, one a trial")
    parser.add_argument("--optuna", metavar="STORAGE", help="into an Optuna storage such as sqlite:///optuna.db")
    parser.add_argument("--certificate", metavar="FILE",
                        help="write all that was simulated, for tools/check_optimum.py to verify")
    parser.add_argument("--bundle", metavar="FILE.zip",
                        help="the study with its files, to run again elsewhere: astrarium search FILE.zip")
    parser.add_argument("--design", metavar="N", type=rank, help="write trial N as a design file (with -o)")
    parser.renamed = {"--output": "--out"}
    parser.add_argument("-o", "--out", metavar="FILE", help="the design file of --design")
    parser.add_argument("--recheck", action="store_true", help="simulate again the best designs on contention, and "
                        "one knob at a time around the best")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Read, look, print, write."""
    from astrarium.search.studyfile import load_study

    page = page_for("report", options)
    for flag in ("parquet", "trajectory", "certificate", "bundle"):
        place(f"--{flag}", getattr(options, flag))
    place("--out", options.out)
    idle("--out" if options.out else "--design", bool(options.out) != (options.design is not None),
         "--design N -o FILE, both of them")
    studies = [load_study(path) for path in options.studies]
    single = [flag for flag in ("parquet", "trajectory", "optuna", "certificate", "bundle", "out")
              if getattr(options, flag)]
    idle(f"--{single[0]}" if single else "", single and len(studies) > 1, "one study at a time")
    idle("--json", options.json and options.csv == "-", "--csv FILE, or no --csv: one thing on standard output")
    printed = options.json or (options.csv != "-" and not single)
    idle("--recheck", options.recheck and not written(options) and not printed,
         "--html, --plot, --json or tables")
    _exports(studies[0], options)
    if options.csv:
        _csv(studies, options.csv)
    if not written(options) and not printed:
        return 0
    report = reported(studies, options.recheck)
    write_page(page, options, report)
    if printed:
        _print(report, options)
    return 0


def reported(studies: list[StoredStudy], recheck: bool = False) -> StudyReport:
    """What the studies say, with a line of progress on a terminal."""
    from astrarium.cli.progress import Counted, Line
    from astrarium.report.tables.study_data import study_report

    told = Counted()
    with Line(sys.stderr, told):
        return study_report(studies, recheck=recheck,
                            progress=lambda what, done, total: told.show(done, total, what))


def _exports(study: StoredStudy, options: argparse.Namespace) -> None:
    from astrarium.search import export

    if options.parquet:
        export.write_parquet(study, options.parquet)
    if options.trajectory:
        export.write_trajectory(study, options.trajectory)
    if options.certificate:
        from astrarium.search.certificate import write_certificate

        write_certificate(study, options.certificate)
    if options.bundle:
        from astrarium.search.bundle import write_bundle

        write_bundle(study, options.bundle)
    if options.out:
        _design(study, options.design, options.out)
    if options.optuna:
        export.to_optuna(study, options.optuna, study.path)


def _design(study: StoredStudy, number: int, path: str) -> None:
    """Write the design of a trial."""
    from astrarium.search.subject import dump_base

    trials = 0
    for trial in study.trials():
        trials = trial.number + 1
        if trial.number == number:
            dump_base(study.plan.space.design(trial.point), path)
            return
    raise InputError(f"--design {number}", f"{study.path} has no such trial",
                     expected=f"0 to {trials - 1}" if trials else "a study that holds trials")


def _csv(studies: list[StoredStudy], path: str) -> None:
    from astrarium.config.whole import write_whole
    from astrarium.search.export import columns, rows

    names = list(columns(studies[0]))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for study in studies:
        if list(columns(study)) != names:
            raise InputError(study.path, f"has other columns than {studies[0].path}", expected="studies of one space")
        writer.writerows(rows(study))
    if path == "-":
        sys.stdout.write(text.getvalue())
        return
    place("--csv", path)
    with write_whole(path) as stream:
        stream.write(text.getvalue().encode())
    wrote(path)


def _print(report: StudyReport, options: argparse.Namespace) -> None:
    from astrarium.report.tables.study import report_plain, report_tables
    from astrarium.report.tables.table import print_tables

    if options.json:
        found: dict[str, Any] = report_plain(report)
        print_json("report", found)
        return
    print_tables(report_tables(report), sys.stdout)
