"""`astrarium plan MODEL --for serving --device D --gpus N|--rate R`: the engines that serve the most within limits."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from astrarium.cli.arguments import Parser, idle, note, place, whole
from astrarium.cli.json_output import print_json
from astrarium.cli.pages import page_for, write_page
from astrarium.cli.plan_space import cost_from, fixed_of, names_of
from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.planner.serving.explore import Progress

__all__ = ["run_serving", "serving_flags", "training_only"]

SERVING = {"--rate": "rate", "--requests": "requests", "--prompt": "prompt", "--output": "output", "--ttft": "ttft",
           "--tpot": "tpot"}
TRAINING = {"--budget": "budget", "--power": "power", "--seq": "seq", "--global-batch": "global_batch",
            "--precision": "precision", "--set": "settings", "--reserve": "reserve", "--limit": "limit",
            "--exact": "exact", "--measured": "measured", "--certificate": "certificate", "-j": "jobs"}
SOON, EVERY = 1.0, 5.0         # seconds before the first table; between two remarks on progress


def serving_flags(parser: Parser) -> None:
    """What is served, and its limits."""
    parser.add_argument("--rate", metavar="R", type=float,
                        help="with --for serving: requests per second to serve with the fewest GPUs, in place of "
                             "--gpus")
    parser.add_argument("--requests", metavar="FILE",
                        help="with --for serving: a serving file whose requests (poisson, gamma, sharegpt) have the "
                             "lengths, in place of --prompt and --output")
    parser.add_argument("--prompt", metavar="TOKENS", type=whole, help="with --for serving: tokens of a prompt")
    parser.add_argument("--output", metavar="TOKENS", type=whole, help="with --for serving: tokens of an answer")
    for name, example in (("ttft", "2s"), ("tpot", "30ms")):
        parser.add_argument(f"--{name}", metavar=f"[STATISTIC=]{example}",
                            help=f"with --for serving: limit of {name.upper()} ({example}: of its 99th percentile; "
                                 f"mean={example}, p50=, p90=; good90=: 90 %% of requests keep both)")


def training_only(options: argparse.Namespace) -> None:
    """Raise InputError for flags of serving."""
    _refuse(options, SERVING, "--for serving")


def _refuse(options: argparse.Namespace, flags: dict[str, str], needed: str) -> None:
    for flag, name in flags.items():
        idle(flag, getattr(options, name) != options.usage.get_default(name), needed)


def run_serving(options: argparse.Namespace, devices: Sequence[str]) -> int:
    """Plan, print, write."""
    from astrarium.planner.serving import LAUNCHES, launch_text, plan_serving, plan_serving_from

    for flag in ("--budget", "--power"):
        idle(flag, getattr(options, TRAINING[flag]) is not None, "--gpus N with --for serving, or --rate R with "
             "--objective cost for the cheapest fleet")
    _refuse(options, TRAINING, "--for training")
    place("--out", options.out)
    page = page_for("plan_serving", options)
    idle("--line", options.line is not None and not options.out and not options.launch, "-o or --launch as well")
    idle("--ignore", options.ignore and options.today is None, "--from FILE as well")
    if options.launch not in (None, *LAUNCHES):
        raise InputError("--launch", f"{options.launch} trains", expected="one of " + ", ".join(LAUNCHES))
    if options.model is None and options.today is None:
        options.usage.error("expected MODEL, or --from FILE")
    common: dict[str, Any] = {
        "gpus": options.gpus, "rate": options.rate, "prompt": options.prompt, "output": options.output,
        "ttft": options.ttft or "", "tpot": options.tpot or "", "network": options.network, "compute": options.compute,
        "collectives": options.collectives, "stack": options.stack, "top": options.top,
        "fixed": fixed_of(options.fix), "lift": names_of(options.lift), "objective": options.objective,
        "cost": cost_from(options.cost), "requests": options.requests, "progress": _Remarks().show}
    found = plan_serving(options.model, devices, **common) if options.today is None else plan_serving_from(
        options.today, devices, model=options.model, ignore=names_of(options.ignore), **common)
    if options.line == "now":
        raise InputError("--line", "now is what --from has", expected="the number of a line")
    line = options.line or 1
    if line > len(found.lines):
        raise InputError("--line", f"there are {len(found.lines)} lines", expected=f"1 to {len(found.lines)}")
    best = found.lines[line - 1].trial.candidate
    launch = None if options.launch is None else launch_text(options.launch, str(found.service.name), best.engine,
                                                            best.policy)
    if options.json:
        print_json("plan serving", found.plain | ({} if launch is None else {"launch": launch}))
    else:
        from astrarium.report.tables.serving_plan import serving_plan_tables
        from astrarium.report.tables.table import print_tables

        print_tables(serving_plan_tables(found), sys.stdout)
        if launch is not None:
            print(f"\n{options.launch}, line {line}\n{launch}")
    write_page(page, options, found)
    if options.out:
        from astrarium.planner.serving import write_serving

        design = write_serving(found.lines[line - 1], found.service, options.out)
        note(f"an engine of line {line} is in {options.out} and {os.path.basename(design)}: "
             f"astrarium serve {os.path.basename(options.out)}")
    return 0


class _Remarks:
    """Progress on stderr: a first table as soon as engines are found, then a line every few seconds."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()
        self._shown = False

    def show(self, state: Progress) -> None:
        """See `explore`."""
        from astrarium.report.tables.serving_plan import found_so_far
        from astrarium.report.tables.table import print_tables

        now = time.monotonic()
        if not state.found or now < (self._last + EVERY if self._shown else self._start + SOON):
            return
        self._last = now
        if not self._shown:
            print_tables([found_so_far(state.done, state.candidates, state.found)], sys.stderr)
        else:
            note(f"{state.done:,} of {state.candidates:,} engines looked at")
        self._shown = True
