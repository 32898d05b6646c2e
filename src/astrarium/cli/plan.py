"""`astrarium plan MODEL --device D --gpus N`: the fastest layouts of training that fit, or with `--for serving` the
engines that serve the most requests."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from astrarium.cli.arguments import Parser, idle, json_flag, note, place, seconds, whole
from astrarium.cli.json_output import print_json
from astrarium.cli.pages import page_flags, page_for, write_page
from astrarium.cli.plan_serving import run_serving, serving_flags, training_only
from astrarium.cli.plan_space import cost_from, fixed_of, names_of, space_flags
from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.planner import Line, Shortlist
    from astrarium.planner.explore import Progress

__all__ = ["arguments", "run"]

LAUNCHED = ("megatron", "nemo", "vllm", "sglang", "trtllm")
SOON, EVERY = 1.0, 5.0         # seconds before the first table; between two remarks on progress
PRECISIONS = {"bf16": {"weights": "bf16", "activations": "bf16"}, "fp16": {"weights": "fp16", "activations": "fp16"},
              "fp8": {"products": "fp8"}}      # fields of workload.precision


def arguments(parser: Parser) -> None:
    """Model, devices, and what of the layout is given."""
    parser.set_defaults(usage=parser)
    parser.add_argument("model", metavar="MODEL", nargs="?",
                        help="a model of the catalog, or a Hugging Face config.json; default: that of --from")
    parser.add_argument("--device", metavar="D[,D...]",
                        help="devices of the catalog (astrarium list device), or device files (calibrate --measure); "
                             "several are compared")
    parser.add_argument("--for", choices=("training", "serving"), default="training", dest="purpose",
                        help="what to plan; default training")
    parser.add_argument("--gpus", "--npus", metavar="N", type=whole,
                        help="number of devices; default: that of --from, or the numbers within --budget and --power")
    parser.add_argument("--objective", "--minimize", choices=("time", "cost", "energy", "carbon"), default="time",
                        help="rank layouts by the time of a step (default), or by money, energy or CO2 of "
                             "10^12 tokens")
    parser.add_argument("--budget", metavar="$", help="limit of all purchases, such as '$6M'")
    parser.add_argument("--power", metavar="W", help="limit of the site's power, such as 1MW")
    parser.add_argument("--cost", metavar="NAME|FIELD=VALUE", action="append", default=[],
                        help="prices: a row (astrarium list cost), or a field of the design's "
                             "cost section, such as pue=1.1; also compute.power and compute.idle_power; may be "
                             "repeated; default: the catalog's for the device")
    _today_flags(parser)
    parser.add_argument("--launch", metavar="|".join(LAUNCHED), choices=LAUNCHED,
                        help="also print the launch arguments of a layout, or with --for serving of an engine")
    parser.add_argument("--seq", metavar="TOKENS", type=whole, help="tokens per sample; default: the model's")
    parser.add_argument("--global-batch", metavar="SAMPLES", type=whole,
                        help="samples per step; default: 4 Mi tokens per step")
    parser.add_argument("--precision", choices=tuple(PRECISIONS), help="number formats; default: the workload's, or "
                                                                       "the stack's (bf16)")
    parser.add_argument("--set", metavar="FIELD=VALUE", action="append", default=[], dest="settings",
                        help="a field of the workload (all: astrarium list field, paths below workload.), such as "
                             "workload.mask=skip or precision.gradients=fp32; may be repeated")
    space_flags(parser)
    serving_flags(parser)
    parser.add_argument("--network", metavar="N", help="a design or network file, or networks of the catalog, "
                                                       "innermost first, joined by commas; default: the usual ones")
    parser.add_argument("--compute", metavar="M",
                        help="the compute model (astrarium list compute); default: measured if the device has "
                             "measured kernels, else analytic, else roofline")
    parser.add_argument("--collectives", metavar="M",
                        help="source of the times of collectives: measured (default if the network has rows) or "
                             "simulated")
    parser.add_argument("--stack", metavar="NAME",
                        help="a software stack of the catalog, for what the job leaves open; default: a current one "
                             "that runs the job, the best validated on the device, with --from that of its framework; "
                             "none: none")
    parser.add_argument("--top", metavar="K", type=whole, default=5, help="number of layouts to list; default 5")
    parser.add_argument("--limit", metavar="TIME", type=seconds, default=10.0,
                        help="CPU time that the simulation of one layout may take, such as '20 s'; default 10 s")
    parser.add_argument("--exact", action="store_true",
                        help="simulate until no layout can be better than the last line; default: if simulations "
                             "are large, until none can be better than the first")
    parser.add_argument("-j", "--jobs", metavar="N", type=whole, default=1, help="layouts simulated at a time")
    _results(parser)


def _today_flags(parser: Parser) -> None:
    """What runs today."""
    parser.add_argument("--from", metavar="FILE", dest="today",
                        help="launch arguments of a job that runs today, to predict and improve it: Megatron-LM .sh, "
                             "NeMo .yaml, DeepSpeed .json, torchtitan .toml; with --for serving: .sh of vllm serve or "
                             "sglang.launch_server, .yaml of trtllm-serve")
    parser.add_argument("--ignore", metavar="KEY[,KEY...]", action="append", default=[],
                        help="keys of the file of --from to ignore, by name or pattern; may be repeated")
    parser.add_argument("--measured", metavar="STEP|MFU",
                        help="with --from: what a step takes today (its time, 21.3s, or its MFU, 38%%); steps are "
                             "scaled to it, and changes of one part of the layout are listed by what they bring")


def _results(parser: Parser) -> None:
    """What is written of the answer."""
    parser.add_argument("-o", "--out", metavar="DESIGN.yaml",
                        help="write a layout as a design, for astrarium run; of serving: an engine as a serving "
                             "file and its design, for astrarium serve")
    parser.add_argument("--certificate", metavar="FILE",
                        help="also write a certificate that no layout is better than line 1, which tools/check_plan.py "
                             "of the source tree checks")
    parser.add_argument("--line", metavar="K|now", type=_line,
                        help="the line of the layout for -o and --launch, or now: that of --from; default 1")
    page_flags(parser, "layouts, where time goes, pipeline, memory")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Plan, print, write."""
    from astrarium.catalog import overlay, rows_in

    if options.device is None:
        options.usage.error("expected --device D, such as --device h100 (all: astrarium list device): the devices that "
                            "times are of, which launch arguments do not name")
    names = [name.strip() for name in options.device.split(",")]
    with overlay(*(name for name in names if name.endswith(".toml"))):
        return _run(options, [each for name in names for each in (
            rows_in("devices", name) if name.endswith(".toml") else (name,))])


def _run(options: argparse.Namespace, devices: Sequence[str]) -> int:
    if options.purpose == "serving":
        return run_serving(options, devices)
    training_only(options)
    if options.launch not in (None, *LAUNCHED[:2]):
        raise InputError("--launch", f"{options.launch} serves", expected="megatron, nemo, or --for serving")
    place("--out", options.out)
    place("--certificate", options.certificate)
    page = page_for("plan", options)
    idle("--line", options.line is not None and not options.out and not options.launch, "-o or --launch as well")
    from astrarium.planner import plan, plan_from

    common: dict[str, Any] = {
        "gpus": options.gpus, "seq": options.seq, "global_batch": options.global_batch, "network": options.network,
        "compute": options.compute, "collectives": options.collectives, "stack": options.stack, "top": options.top,
        "fixed": fixed_of(options.fix), "jobs": options.jobs, "limit": options.limit,
        "lift": [name.strip() for text in options.lift for name in text.split(",")], "reserve": options.reserve,
        "exact": options.exact, "certify": options.certificate is not None,
        "progress": _Remarks().show, "objective": options.objective, "budget": options.budget, "power": options.power,
        "cost": cost_from(options.cost), **_settings(options.settings, options.precision)}
    counted = options.gpus is not None or options.budget is not None or options.power is not None
    for flag in ("--ignore", "--measured"):
        if getattr(options, flag[2:]) and options.today is None:
            options.usage.error(f"{flag} has no effect without --from FILE")
    if options.today is None and (options.model is None or not counted):
        options.usage.error("expected MODEL and --gpus (or --budget, --power), or --from FILE")
    found = plan(options.model, devices, **common) if options.today is None else \
        plan_from(options.today, devices, model=options.model, ignore=names_of(options.ignore),
                  measured=options.measured, **common)
    line = _chosen(found, options.line)
    _print(found, line, options)
    write_page(page, options, found)
    if options.certificate:
        from astrarium.planner.certificate import write_certificate

        count = write_certificate(found, options.certificate)
        note(f"the certificate, with {count:,} layouts, is in {options.certificate}: python tools/check_plan.py "
             f"{options.certificate}")
    if options.out:
        from astrarium.design import dump_design

        dump_design(line.design, options.out)
        note(f"line {options.line or 1} is in {options.out}: astrarium run {os.path.basename(options.out)}")
    return 0


def _line(text: str) -> int | str:
    """A line's number, or `now`."""
    return text if text == "now" else whole(text)


def _chosen(found: Shortlist, line: int | str | None) -> Line:
    """The line that a person means. Raises InputError where there is none."""
    if line == "now":
        if found.today is None:
            raise InputError("--line", "there is no line now", expected="--from FILE as well")
        return found.today
    number = 1 if line is None else int(line)
    if number > len(found.lines):
        raise InputError("--line", f"there are {len(found.lines)} lines", expected=f"1 to {len(found.lines)}")
    return found.lines[number - 1]


def _print(found: Shortlist, line: Line, options: argparse.Namespace) -> None:
    from astrarium.planner.launch import launch_arguments
    from astrarium.report.tables.shortlist import shortlist_tables
    from astrarium.report.tables.table import print_tables

    launch = None if options.launch is None else launch_arguments(options.launch, line.job, line.layout)
    if options.json:
        print_json("plan", found.plain | ({} if launch is None else {"launch": launch}))
        return
    print_tables(shortlist_tables(found), sys.stdout)
    if launch is not None:
        print(f"\n{options.launch}, line {options.line or 1}\n{launch}")


def _settings(texts: list[str], precision: str | None) -> dict[str, Any]:
    """`precision.gradients=fp32` as {"precision": {"gradients": "fp32"}}, with the formats of `precision`."""
    from astrarium.config import assignment
    from astrarium.design import Design

    others = [name for name in Design.__struct_fields__ if name != "workload"]
    found: dict[str, Any] = {} if precision is None else {"precision": dict(PRECISIONS[precision])}
    for text in texts:
        path, value = assignment(text)
        inner = found
        *outer, last = path.removeprefix("workload.").split(".")
        if re.split(r"[.\[]", path)[0] in others:
            raise InputError(f"--set {path}", "is not a field of the workload", expected="--network, --compute, "
                             "--collectives, --stack or --cost for the rest of the design")
        for name in outer:
            inner = inner.setdefault(name, {})
        if last in inner:
            raise InputError(f"--set {path}", "is there twice", expected="one value")
        inner[last] = value
    return found


class _Remarks:
    """Progress on stderr: a first table as soon as there are lower bounds, then a line every few seconds. Nothing where
    the answer is there at once."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()
        self._shown: set[str] = set()

    def show(self, state: Progress) -> None:
        """See `explore`."""
        from astrarium.report.tables.shortlist import first_table
        from astrarium.report.tables.table import print_tables
        from astrarium.units import format_time

        now = time.monotonic()
        if state.device not in self._shown and now > self._start + SOON and (state.found or state.waiting):
            self._shown.add(state.device)
            self._last = now
            print_tables([first_table(state)], sys.stderr)
        elif state.found and now > self._last + EVERY:
            self._last = now
            best = state.found[0]
            note(f"{state.simulated:,} of {state.layouts:,} layouts simulated; so far {format_time(best.time)}: "
                 f"{best.layout}")
