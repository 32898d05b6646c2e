"""Plan a training job, or engines that serve a model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from astrarium.errors import InputError
from astrarium.service.answer import Answer, Number, Progress
from astrarium.service.context import Context
from astrarium.service.numbers import of_figures, size, time_ns
from astrarium.service.operations.fields import command, sets

__all__ = ["Plan", "plan"]

CPU = 10.0      # seconds of one simulation, as the command line has it
Fixed = dict[str, list[Any]]
Positive = Annotated[int, Meta(ge=1)]
Rate = Annotated[float, Meta(gt=0)]


class Plan(Struct, frozen=True, forbid_unknown_fields=True):
    """Find the best parallel layouts of a model on a number of devices: of training (the fastest steps that fit memory,
    with a proof that no other layout is faster), or of serving (engines that serve most requests within latency
    limits). Start here for 'how should I run MODEL on N DEVICES?'. Every line's design is saved in the folder, for
    `run`, `explain` (why is line 2 slower than line 1) and as the base of a search. What you leave open is chosen and
    listed under 'assumed'."""

    model: Annotated[str, Meta(description="A model of catalog('model'), such as 'llama3-405b', or a Hugging Face "
                                           "config (.json) in the folder.", examples=["llama3-70b"])]
    device: Annotated[str, Meta(description="A device of catalog('device'), or several joined by commas to compare.",
                                examples=["h200_sxm", "h100_sxm,b200"])]
    gpus: Annotated[Positive | None, Meta(
        description="Number of devices. Left out: all that `budget` and `power` allow, or for serving as few as serve "
                    "`rate`.", examples=[1024])] = None
    purpose: Literal["training", "serving"] = "training"
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
    precision: Annotated[Literal["bf16", "fp16", "fp8"] | None, Meta(description="Of training.")] = None
    top: Annotated[int, Meta(ge=1, le=50, description="Number of layouts.")] = 5
    save: Annotated[str, Meta(description="Begin of the names of saved designs; default: from model and device.")] = ""


def plan(request: Plan, context: Context) -> Answer:
    """See `Plan`."""
    model = context.folder.path(request.model, "model") and request.model if request.model.endswith(".json") \
        else request.model
    _refuse_files(request, context)
    devices = [each.strip() for each in request.device.split(",")]
    count = f"-{request.gpus}x" if request.gpus else "-"
    prefix = request.save or f"{os.path.basename(model).removesuffix('.json')}{count}{'-'.join(devices)}"
    if request.purpose == "serving":
        return _serving(request, model, devices, prefix, context)
    return _training(request, model, devices, prefix, context)


def _refuse_files(request: Plan, context: Context) -> None:
    """Files that a plan names must be those of the folder."""
    for each in request.device.split(","):
        if each.strip().endswith(".toml"):
            raise InputError("device", f"{each.strip()!r} is a file", expected="a device of catalog('device')")
    if request.network is not None and request.network.endswith((".yaml", ".yml")):
        context.folder.path(request.network, "network")


def _training(request: Plan, model: str, devices: Sequence[str], prefix: str, context: Context) -> Answer:
    from astrarium.planner import plan as plan_training
    from astrarium.report.tables.shortlist import shortlist_tables

    _only(request, "training", ("prompt", "output", "rate"), ("ttft", "tpot"))
    settings: dict[str, Any] = {"precision": _PRECISIONS[request.precision]} if request.precision else {}

    def tell(state: Any) -> None:
        best = f", so far {state.found[0].layout}" if state.found else ""
        context.tell(Progress(state.simulated, state.layouts,
                              f"{state.device}: {state.simulated:,} of {state.layouts:,} layouts simulated{best}"))

    found = plan_training(model, devices, request.gpus, seq=request.seq, global_batch=request.global_batch,
                          network=request.network, stack=request.stack, top=request.top, fixed=request.fix or None,
                          limit=CPU, progress=tell, objective=request.objective, budget=request.budget,
                          power=request.power, **settings)
    numbers = [number for place, line in enumerate(found.lines, 1) for number in _line_numbers(place, line)]
    files = tuple(context.save(line.design, f"{prefix}-{place}.yaml") for place, line in enumerate(found.lines, 1)) \
        if context.folder.writable else ()
    return Answer(title=f"{model} on {found.npus:,} x {request.device}", numbers=tuple(numbers),
                  tables=tuple(shortlist_tables(found)), files=files, command=_command(request, model),
                  found={"proved": found.proved, "sure": found.sure, "assumed": list(found.assumed),
                         "lines": [line.plain | {"file": name} for line, name in
                                   zip(found.lines, files or [""] * len(found.lines))]})


_PRECISIONS: Mapping[str, Mapping[str, str]] = MappingProxyType({
    "bf16": {"weights": "bf16", "activations": "bf16"}, "fp16": {"weights": "fp16", "activations": "fp16"},
    "fp8": {"products": "fp8"}})


def _line_numbers(place: int, line: Any) -> list[Number]:
    """The figures of a line of a training plan."""
    at = f"lines[{place}]."
    return [time_ns(f"{at}step", f"step of line {place}", line.time), size(f"{at}memory", "memory", line.memory),
            Number(f"{at}mfu", "MFU", line.mfu, "1", f"{100 * line.mfu:.1f} %"),
            Number(f"{at}tokens_per_second_per_npu", "tokens per NPU", line.tokens, "1/s", f"{line.tokens:,.0f} /s"),
            *(replace(each, name=at + each.name) for each in of_figures(line.figures))]


def _serving(request: Plan, model: str, devices: Sequence[str], prefix: str, context: Context) -> Answer:
    from astrarium.planner.serving import plan_serving, write_serving
    from astrarium.report.tables.serving_plan import serving_plan_tables

    _only(request, "serving", ("budget", "power", "seq", "global_batch", "precision"), ())

    def tell(state: Any) -> None:
        said = f"{state.done:,} of {state.candidates:,} engines looked at"
        context.tell(Progress(state.done, state.candidates, said))

    found = plan_serving(model, devices, gpus=request.gpus, rate=request.rate, prompt=request.prompt,
                         output=request.output, ttft=request.ttft, tpot=request.tpot, network=request.network,
                         stack=request.stack, top=request.top, fixed=request.fix or None, objective=request.objective,
                         progress=tell)
    files: list[str] = []
    if context.folder.writable:
        for place, line in enumerate(found.lines, 1):
            name = f"{prefix}-serving-{place}.yaml"
            files += [name, os.path.basename(write_serving(line, found.service, context.folder.new(name)))]
    return Answer(title=f"{model} served on {request.device}", tables=tuple(serving_plan_tables(found)),
                  files=tuple(files), found=found.plain, command=_command(request, model))


def _only(request: Plan, purpose: str, absent: Sequence[str], empty: Sequence[str]) -> None:
    """Refuse what has no effect on this purpose."""
    for name in (*absent, *empty):
        if getattr(request, name) not in (None, ""):
            raise InputError(name, f"has no effect on {purpose}", expected="it left out, or the other purpose")


def _command(request: Plan, model: str) -> str:
    """The command line of a plan."""
    words = [model, "--device", request.device]
    for name in ("gpus", "budget", "power", "global_batch", "seq", "prompt", "output", "rate", "network", "stack",
                 "precision", "ttft", "tpot"):
        value = getattr(request, name)
        if value not in (None, ""):
            words += [f"--{name.replace('_', '-')}", str(value)]
    words += ["--for", "serving"] if request.purpose == "serving" else []
    words += ["--objective", request.objective] if request.objective != "time" else []
    words += sets({part: ",".join(map(str, values)) for part, values in request.fix.items()}, "--fix")
    return command("plan", words, [] if request.top == 5 else ["--top", str(request.top)])
