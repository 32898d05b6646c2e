"""`astrarium trace replay PREFIX --compute real`: recorded operators run again with PyTorch."""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from astrarium.cli.arguments import idle, note
from astrarium.cli.json_output import print_json
from astrarium.cli.progress import Line
from astrarium.errors import InputError
from astrarium.units import format_bytes

if TYPE_CHECKING:
    from astrarium.profile.execute.real import Findings, Plan, Times
    from astrarium.profile.execute.real.report import Missing
    from astrarium.trace import Traces

__all__ = ["replay_real"]

SHOWN = 20      # operators in the table


def replay_real(options: argparse.Namespace, traces: Traces, start: Callable[[int], int]) -> int:
    """With --dry-run the checks alone; else as one rank under torchrun, or alone; else `start` a process per trace."""
    from astrarium.profile.execute import program
    from astrarium.profile.execute.real import device_for, findings, plan_of, refuse_faults

    for name in options.packages:
        _import(name)
    idle("--scale", options.scale != 1.0, "--compute sleep")
    device = device_for(traces)
    alone = not {"RANK", "WORLD_SIZE"} <= set(os.environ)
    if options.dry_run:
        idle("--out", options.out, "no --dry-run")
        found = [findings(plan_of(traces, rank, device), device) for rank in range(traces.ranks)]
        _say_findings(options, found, device)
        return 1 if any(each.missing for each in found) and not options.skip else 0
    if alone and traces.ranks > 1:
        for rank in range(traces.ranks):        # faults are said once, before anything starts
            if options.skip:
                program(traces, rank)
            else:
                refuse_faults(plan_of(traces, rank, device))
        return start(traces.ranks)
    return _replay(options, traces, device)


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception as error:      # of any kind: the package's own code runs
        raise InputError(f"--import {name}", f"cannot be imported ({type(error).__name__}: {error})",
                         expected="a package that registers operators") from None


def _replay(options: argparse.Namespace, traces: Traces, device: str) -> int:
    from astrarium.profile.execute import joined_group, write_durations
    from astrarium.profile.execute.real import new_durations, plan_of, replay_operators

    backend = options.backend or ("nccl" if device == "cuda" and traces.ranks > 1 else "gloo")
    if (backend == "nccl") != (device == "cuda") and traces.ranks > 1:
        raise InputError("--backend", f"{backend} cannot send what is computed on {device}",
                         expected="nccl with a GPU, gloo without")
    told = [""]
    with Line(sys.stderr, lambda: told[0] or None), joined_group(backend, device, traces.ranks) as group:
        told[0] = "reading the recording"
        plan = plan_of(traces, group.rank, device)
        times = replay_operators(plan, group, repeat=options.repeat, skip=options.skip,
                                 progress=lambda text: told.__setitem__(0, text))
        durations, other = new_durations(plan, times)
        group.barrier()      # no rank's trace is written unless all have been measured
        path = write_durations(traces, group.rank, durations, f"{times.device}, {backend}, compute as recorded",
                               options.out) if options.out else None
    if group.rank == 0:
        _report(options, plan, times, other, path)
    return 0


def _report(options: argparse.Namespace, plan: Plan, times: Times, other: int, path: str | None) -> None:
    from astrarium.profile.execute.real import most_bytes

    rows = _rows(plan, times)
    makespan = [each * 1e3 for each in times.makespan]
    skipped = sum(1 for item in plan.items if item.fault)
    if options.json:
        said = {"device": times.device, "makespan_ns": [each * 1e9 for each in times.makespan],
                "median_ns": statistics.median(times.makespan) * 1e9,
                "operators": rows, "skipped": skipped, "other_kernels": other,
                "most_bytes": most_bytes(plan, "cuda" if times.gpu else "cpu"),
                "allocated_bytes": times.allocated or None, "path": path}
        print_json("trace replay real", said)
        return
    before, after = (sum(row[key] for row in rows) / 1e6 for key in ("recorded_ns", "replayed_ns"))
    print(f"replay on {times.device}: median {statistics.median(makespan):.3f} ms of "
          f"{', '.join(f'{each:.3f}' for each in makespan)}")
    print(f"{sum(row['count'] for row in rows):,} operators and communications of rank {plan.rank}: {after:.3f} ms, "
          f"recorded {before:.3f} ms")
    print(f"{'operator':<56} {'calls':>7} {'recorded ms':>12} {'replayed ms':>12}")
    for row in rows[:SHOWN]:
        print(f"{row['operator'][:56]:<56} {row['count']:>7,} {row['recorded_ns'] / 1e6:>12.3f} "
              f"{row['replayed_ns'] / 1e6:>12.3f}")
    if skipped:
        note(f"{skipped:,} could not be run and took their recorded time (--skip)")
    if other:
        note(f"{other:,} operators launch another number of kernels here than recorded: their sum is right, and how it "
             "is divided among them is as recorded")
    if plan.gpu and not times.gpu:
        note("recorded on a GPU, replayed on a CPU: PyTorch finds no GPU here")
    if path:
        note(f"wrote {path}" + (" and those of the other ranks" if plan.program.ranks > 1 else ""))


def _rows(plan: Plan, times: Times) -> list[dict[str, Any]]:
    """Per operator, what takes most first."""
    rows = defaultdict[str, list[float]](lambda: [0, 0.0, 0.0])
    for place, runs in times.taken.items():
        item = plan.items[place]
        row = rows[item.name]
        row[0] += 1
        row[1] += plan.recorded_us(item)
        row[2] += statistics.median(sum(run) for run in runs)
    return [{"operator": name, "count": int(count), "recorded_ns": recorded * 1e3, "replayed_ns": replayed * 1e3}
            for name, (count, recorded, replayed) in sorted(rows.items(), key=lambda row: (-row[1][2], row[0]))]


def _plain(found: Findings | Missing) -> dict[str, Any]:
    """Fields as plain data, units in the names."""
    names = {"us": "recorded_ns", "bytes": "most_bytes"}
    return {names.get(name, name): getattr(found, name) * (1000 if name == "us" else 1)
            for name in found.__struct_fields__ if name != "missing"}


def _say_findings(options: argparse.Namespace, found: list[Findings], device: str) -> None:
    if options.json:
        print_json("trace replay real coverage", [
            {**_plain(each), "device": device, "missing": [_plain(one) for one in each.missing]} for each in found])
        return
    for each in found:
        whole = each.operators + each.missing_count
        print(f"{each.source}: {each.operators:,} of {whole:,} operators of {each.kinds} kinds can be replayed on "
              f"{device} ({each.us / 1e3:.1f} ms as recorded), {each.communications:,} communications; tensors of "
              f"{format_bytes(each.bytes)} at most at a time")
        for one in each.missing[:SHOWN]:
            print(f"  not {one.name[:60]}, {one.count:,} of them ({one.us / 1e3:.1f} ms), first node {one.node}: "
                  f"{one.fault}")
        if len(each.missing) > SHOWN:
            print(f"  and {len(each.missing) - SHOWN} more kinds (--json names all)")
