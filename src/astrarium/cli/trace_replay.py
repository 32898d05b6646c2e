"""`astrarium trace replay PREFIX`: traces executed on this machine, as a benchmark."""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from astrarium.cli.arguments import Parser, apart, idle, json_flag, note, place, whole
from astrarium.cli.json_output import print_json
from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.profile.execute import Measured
    from astrarium.trace import Traces

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """The traces, and how to execute them."""
    parser.add_argument("traces", metavar="PREFIX", help="traces PREFIX.RANK.et, or a pattern 'PREFIX.*.et'")
    parser.add_argument("--backend", choices=("gloo", "nccl"),
                        help="of torch.distributed (gloo; with --compute real on a GPU nccl)")
    parser.add_argument("--compute", choices=("sleep", "matmul", "real"), default="sleep",
                        help="compute nodes: sleep for their duration, matrix products of their FLOPs if they have "
                             "them, or the recorded operators, run with PyTorch on a GPU if there is one "
                             "(sleep)")
    parser.add_argument("--dry-run", action="store_true",
                        help="with --compute real: print what can be replayed here, and the memory it takes")
    parser.add_argument("--import", metavar="PACKAGE", dest="packages", action="append", default=[],
                        help="with --compute real: a Python package that registers operators; may be repeated")
    parser.add_argument("--skip", action="store_true",
                        help="with --compute real: operators that cannot run take their recorded time")
    parser.add_argument("--scale", metavar="X", type=float, default=1.0, help="multiply sleeps by X (1)")
    parser.add_argument("--repeat", metavar="N", type=whole, default=3, help="number of executions, after one warm-up "
                                                                             "(3)")
    parser.add_argument("-o", "--out", metavar="PREFIX", help="write the traces with measured durations")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """As one rank under torchrun; else start a process per trace here."""
    from astrarium.profile.execute import Settings, measured_trace, program, replay_rank
    from astrarium.trace import read_traces

    if not 0 <= options.scale < 1e6:
        raise InputError("--scale", f"{options.scale}", expected="0 or more")
    traces = read_traces(options.traces)
    for rank in range(traces.ranks if options.out else 0):
        place("--out", f"{options.out}.{rank}.et")
        apart("--out", f"{options.out}.{rank}.et", traces.sources)
    if options.compute == "real":
        from astrarium.cli.trace_replay_real import replay_real

        return replay_real(options, traces, lambda ranks: _start(options, ranks))
    idle("--dry-run", options.dry_run, "--compute real")
    idle("--skip", options.skip, "--compute real")
    idle("--import", options.packages, "--compute real")
    options.backend = options.backend or "gloo"
    if not {"RANK", "WORLD_SIZE"} <= set(os.environ):
        for rank in range(traces.ranks):
            program(traces, rank)      # faults are said once, before anything starts
        return _start(options, traces.ranks)
    settings = Settings(options.backend, options.compute, options.scale)
    rank, runs = replay_rank(traces, settings, repeat=options.repeat)
    path = measured_trace(traces, rank, runs, settings, options.out) if options.out else None
    if rank == 0:
        _report(options, _summary(traces, runs), path)
    return 0


def _start(options: argparse.Namespace, ranks: int) -> int:
    """A process per rank on this machine; the first to fail ends all."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    words = [sys.executable, "-m", "astrarium", "trace", "replay", options.traces, "--compute", options.compute,
             "--scale", str(options.scale), "--repeat", str(options.repeat)]
    words += ["--backend", options.backend] if options.backend else []
    words += [word for name in options.packages for word in ("--import", name)]
    words += ["--skip"] if options.skip else []
    words += ["-o", options.out] if options.out else []
    words += ["--json"] if options.json else []
    started = []
    try:
        for rank in range(ranks):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
                   "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            env.setdefault("OMP_NUM_THREADS", "1")
            started.append(subprocess.Popen(words, env=env, stdout=None if rank == 0 else subprocess.DEVNULL))
        left = list(started)
        while left:
            for process in list(left):
                try:
                    code = process.wait(timeout=0.2)
                except subprocess.TimeoutExpired:
                    continue
                left.remove(process)
                if code:
                    return code if code > 0 else 1
        return 0
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
                process.wait()


def _summary(traces: Traces, runs: list[Measured]) -> dict[str, Any]:
    from astrarium.vocab import CommOp, NodeKind

    columns = traces.of(0)[0]
    rows: dict[tuple[str, int], list[float]] = {}
    for each in runs:
        for node, seconds in each.taken.items():
            kind = NodeKind(int(columns.type[node]))
            name = CommOp(int(columns.comm_type[node])).name if kind == NodeKind.COMM_COLL else kind.name
            size = int(columns.comm_size[node]) if kind != NodeKind.COMP else int(columns.num_ops[node])
            rows.setdefault((name.lower(), size), []).append(seconds)
    times = [each.makespan * 1e9 for each in runs]
    return {"makespan_ns": times, "median_ns": statistics.median(times),
            "measured": [{"what": name, "size": size, "count": len(found) // len(runs),
                          "median_ns": statistics.median(found) * 1e9} for (name, size), found in sorted(rows.items())]}


def _report(options: argparse.Namespace, found: dict[str, Any], path: str | None) -> None:
    if options.json:
        print_json("trace replay", {**found, "path": path})
        return
    runs = ", ".join(f"{each / 1e6:.3f}" for each in found["makespan_ns"])
    print(f"replay on {options.backend}, compute as {options.compute}: median {found['median_ns'] / 1e6:.3f} ms of "
          f"{runs}")
    if found["measured"]:
        print("what, bytes (compute: FLOPs), nodes, median us on rank 0")
    for row in found["measured"]:
        print(f"{row['what']:<16} {row['size']:>14,} {row['count']:>7,} {row['median_ns'] / 1e3:>12,.1f}")
    if path:
        note(f"wrote {path} and those of the other ranks")
