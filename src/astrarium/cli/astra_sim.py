"""`astrarium astra-sim`: ASTRA-sim's own flags and inputs, its lines on stdout, its numbers."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from astrarium.cli.arguments import Parser, fold, idle, json_flag, note, place, timeline
from astrarium.cli.astra_flags import astra_flags, astra_inputs, astra_notes

if TYPE_CHECKING:
    from astrarium.astra_sim.files import AstraInputs, AstraWorkload
    from astrarium.engine import Outcome, Plan

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """ASTRA-sim's flags, and ours. Unknown ones are ignored with a note, as ASTRA-sim ignores them."""
    parser.ignores = True
    astra_flags(parser)
    fold(parser, "auto")
    json_flag(parser)
    timeline(parser)


def run(options: argparse.Namespace) -> int:
    """Read, lower, execute, print."""
    from astrarium.astra_sim.files import lower_inputs, read_workload
    from astrarium.astra_sim.lowering import wrapped_message
    from astrarium.engine import HAVE_CORE, core_only
    from astrarium.lower.explain import execute_workload

    if not HAVE_CORE:
        raise core_only("astra-sim")
    idle("--timeline-ranks", options.timeline_ranks and options.timeline is None, "--timeline as well")
    place("--timeline", options.timeline)
    clock = [time.process_time()]
    inputs = astra_inputs(options)
    for text in (*(f"{word} (ignored, as ASTRA-sim does)" for word in options.unknown), *astra_notes(options, inputs)):
        note(text)
    workload = read_workload(inputs)
    clock.append(time.process_time())
    plan = lower_inputs(inputs, workload)
    if (size := wrapped_message(plan)) is not None:
        note(f"model-shared-bus: a message of {size} bytes costs what {size % 2**32} bytes cost, as ASTRA-sim's bus "
             "has 32 bits for it")
    clock.append(time.process_time())
    record = bool(options.timeline) or not options.json or inputs.memory_trace is not None
    outcome = execute_workload(plan, workload.traces, workload.groups, record=record, fold=options.fold == "auto")
    clock.append(time.process_time())
    if options.timeline:
        from astrarium.report.timeline.counters import network_counters
        from astrarium.report.timeline.run import Recorded, write_timeline

        run = Recorded(plan, outcome, workload.traces, network=network_counters(plan, outcome))
        write_timeline(options.timeline, run, ranks=options.timeline_ranks)
    before = [0.0, *clock]
    cpu = {stage: clock[i] - before[i] for i, stage in enumerate(("start", "read", "lower", "execute"))}
    for text in _said(inputs, workload, plan, outcome, cpu if options.json else None):
        sys.stdout.write(text)
    return 0


def _said(inputs: AstraInputs, workload: AstraWorkload, plan: Plan, outcome: Outcome,
          cpu: dict[str, float] | None) -> Iterator[str]:
    """JSON where there are seconds to say, else ASTRA-sim's lines; with track-local-mem its files are written, too."""
    from astrarium.astra_sim.lines import json_text, lines

    peaks: list[int] = []
    if inputs.memory_trace is not None:
        from astrarium.astra_sim.memory import track_memory

        peaks = track_memory(outcome, workload.traces, inputs.memory_trace)
    if cpu is not None:
        return json_text(outcome, cpu, peaks)
    from astrarium.astra_sim.memory import formatted
    from astrarium.astra_sim.statistics import statistics

    more = statistics(outcome, plan, workload.classes, inputs.system)
    for row, peak in enumerate(peaks):
        more[row].append(f" peak memory usage: {formatted(peak)}")
    return lines(outcome, more)
