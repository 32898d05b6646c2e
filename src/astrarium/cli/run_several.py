"""`astrarium run A.yaml B.yaml ...`: the runs of several designs side by side."""

from __future__ import annotations

import argparse
import os
import sys

from astrarium.cli.arguments import idle, note
from astrarium.cli.json_output import print_json
from astrarium.cli.pages import page_for, write_page, written

__all__ = ["run_several"]

SINGLE = ("trace", "timeline", "timeline_ranks", "parquet", "nodes", "verbose")     # flags that need one design


def run_several(options: argparse.Namespace) -> int:
    """Simulate every design, print one table with a column for each; 0."""
    from astrarium.cli.paths import read_design
    from astrarium.config import assignments
    from astrarium.report.tables.several import Run, several_plain, several_sentence, several_tables
    from astrarium.simulate import simulate

    for flag in SINGLE:
        idle("--" + flag.replace("_", "-"), bool(getattr(options, flag)), "one design")
    idle("--rank", options.rank is not None, "one design")
    page = page_for("runs", options)
    changes = assignments(options.set)
    runs = []
    for path, name in zip(options.designs, _names(options.designs), strict=True):
        design = read_design(path, changes)
        runs.append(Run(name, design, simulate(design, fold=options.fold, pure=options.pure, note=note),
                        options.figure))
    tables = list(several_tables(runs))
    if written(options):
        from astrarium.report.pages.about import about_all
        from astrarium.report.pages.page import ShownTables

        about = about_all({run.name: run.design for run in runs})
        lead = f"{several_sentence(runs)} All figures are simulated."
        write_page(page, options, ShownTables(" and ".join(run.name for run in runs), lead, tables, runs, about=about))
    if options.json:
        print_json("run several", several_plain(runs))
        return 0
    from astrarium.report.tables.table import print_tables

    print_tables(tables, sys.stdout)
    return 0


def _names(paths: list[str]) -> list[str]:
    """Files without folder and ending; the paths where two would have one name."""
    short = [os.path.splitext(os.path.basename(path))[0] for path in paths]
    return short if len(set(short)) == len(short) else list(paths)
