"""Plan a training job, or engines that serve a model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from astrarium.catalog import name_of
from astrarium.config.yamlfile import read_text
from astrarium.errors import InputError
from astrarium.service.answer import Answer, Number, Progress
from astrarium.service.context import Context
from astrarium.service.numbers import of_figures, size, time_ns
from astrarium.service.operations.fields import command, sets
from astrarium.units import format_time
from astrarium.vocab import MOST_PLANNED

__all__ = ["Plan", "command_of", "is_engine", "plan"]

CPU = 10.0      # seconds of one simulation, as the command line has it
Fixed = dict[str, list[Any]]
Positive = Annotated[int, Meta(ge=1, le=1 << 24)]
Count = Annotated[int, Meta(ge=1, le=MOST_PLANNED)]
Rate = Annotated[float, Meta(gt=0)]


class Plan(Struct, frozen=True, forbid_unknown_fields=True):
    """Find the best parallel layouts of a model on a number of devices: of training (the fastest steps that fit memory,
    with a proof that no other layout is faster), or of serving (engines that serve most requests within latency
    limits). Start here for 'how should I run MODEL on N DEVICES?'. Every line's design is saved in the folder, for
    `run`, `explain` (why is line 2 slower than line 1) and as the base of a search. What you leave open is chosen and
    listed under 'assumed'."""

    device: Annotated[str, Meta(description="A device of catalog('device'), or several joined by commas to compare.",
                                examples=["h200_sxm", "h100_sxm,b200"])]
    model: Annotated[str, Meta(description="A model of catalog('model'), such as 'llama3-405b', or a Hugging Face "
                                           "config (.json) in the folder.", examples=["llama3-70b"])] = ""
    today: Annotated[str, Meta(description="In place of `model`: launch arguments of a job, or of an engine that "
                                           "serves, which runs today, a file of the folder. The answer has its layout "
                                           "too.", examples=["train.sh"])] = ""
    gpus: Annotated[Count | None, Meta(
        description="Number of devices. Left out: all that `budget` and `power` allow, or for serving as few as serve "
                    "`rate`.", examples=[1024])] = None
    purpose: Annotated[Literal["training", "serving"], Meta(description="What to plan.")] = "training"
    objective: Annotated[Literal["time", "cost", "energy", "carbon"], Meta(
        description="Rank by the time of a step, or by money, energy or CO2 of 10^12 tokens.")] = "time"
    budget: Annotated[str | None, Meta(description="Limit of all purchases.", examples=["$60M"])] = None
    power: Annotated[str | None, Meta(description="Limit of the site's power.", examples=["1 MW"])] = None
    global_batch: Annotated[Positive | None, Meta(description="Samples a training step; default: 4 Mi tokens.")] = None
    seq: Annotated[Positive | None, Meta(description="Tokens per training sample; default: the model's.")] = None
    prompt: Annotated[Positive | None, Meta(description="Serving: tokens of a prompt.")] = None
    output: Annotated[Positive | None, Meta(description="Serving: tokens of an answer.")] = None
    ttft: Annotated[str, Meta(description="Serving: limit of the time to the first token (99th percentile).",
                              examples=["2s"])] = ""
    tpot: Annotated[str, Meta(description="Serving: limit of the time per further token (99th percentile).",
                              examples=["30ms"])] = ""
    rate: Annotated[Rate | None, Meta(description="Serving: requests per second, in place of gpus.")] = None
    fix: Annotated[Fixed, Meta(description="Parts of the layout with their only values (tp, pp, dp, cp, ep, zero, "
                                           "micro_batch, recompute, virtual_stages; serving: tp, dp, pp, ep, weights).",
                               examples=[{"tp": [8], "pp": [8, 16]}])] = {}
    network: Annotated[str | None, Meta(
        description="Networks of catalog('network'), innermost first, joined by commas, or a design file; default: the "
                    "device's usual host and fabric.", examples=["nvlink4,infiniband_ndr"])] = None
    stack: Annotated[str | None, Meta(description="Software of catalog('stack'), or 'none'; default: a current one."
                                      )] = None
    compute: Annotated[str | None, Meta(description="Compute model of catalog('compute'); default: measured kernels if "
                                                    "there are any.")] = None
    collectives: Annotated[Literal["measured", "simulated"] | None, Meta(
        description="Source of the times of collectives; default: measured if the network has rows.")] = None
    lift: Annotated[list[str], Meta(description="Rules to lift that leave out layouts; an answer lists them.",
                                    examples=[["host"]])] = []
    precision: Annotated[Literal["bf16", "fp16", "fp8"] | None, Meta(description="Of training.")] = None
    top: Annotated[int, Meta(ge=1, le=50, description="Number of layouts.")] = 5
    save: Annotated[str, Meta(description="Begin of the names of saved designs; default: from model and device.")] = ""


def plan(request: Plan, context: Context) -> Answer:
    """See `Plan`."""
    said = command_of(request, context)
    devices = [each.strip() for each in request.device.split(",")]
    count = f"-{request.gpus}x" if request.gpus else "-"
    stem = os.path.basename(request.today or request.model).rpartition(".json")
    prefix = request.save or f"{stem[0] or stem[2]}{count}{'-'.join(devices)}"
    make = _serving if request.purpose == "serving" else _training
    return replace(make(request, devices, prefix, context), command=said)


def is_engine(path: str) -> bool:
    """Whether a script launches an engine that serves: planned with the purpose `serving`."""
    from astrarium.planner.launch.foreign import serves

    return serves(read_text(path))


def command_of(request: Plan, context: Context) -> str:
    """The command line of a plan. Raises InputError for a name that is not known, and for a file elsewhere."""
    if bool(request.model) == bool(request.today):
        raise InputError("model", "is missing" if not request.model else "and today are given",
                         expected="a model, or launch arguments as `today`")
    for each in request.device.split(","):
        _known("devices", each.strip(), "device")
    if request.model.endswith(".json"):
        context.folder.path(request.model, "model")
    elif request.model:
        _known("models", request.model, "model")
    if request.today:
        context.folder.path(request.today, "today")
    if request.network is not None and request.network.endswith((".yaml", ".yml")):
        context.folder.path(request.network, "network")
    words = ["--from", request.today] if request.today else [request.model]
    words += ["--device", request.device] + (["--for", "serving"] if request.purpose == "serving" else [])
    for name in ("objective", "gpus", "budget", "power", "global_batch", "seq", "prompt", "output", "rate", "network",
                 "stack", "compute", "collectives", "precision", "ttft", "tpot"):
        value = getattr(request, name)
        if value not in (None, "", "time"):
            words += [f"--{name.replace('_', '-')}", str(value)]
    words += ["--lift", ",".join(request.lift)] if request.lift else []
    words += sets({part: ",".join(map(str, values)) for part, values in request.fix.items()}, "--fix")
    return command("plan", words, [] if request.top == 5 else ["--top", str(request.top)])


def _known(kind: str, name: str, path: str) -> None:
    """Raises InputError for a name that the catalog lacks."""
    try:
        name_of(kind, name)
    except InputError as error:
        raise InputError(path, error.message, expected=error.expected, did_you_mean=error.did_you_mean) from None


def _training(request: Plan, devices: Sequence[str], prefix: str, context: Context) -> Answer:
    from astrarium.planner import plan as plan_training
    from astrarium.planner import plan_from
    from astrarium.report.tables.shortlist import first_table, shortlist_tables

    _only(request, "training", ("prompt", "output", "rate"), ("ttft", "tpot"))
    settings: dict[str, Any] = {"precision": _PRECISIONS[request.precision]} if request.precision else {}

    def tell(state: Any) -> None:
        best = f"; so far {format_time(state.found[0].time)}: {state.found[0].layout}" if state.found else ""
        context.tell(Progress(state.simulated, None, f"{state.device}: {state.simulated:,} layouts simulated, "
                              f"{state.left:,} of {state.layouts:,} may fit{best}", table=first_table(state)))

    make: Any = plan_from if request.today else plan_training
    found = make(request.today or request.model, devices, gpus=request.gpus, seq=request.seq,
                 global_batch=request.global_batch, network=request.network, compute=request.compute,
                 collectives=request.collectives, stack=request.stack, top=request.top, fixed=request.fix or None,
                 lift=request.lift, limit=CPU, progress=tell, objective=request.objective, budget=request.budget,
                 power=request.power, **settings)
    lines = {str(place): line for place, line in enumerate(found.lines, 1)}
    lines |= {} if found.today is None else {"now": found.today}
    numbers = [number for place, line in lines.items() for number in _line_numbers(place, line)]
    files = tuple(context.save(line.design, f"{prefix}-{place}.yaml") for place, line in lines.items()) \
        if context.folder.writable else ()
    plain = [line.plain | {"file": name} for line, name in zip(lines.values(), files or [""] * len(lines), strict=True)]
    return Answer(title=f"{found.model} on {found.npus:,} x {request.device}", numbers=tuple(numbers),
                  tables=tuple(shortlist_tables(found)), files=files, page="plan", result=found,
                  found={"proved": found.proved, "sure": found.sure, "assumed": list(found.assumed),
                         "lines": plain[:len(found.lines)], **({"today": plain[-1]} if found.today else {})})


_PRECISIONS: Mapping[str, Mapping[str, str]] = MappingProxyType({
    "bf16": {"weights": "bf16", "activations": "bf16"}, "fp16": {"weights": "fp16", "activations": "fp16"},
    "fp8": {"products": "fp8"}})


def _line_numbers(place: str, line: Any) -> list[Number]:
    """The figures of a line of a training plan."""
    at = f"lines[{place}]."
    return [time_ns(f"{at}step", f"step of line {place}", line.time), size(f"{at}memory", "memory", line.memory),
            Number(f"{at}mfu", "MFU", line.mfu, "1", f"{100 * line.mfu:.1f} %"),
            Number(f"{at}tokens_per_second_per_npu", "tokens per NPU", line.tokens, "1/s", f"{line.tokens:,.0f} /s"),
            *(replace(each, name=at + each.name) for each in of_figures(line.figures))]


def _serving(request: Plan, devices: Sequence[str], prefix: str, context: Context) -> Answer:
    from astrarium.planner.serving import plan_serving, plan_serving_from, write_serving
    from astrarium.report.tables.serving_plan import found_so_far, serving_plan_tables

    _only(request, "serving", ("budget", "power", "seq", "global_batch", "precision"), ())

    def tell(state: Any) -> None:
        said = f"{state.done:,} of {state.candidates:,} engines looked at"
        table = found_so_far(state.done, state.candidates, state.found) if state.found else None
        context.tell(Progress(state.done, state.candidates, said, table=table))

    make: Any = plan_serving_from if request.today else plan_serving
    found = make(request.today or request.model, devices, gpus=request.gpus, rate=request.rate, prompt=request.prompt,
                 output=request.output, ttft=request.ttft, tpot=request.tpot, network=request.network,
                 stack=request.stack, top=request.top, fixed=request.fix or None, lift=request.lift,
                 compute=request.compute, collectives=request.collectives, objective=request.objective, progress=tell)
    files: list[str] = []
    if context.folder.writable:
        for place, line in enumerate(found.lines, 1):
            name = f"{prefix}-serving-{place}.yaml"
            context.folder.new(name)
            files += [name, write_serving(line, found.service, name)]
    return Answer(title=f"{found.service.name} served on {request.device}", tables=tuple(serving_plan_tables(found)),
                  files=tuple(files), found=found.plain, page="plan_serving", result=found)


def _only(request: Plan, purpose: str, absent: Sequence[str], empty: Sequence[str]) -> None:
    """Refuse what has no effect on this purpose."""
    for name in (*absent, *empty):
        if getattr(request, name) not in (None, ""):
            raise InputError(name, f"has no effect on {purpose}", expected="it left out, or the other purpose")
