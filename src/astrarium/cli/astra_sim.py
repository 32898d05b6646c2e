"""`astrarium astra-sim`: ASTRA-sim's own flags and inputs, its lines on stdout, its numbers."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from astrarium.cli.arguments import Parser, fold, json_flag, timeline, truth, whole

if TYPE_CHECKING:
    from astrarium.engine import Outcome, Plan
    from astrarium.trace import Traces

__all__ = ["arguments", "run"]

FILES = (
    ("workload", "FILE", True, "prefix of the traces: <prefix>.<rank>.et"),
    ("system", "FILE", True, "system JSON"),
    ("network", "FILE", True, "network YAML"),
    ("remote-memory", "FILE", False, "remote memory JSON"),
    ("comm-group", "FILE", False, "communicator groups JSON"),
    ("logging", "FILE", False, "accepted; no log files are written"),
)


def arguments(parser: Parser) -> None:
    """ASTRA-sim's flags with its defaults, and ours."""
    for name, metavar, required, text in FILES:
        parser.add_argument(f"--{name}-configuration", metavar=metavar, required=required, help=text)
    parser.add_argument("--logging-folder", metavar="DIR", help="accepted; no log files are written")
    parser.add_argument("--num-queues-per-dim", metavar="N", type=whole, default=1, help="queues per dim (1)")
    for name in ("compute", "comm"):
        parser.add_argument(f"--{name}-scale", metavar="X", type=float, default=1.0,
                            help="accepted; changes nothing, as in ASTRA-sim")
    parser.add_argument("--injection-scale", metavar="X", type=_scale, default=1.0, help="times endpoint-delay (1)")
    parser.add_argument("--rendezvous-protocol", metavar="true|false", type=truth, nargs="?", const=True,
                        default=False, help="a request from the receiver precedes every message (false)")
    parser.add_argument("--backend", choices=("congestion_unaware", "congestion_aware"), default="congestion_unaware",
                        help="which of ASTRA-sim's analytical networks (congestion_unaware)")
    fold(parser, "auto")
    json_flag(parser)
    timeline(parser)
    parser.add_argument("--pure", action="store_true", help="the pure-Python engine: the same integers, slowly")


def _scale(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if 0 <= value < 2**31:
        return value
    raise argparse.ArgumentTypeError(f"{text[:40]!r}; expected a number of at least 0")


def run(options: argparse.Namespace) -> int:
    """Read, lower, execute, print."""
    from astrarium.engine import HAVE_CORE, execute
    from astrarium.lower.astra_files import lower_inputs, read_inputs
    from astrarium.trace import read_traces

    clock = [time.process_time()]
    inputs = read_inputs(options.workload_configuration, options.system_configuration, options.network_configuration,
                         options.remote_memory_configuration, options.comm_group_configuration, backend=options.backend,
                         queues_per_dim=options.num_queues_per_dim, injection_scale=options.injection_scale,
                         rendezvous=options.rendezvous_protocol)
    _notes(options, inputs.notes, HAVE_CORE)
    traces = read_traces(inputs.workload, inputs.npus, pure=options.pure)
    clock.append(time.process_time())
    plan = lower_inputs(inputs, traces)
    clock.append(time.process_time())
    outcome = execute(plan, record=bool(options.timeline), fold=options.fold == "auto", pure=options.pure)
    clock.append(time.process_time())
    stages = [clock[0], *(after - before for before, after in zip(clock, clock[1:], strict=False))]
    if options.timeline:
        _timeline(options, plan, outcome, traces)
    from astrarium.report.astra_sim import json_text, lines

    cpu = dict(zip(("start", "read", "lower", "execute"), stages, strict=True))
    for text in json_text(outcome, cpu) if options.json else lines(outcome):
        sys.stdout.write(text)
    return 0


def _notes(options: argparse.Namespace, notes: tuple[str, ...], have_core: bool) -> None:
    said = list(notes)
    for name in ("compute", "comm"):
        if getattr(options, f"{name}_scale") != 1:
            said.append(f"--{name}-scale changes nothing (nor does it in ASTRA-sim)")
    if options.logging_configuration not in (None, "empty") or options.logging_folder is not None:
        said.append("no log files are written; --logging-configuration and --logging-folder are ignored")
    if not have_core and not options.pure:
        said.append("no compiled core here: the pure-Python engine runs (same integers, slowly)")
    for note in said:
        print(f"astrarium: note: {note}", file=sys.stderr)


def _timeline(options: argparse.Namespace, plan: Plan, outcome: Outcome, traces: Traces) -> None:
    from astrarium.report.timeline import Recorded, write_timeline

    write_timeline(options.timeline, Recorded(plan, outcome, traces), ranks=options.timeline_ranks)
