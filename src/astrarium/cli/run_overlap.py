"""`astrarium run OVERLAP.yaml`: a matrix product and a collective at once on the compute units of GPUs."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from astrarium.cli.arguments import idle, note, place
from astrarium.cli.json_output import print_json
from astrarium.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from astrarium.gpu import GpuOverlap, Overlapped

__all__ = ["run_overlap"]

BIN = 500_000       # ps in which the use of ports is counted


def run_overlap(options: argparse.Namespace) -> int:
    """Simulate every case of the file and print one line each."""
    from astrarium.cli.paths import read_as
    from astrarium.config import assignments, load
    from astrarium.engine import HAVE_CORE
    from astrarium.gpu import GpuOverlap, gpu_overlap
    from astrarium.report.tables.overlap import overlap_rows, overlap_table
    from astrarium.report.tables.table import print_tables

    for flag in ("trace", "parquet", "html", "page", "plot", "fold", "figure", "nodes", "timeline_ranks", "verbose"):
        idle("--" + flag.replace("_", "-"), bool(getattr(options, flag)), "a design")
    idle("--rank", options.rank is not None, "a design")
    place("--timeline", options.timeline)
    changes = assignments(options.set)
    asked = read_as("GPU overlap", lambda path: load(GpuOverlap, path, changes), options.design)
    if not HAVE_CORE and not options.pure:
        note("no compiled core here: the pure-Python engine runs (same integers, slowly)")
    cases = gpu_overlap(asked, pure=options.pure)
    if options.timeline:
        _timeline(asked, cases, options)
    if options.json:
        print_json("run overlap", overlap_rows(cases))
    else:
        print_tables([overlap_table(asked, cases)], sys.stdout)
    return 0


def _timeline(asked: GpuOverlap, cases: Sequence[Overlapped], options: argparse.Namespace) -> None:
    """Write what the units of one GPU do over time in the only case."""
    from astrarium.gpu.engine import run_launch
    from astrarium.gpu.kernels.overlap import overlap_launch
    from astrarium.report.timeline.kernels import write_kernel_timeline

    if len(cases) != 1:
        raise InputError("--timeline", f"of {len(cases)} cases",
                         expected="one: --set units=[0], and one entry of kernels")
    launch, _ = overlap_launch(asked, cases[0].kernels, cases[0].units)
    write_kernel_timeline(options.timeline, launch, run_launch(launch, pure=options.pure, record=BIN))
    if os.path.isfile(options.timeline):
        note(f"wrote {options.timeline}: open it at https://ui.perfetto.dev")
