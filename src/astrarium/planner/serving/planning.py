"""The verb of the serving planner: a model, lengths, limits and devices in; the best engines out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from astrarium import catalog
from astrarium.compute import kernels
from astrarium.errors import InputError, nearest
from astrarium.network.config import Network
from astrarium.planner.machine import Machine, device_names
from astrarium.planner.rules import Ruling
from astrarium.planner.serving.ceiling import Ceiling
from astrarium.planner.serving.engine import CHECKPOINT, PUBLISHED, Engine, engines
from astrarium.planner.serving.explore import Explored, Progress, Trial, explore
from astrarium.planner.serving.goal import Goal, goal_of
from astrarium.planner.serving.interval import span_of
from astrarium.planner.serving.launch import Launched, read_launched
from astrarium.planner.serving.machines import Machines, Prices, prices_of
from astrarium.planner.serving.mix import load_stream
from astrarium.planner.serving.pools import PoolsCeiling, pools_of
from astrarium.planner.serving.prices import RANKED
from astrarium.planner.serving.service import LEAST, LIVES, SEED, Service, base_of, service_of
from astrarium.planner.serving.shortlist import Line, ServingPlan
from astrarium.planner.terms import terms_of
from astrarium.serving.interval import tpot_interval
from astrarium.serving.requests import Arrivals
from astrarium.serving.settings import policy_settings
from astrarium.serving.slo import Slo, limit_of

__all__ = ["LARGEST", "assumptions", "plan_serving", "plan_serving_from"]

TOP, STACK, TOKENS = 5, "vllm", 2048
OBJECTIVES = ("time", *RANKED)
LARGEST = 64        # NPUs of an engine where a rate is asked for


def plan_serving(model: Any, device: str | Sequence[str], gpus: int | None = None, *, rate: float | None = None,
                 prompt: int | None = None, output: int | None = None, ttft: str = "", tpot: str = "",
                 network: str | Network | None = None, compute: str | None = None, collectives: str | None = None,
                 stack: str | None = None, top: int = TOP, fixed: Mapping[str, Sequence[Any]] | None = None,
                 lift: Sequence[str] = (), seed: int = SEED, objective: str = "time",
                 cost: str | Mapping[str, Any] | None = None, requests: Arrivals | str | None = None,
                 today: Launched | None = None,
                 progress: Callable[[Progress], None] | None = None) -> ServingPlan:
    """Find the engines that serve the most requests of a model within limits, or a rate with the fewest GPUs.

    Args:
        model: A name of the catalog, a Hugging Face config.json, or a Model.
        device: A device of the catalog, or several to compare.
        gpus, rate: Number of NPUs, or requests/s to serve; one of the two.
        prompt, output: Tokens of a prompt and of an answer.
        ttft, tpot: Limits of the 99th percentile ("2s"), or of another statistic ("mean=2s", "p90=2s").
        network, compute, collectives: As for `plan`.
        stack: The serving engine (vllm, vllm-sync, sglang, trt-llm); None: vllm; "none": no stack.
        top: Number of engines to return.
        fixed: Part of an engine (tp, dp, pp, ep, weights, cache, max_tokens) -> its only values.
        lift: Names of rules to lift (`ServingPlan.rules` has them).
        seed: Seed of the streams, the same for all engines and rates.
        objective: `time`: requests of a GPU, or GPUs for a rate; `cost`, `energy`, `carbon`: the same, where GPUs count
            by what an hour of one that computes costs, draws or emits.
        cost: The `cost` section, a row of it, or its fields; None: the catalog's for the device, where it has one.
        requests: A stream, or a file with the `requests` of a serving file: its lengths and arrivals (poisson, gamma,
            sharegpt) count in place of `prompt` and `output`, at other rates and with `seed`.
        today: What runs now, on the first device (see `read_launched`); `ServingPlan.today` is its line.
        progress: Called with the progress of the search.

    Returns:
        The engines, best first. `ServingPlan.assumed` lists the defaults that were used.

    Raises:
        InputError: An argument is wrong, or no engine holds the limits.
    """
    goal, names = goal_of(gpus, rate), device_names(device)
    if top < 1:
        raise InputError("top", f"{top}", expected="at least 1")
    if objective not in OBJECTIVES:
        raise InputError("objective", f"{objective[:60]!r} does not rank engines",
                         expected="one of " + ", ".join(OBJECTIVES))
    terms = terms_of(objective, cost, None, None)
    slo = Slo(tuple(limit_of(metric, text, metric) for metric, text in (("ttft", ttft), ("tpot", tpot)) if text))
    assumed: list[str] = []
    chosen = _stack(stack, names, compute, collectives, assumed)
    arrivals = load_stream(requests) if isinstance(requests, str) else requests
    service = service_of(model, prompt, output, slo, chosen, seed, arrivals)
    if today is not None:
        if goal.gpus is not None and today.engine.npus > goal.gpus:
            raise InputError("gpus", f"{goal.gpus}", expected=f"at least {today.engine.npus}, those of today's "
                             "engine")
        assumed += [*today.assumed, *([f"without effect here: {', '.join(today.ignored)}"] if today.ignored else [])]
    machines = Machines(names, goal.gpus or LARGEST, network, compute, collectives, chosen)
    prices = prices_of(machines, service, terms, assumed)
    if objective in RANKED:
        known = {name: price for name in names if (price := prices.of(name)) is not None}
        goal = replace(goal, prices={name: price.hour(objective) for name, price in known.items()},
                       unit=RANKED[objective])
    every, rules, apart = _engines(machines, service, fixed or {}, lift)
    explored = explore(service, goal, every, top=top, tell=progress, pools=partial(_pools, machines) if apart else None)
    if not explored.found:
        _refuse(explored, service)
    lines = _lines(explored.found, goal, prices)
    now = None if today is None else _beside(_today(today, machines, service, goal, prices), lines[0], goal)
    return ServingPlan(service, goal, lines, explored.candidates, explored.lost,
                       explored.simulated, rules, tuple(dict.fromkeys([*assumed, *assumptions(service), *(
                           text for name in names for text in machines.largest(name).assumed)])), machines.models, now)


def plan_serving_from(path: str, device: str | Sequence[str], *, model: str | None = None, gpus: int | None = None,
                      rate: float | None = None, stack: str | None = None, ignore: Sequence[str] = (),
                      **rest: Any) -> ServingPlan:
    """Plan what is served today, from its launch arguments. Other arguments are those of `plan_serving`.

    Args:
        path: A script with `vllm serve` or `sglang.launch_server`, or the .yaml of `trtllm-serve`.
        model: The model, where the file does not name one of the catalog.
        gpus, rate: As for `plan_serving`; None: as many GPUs as today.
        stack: None: that of the file.
        ignore: Keys of the file to ignore.

    Returns:
        The engines; `ServingPlan.today` is what runs today, on the first device.

    Raises:
        InputError: As `plan_serving`; also for unknown keys, and keys that matter and are not predicted.
    """
    def named(said: str | None) -> Any:
        if model is not None:
            return model
        if said is None:
            raise InputError(path, "does not name the model", expected="MODEL: a name of the catalog, or a config.json")
        try:
            return catalog.name_of("models", said)
        except InputError:
            raise InputError(path, f"names the model {said[:60]!r}, which the catalog does not have",
                             expected="MODEL: a name of the catalog, or a config.json") from None

    found = read_launched(path, lambda said: bool(base_of(named(said)).model.ep_units()), ignore)
    many = gpus if gpus is not None or rate is not None else found.engine.npus * found.engines
    return plan_serving(named(found.model), device, many, rate=rate, stack=stack or found.stack, today=found, **rest)


def _stack(stack: str | None, devices: Sequence[str], compute: str | None, collectives: str | None,
           assumed: list[str]) -> str | None:
    """The stack that is named, else vLLM where times of all devices are measured: its constants are of such times."""
    if stack is not None:
        names = [name for name, row in catalog.load("stacks").items() if "policy" in row]
        if stack not in (*names, "none"):
            raise InputError("stack", f"{stack[:60]!r} does not serve" if stack in catalog.load("stacks") else
                             f"{stack[:60]!r} is not known", expected="one of " + ", ".join([*names, "none"]),
                             did_you_mean=nearest(stack, names))
        return None if stack == "none" else stack
    measured = all(kernels.named(device) is not None for device in devices) and {compute, collectives} <= {
        None, "measured"}
    assumed.append(f"stack: {STACK} (to change: --stack sglang, trt-llm)" if measured else
                   "stack: none, as times are not measured: no host time, and policies of no engine")
    return STACK if measured else None


def _today(today: Launched, machines: Machines, service: Service, goal: Goal, prices: Prices) -> Line:
    """The line of what runs now."""
    engine, device = today.engine, machines.devices[0]
    if engine.weights == CHECKPOINT:
        engine = replace(engine, weights="bf16" if service.model.checkpoint is None else PUBLISHED)
    engine = replace(engine, tokens=engine.tokens or int(policy_settings(service.stack).get("max_tokens", TOKENS)))
    explored = explore(service, goal, [(engine, machines.of(device, engine.npus))], top=1)
    if not explored.found:
        raise InputError("from", f"today's engine ({engine}, {engine.format}) does not hold {service.slo}: "
                         f"{explored.lost[0].why}", expected="other limits")
    return _lines(explored.found, goal, prices)[0]


def _engines(machines: Machines, service: Service, fixed: Mapping[str, Sequence[Any]], lift: Sequence[str]
             ) -> tuple[list[tuple[Engine, Machine]], tuple[Ruling, ...], bool]:
    """Every engine with its machine, the rules, and whether pools are compared, too."""
    apart = False
    every, rules = list[tuple[Engine, Machine]](), dict[Ruling, None]()
    tokens = int(policy_settings(service.stack).get("max_tokens", TOKENS))
    for name in machines.devices:
        space = engines(service.model, name, machines.most, machines.largest(name).host, tokens, fixed, lift)
        every += [(engine, machines.of(name, engine.npus)) for engine in space]
        rules |= dict.fromkeys(space.rulings)
        apart |= space.apart
    return every, tuple(rules), apart


def _pools(machines: Machines, parts: Sequence[tuple[Engine, str, Ceiling]]
           ) -> Iterator[tuple[Engine, Machine, PoolsCeiling]]:
    """Pools of the engines of each device, with their machines."""
    for name in machines.devices:
        own = [(engine, ceiling) for engine, device, ceiling in parts if device == name]
        for engine, ceiling in pools_of(own, machines.most, machines.largest(name).host):
            yield engine, machines.of(name, engine.npus), ceiling


def _lines(found: Sequence[Trial], goal: Goal, prices: Prices) -> tuple[Line, ...]:
    lines: list[Line] = []
    for trial in found:
        each = trial.candidate
        within = tpot_interval(each.design)
        line = Line(trial, goal.engines(each.engine.npus, trial.rate), within,
                    span_of(trial.rate, each.ceiling, within), prices.of(each.machine.device, each.engine.npus))
        lines.append(_beside(line, lines[0], goal) if lines else line)
    return tuple(lines)


def _beside(line: Line, best: Line, goal: Goal) -> Line:
    """A line with why it is not the best, and whether it may be."""
    npus, others = (each.trial.candidate.engine.npus for each in (line, best))
    mine, theirs = (each.trial.rate / size for each, size in ((line, npus), (best, others)))
    tie = None if line.span is None or best.span is None else (
        line.span[0] / npus <= theirs <= line.span[1] / npus or best.span[0] / others <= mine <= best.span[1] / others)
    open_ = "undecided: " if tie else ""
    if line.trial.order <= best.trial.order:
        return replace(line, tie=tie, lost=f"{open_}{100 * (mine / theirs - 1):.1f} % more requests/s and GPU")
    said = [f"{line.npus - best.npus:,} GPUs more"] if goal.rate is not None and line.npus > best.npus else []
    said += [f"{100 * (1 - mine / theirs):.1f} % fewer requests/s and GPU"] if mine < theirs else []
    lost, beyond = ", ".join(said) or "GPUs that are left over, or their price", line.trial.found.beyond
    return replace(line, tie=tie, lost=open_ + lost + (
        "" if beyond is None else f" ({beyond.why} at {beyond.rate:,.3g}/s)"))


def _refuse(explored: Explored, service: Service) -> None:
    """Raise InputError: no engine holds the limits."""
    kinds = {each.kind: each for each in sorted(explored.lost, key=lambda each: each.engine.npus)}   # the largest
    said = "; ".join(f"{each.engine} ({each.engine.format}): {each.why}" for each in kinds.values())
    more = "more GPUs"
    if all(each.npus for each in explored.lost) and explored.lost:
        more += f" (about {2 ** math.ceil(math.log2(min(each.npus for each in explored.lost))):,})"
    raise InputError("gpus", f"no engine serves {service.name} within {service.slo}: {said[:600]}" if said else
                     "no engine has so few NPUs", expected=f"{more}, other limits, or another --fix")


def assumptions(service: Service) -> list[str]:
    """What the caller left open, in words."""
    longest: int | None = getattr(service.model, "max_positions", None) or getattr(service.model, "seq", None)
    asked = service.mix.longest
    long = [f"prompt and answer have {asked:,} tokens, a sequence of the model here {longest:,}: an engine refuses "
            "what is beyond its max_model_len"] if longest and asked > longest else []
    kind = "at random (Poisson" if service.arrivals is None else f"as the stream says ({service.arrivals.tag}"
    shared = getattr(service.arrivals, "prefix", None) is not None
    return [*long, f"requests come {kind}, seed {service.seed}), at least {LEAST:,} and for {LIVES} times what one "
            "lasts; figures are of the steady state", *([] if shared else ["no prompt begins like another"]),
            "each engine gets an equal share of the requests, dealt out at random"]
