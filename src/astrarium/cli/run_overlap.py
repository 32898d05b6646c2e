"""`astrarium run OVERLAP.yaml`: a matrix product beside a collective on the compute units of GPUs."""

from __future__ import annotations

import argparse
import json
import sys

from astrarium.cli.arguments import idle, note

__all__ = ["run_overlap"]


def run_overlap(options: argparse.Namespace) -> int:
    """Simulate every case of the file and print one line each."""
    from astrarium.cli.paths import read_as
    from astrarium.collective.kernels import GpuOverlap, gpu_overlap
    from astrarium.config import assignment, load, replace_all
    from astrarium.engine import HAVE_CORE
    from astrarium.report.overlap import overlap_rows, overlap_table
    from astrarium.report.tables import print_tables

    for flag in ("trace", "timeline", "parquet", "html", "fold", "figure", "nodes", "timeline_ranks"):
        idle("--" + flag.replace("_", "-"), bool(getattr(options, flag)), "a design")
    idle("--rank", options.rank is not None, "a design")
    asked = read_as("GPU overlap", lambda path: load(GpuOverlap, path), options.design)
    asked = replace_all(asked, dict(map(assignment, options.set))) if options.set else asked
    if not HAVE_CORE and not options.pure:
        note("no compiled core here: the pure-Python engine runs (same integers, slowly)")
    cases = gpu_overlap(asked, pure=options.pure)
    if options.json:
        print(json.dumps(overlap_rows(cases), indent=1))
    else:
        print_tables([overlap_table(asked, cases)], sys.stdout)
    return 0
