"""The planner's verb: a model and devices in, a Shortlist out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec.structs import replace

from astrarium.catalog.market import part
from astrarium.config.named import merged
from astrarium.cost import FIGURES
from astrarium.cost.capital import dollars
from astrarium.cost.interval import tied
from astrarium.cost.power import watts
from astrarium.cost.support import Support
from astrarium.cost.training import conditions
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.lower.kept import Kept
from astrarium.market import Cost
from astrarium.network.config import Network
from astrarium.planner.breakdown import breakdown_of
from astrarium.planner.budget import check_budget, counts_within
from astrarium.planner.certificate import certificate_of
from astrarium.planner.explore import Explored, Progress, busy_of, explore, memory_of, workload_of
from astrarium.planner.job import Job, job_of
from astrarium.planner.launch import Today
from astrarium.planner.layout import Allowed, Layout, layouts
from astrarium.planner.left_out import hidden_by, per_ep
from astrarium.planner.machine import Machine, device_names, host_size, machine_of, stack_settings
from astrarium.planner.objective import Objective, objective_of
from astrarium.planner.reserve import Reserve, reserve_of
from astrarium.planner.shortlist import Hidden, Line, OfEp, Shortlist, reason
from astrarium.planner.stacks import Chosen, limited, needs_of, other_stack, usual_stack
from astrarium.planner.terms import Terms, cost_of, powers_of, terms_of
from astrarium.result import Result
from astrarium.simulate import simulate
from astrarium.stack import placed
from astrarium.units import format_bytes
from astrarium.workload.transformer import Transformer

__all__ = ["LIMIT", "TOP", "line_of", "makers_of", "plan", "planned", "settings_for"]

TOP = 5
MONEY = ("npu_hours", "npu_hours_per_tera_tokens", "cost_per_tera_tokens", "owned_cost_per_tera_tokens",
         "cost_per_hour", "training_cost", "capital_cost", "power_peak", "energy_per_tera_tokens",
         "carbon_per_tera_tokens")
Maker = tuple[Callable[[int], Machine], int]
OF_COUNTS = ("budget", "power", "gpus")      # paths of errors about one device, which leave the others to compare
LIMIT = 10.0        # CPU seconds of one simulation
EFFORT = 10_000_000     # events of simulations (3 CPU s) after which only the first line is worth more of them


def plan(model: Any, device: str | Sequence[str], gpus: int | None = None, *, seq: int | None = None,
         global_batch: int | None = None, network: str | Network | None = None, compute: str | None = None,
         collectives: str | None = None, stack: str | None = None, top: int = TOP,
         fixed: Mapping[str, Sequence[Any]] | None = None, jobs: int = 1, limit: float | None = LIMIT,
         progress: Callable[[Progress], None] | None = None, objective: str = "time",
         cost: str | Mapping[str, Any] | None = None, budget: str | None = None, power: str | None = None,
         lift: Sequence[str] = (), reserve: str | float | None = None, exact: bool = False,
         certify: bool = False, **settings: Any) -> Shortlist:
    """Find the best layouts of a training step of `model` that fit the memory of its NPUs.

    Args:
        model: A name of the catalog, a Hugging Face config.json, or a Model.
        device: A device of the catalog, or several to compare.
        gpus: Number of NPUs; None: those within `budget` and `power`.
        seq, global_batch: Tokens per sample and samples per step; None: the model's, and 4 Mi tokens per step.
        network: A network; None: the device's usual host and fabric.
        compute, collectives, stack: Compute model, source of the times of collectives, software stack ("none": none);
            None: measured ones if there are, and a current stack that runs the job.
        top: Number of layouts to return.
        fixed: Part of a layout -> its only values.
        jobs, limit: Simulations at a time, and CPU seconds for each (None: no limit).
        progress: Called with the progress of the search.
        objective: `time` of a step, or `cost`, `energy`, `carbon` of 10^12 tokens.
        cost: The `cost` section, a row of it, or its fields; None: the catalog's for the device.
        budget, power: Limits of purchases ("$6M") and of the site's power ("1 MW").
        lift: Names of rules to lift (`Shortlist.rules` has them).
        reserve: Memory that stays free: "5 %" of what a layout needs, or "2 GB"; None: as measured.
        exact: Simulate until no layout can be better than the last line; else large simulations stop when none can be
            better than the first (`Shortlist.beyond`).
        certify: Whether to make `Shortlist.certificate`, with which `tools/check_plan.py` confirms the first line.
        **settings: Other fields of the workload (see `Transformer`), such as `precision`; they override the stack.

    Returns:
        The layouts, best first. `Shortlist.assumed` lists the defaults that were used.

    Raises:
        InputError: An argument is wrong, or no layout fits.
    """
    terms = terms_of(objective, cost, budget, power)
    fixed, why = limited(stack, fixed)
    asked = job_of(model, seq=seq, global_batch=global_batch, **settings)
    makers = makers_of(device, network, compute, collectives, stack, terms, reserve, needs_of(asked, fixed), why)

    def job_on(machine: Machine) -> Job:
        return job_of(model, seq=seq, global_batch=global_batch, **settings_for(machine, settings))

    machines = machines_on(makers, gpus, job_on, terms, fixed, lift)
    name = model if isinstance(model, str) else type(model).__name__
    found = planned(job_on(max(machines, key=lambda each: each.npus)), machines, name, top=top, fixed=fixed, jobs=jobs,
                    limit=limit, progress=progress, terms=terms, lift=lift, exact=exact, certify=certify)
    note = "" if stack is not None else other_stack(
        machines[0].stack, device_names(device), compute, collectives, asked, fixed)
    return replace(found, notes=(note,)) if note else found


def settings_for(machine: Machine, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the workload: the stack's, but for what a layout says, under `settings`. Layers that `settings` compile
    (fusion) are not a stack's eager ones."""
    row = stack_settings(machine.stack, len(machine.network.flat) > 1, machine.device, machine.compute.tag)["workload"]
    row = placed({name: value for name, value in row.items() if name not in Layout.__struct_fields__}, Transformer)
    if settings.get("fusion") is True and row.get("software", {}).get("operators") == "eager":
        row = merged(row, {"software": {"operators": "compiled"}})
    return dict(merged(row, settings))


def makers_of(device: str | Sequence[str], network: str | Network | None, compute: str | None,
            collectives: str | None, stack: str | None, terms: Terms, reserve: str | float | None,
            needs: Support | None = None, why: str = "") -> list[Maker]:
    """What makes machines of every device, all with one stack, which runs what `needs` says where it is left out, and
    how many NPUs a host of it has. `why`: a sentence about a stack that is named."""
    names = device_names(device)
    taken = Chosen(None if stack == "none" else stack, why)
    if stack is None:
        taken = usual_stack(names, compute, collectives, needs)
    kept_free = reserve_of(reserve, taken.stack)
    return [_maker(name, network, compute, collectives, taken, terms, kept_free) for name in names]


def _maker(device: str, network: str | Network | None, compute: str | None, collectives: str | None,
           stack: Chosen, terms: Terms, reserve: Reserve) -> Maker:
    assumed = [stack.why] if stack.why else []
    cost = cost_of(terms, device, assumed) if terms.needed else Cost()
    powers = powers_of(terms, device, assumed) if terms.needed or terms.compute else {}     # a limit is a clock, too

    def make(npus: int) -> Machine:
        return machine_of(device, npus, network, compute, collectives, stack.stack, cost=cost, powers=powers,
                          assumed=assumed, reserve=reserve)

    return make, (part(cost.host).npus or host_size(device) if cost.host is not None else 0)


def machines_on(makers: Sequence[Maker], gpus: int | None, job_on: Callable[[Machine], Job],
                terms: Terms, fixed: Mapping[str, Sequence[Any]] | None = None, lift: Sequence[str] = ()
                ) -> list[Machine]:
    """A machine of every device: of `gpus` NPUs, or of every count that the budgets and the layouts allow. Without
    `gpus`, a device that none suits is left out. Raises InputError, also if all are."""
    if gpus is not None:
        machines = [make(gpus) for make, _ in makers]
        for machine in machines:
            check_budget(machine, job_on(machine), terms)
        return machines
    if terms.budget is None and terms.power is None:
        raise InputError("gpus", "is missing",
                         expected="--gpus N (how many NPUs), or --budget or --power (the most that fit)")
    found: list[Machine] = []
    left_out: list[InputError] = []
    for make, host in makers:
        if not host:
            raise InputError("cost.host", "is missing, or does not say how many NPUs it has",
                             expected="a host of the catalog that does: budgets count whole hosts")
        try:
            counts = counts_within(make, host, job_on(make(2 * host)), terms, fixed, lift)
        except InputError as error:
            if error.path not in OF_COUNTS:
                raise
            left_out.append(error)
            continue
        for count in counts:
            machine = make(count)
            found.append(replace(machine, assumed=(*machine.assumed, _counted(terms)) if count == max(counts) else ()))
    if not found:
        raise left_out[0]
    said = tuple([f"left out: {error.message}" for error in left_out])
    return [replace(found[0], assumed=(*said, *found[0].assumed)), *found[1:]]


def _counted(terms: Terms) -> str:
    """What is said of counts that a budget leaves."""
    limits = [] if terms.budget is None else [f"{dollars(terms.budget)} for all that is bought"]
    limits += [] if terms.power is None else [f"{watts(terms.power)} for the site at most"]
    return f"counts: the most whole hosts within {' and '.join(limits)} that a layout allows, and powers of two below"


def planned(job: Job, machines: Sequence[Machine], name: str, *, top: int = TOP, today: Today | None = None,
            fixed: Mapping[str, Sequence[Any]] | None = None, jobs: int = 1, limit: float | None = LIMIT,
            progress: Callable[[Progress], None] | None = None, terms: Terms | None = None,
            lift: Sequence[str] = (), exact: bool = False, certify: bool = False) -> Shortlist:
    """The shortlist of a job on `machines`. `today`: the layout that runs now, predicted on the first machine."""
    if top < 1:
        raise InputError("top", f"{top}", expected="at least 1")
    kept = Kept()
    ranked = "time" if terms is None else terms.objective
    objectives = [objective_of(ranked, machine, job) for machine in machines]
    spaces = [layouts(job, machine.npus, machine.host, fixed, lift) for machine in machines]
    explored = list[Explored]()
    with _other_kernels(machines):
        for machine, goal, space in zip(machines, objectives, spaces, strict=True):
            explored.append(explore(job, machine, top=top, every=space, jobs=jobs, limit=limit, kept=kept,
                                    progress=progress, objective=goal, line_of=partial(line_of, job, machine, goal),
                                    below=_below(explored, machines, machine.device, top),
                                    effort=math.inf if exact else EFFORT))
    _refuse_nothing(explored, machines)
    order = sorted((trial for each in explored for trial in each.found), key=lambda trial: trial.order[:2])
    every = [trial.line for trial in order if trial.line is not None]
    lines = every[:top]
    rules = dict.fromkeys(each for space in spaces for each in space.rulings)
    proof = certificate_of(job, machines, explored, lines[0], objectives[0].figure, fixed,
                           [each.rule.name for each in rules if each.lifted]) if certify else {}
    now = None if today is None else _today(today, machines[0], objectives[0], kept)
    own = next(place for place, machine in enumerate(machines)
               if (machine.device, machine.npus) == (lines[0].device, lines[0].npus))
    of_ep, hidden = _not_simulated(explored[own], spaces[own], machines[own], lines[0].value)
    return Shortlist(
        name, job.tokens, max(machine.npus for machine in machines),
        tuple([_beside(line, lines[0], objectives[0]) for line in lines]),
        sum(each.layouts for each in explored), sum(each.too_large for each in explored),
        sum(each.simulated for each in explored),
        tuple([(f"{machine.device}: {trial.layout} ({trial.problem})", trial.least)
               for machine, each in zip(machines, explored) for trial in each.unknown]),
        (*job.assumed, *_assumed(machines)),
        _conditions(lines[0].design), _models(machines),
        None if now is None else _beside(now, lines[0], objectives[0]), objectives[0],
        tuple(dict.fromkeys(machine.npus for machine in machines)), tuple(rules),
        min(each.least for each in explored), _candidates(every), proof, per_ep=of_ep,
        hidden=hidden)


def _not_simulated(explored: Explored, space: Allowed, machine: Machine, best: float
                   ) -> tuple[tuple[OfEp, ...], tuple[Hidden, ...]]:
    """The best layout of each ep, and what rules leave out, on the machine of the best line."""
    rules = [each.rule for each in space.rulings if not each.lifted]
    done = [(trial.value, trial.layout) for trial in explored.looked if not math.isnan(trial.value)]
    return (per_ep(explored.eps, done, explored.left) if len(explored.eps) > 1 else (),
            hidden_by(rules, space, explored.bounds, machine.room, best))


def _below(explored: Sequence[Explored], machines: Sequence[Machine], device: str, top: int) -> float:
    """Value at which a layout on a device neither is among the `top` best nor the best of the device."""
    values = sorted(trial.value for each in explored for trial in each.found)
    own = [trial.value for each, machine in zip(explored, machines) for trial in each.found if machine.device == device]
    return math.inf if len(values) < top or not own else max(values[top - 1], min(own))


def _candidates(lines: Sequence[Line]) -> tuple[Line, ...]:
    """The best line of each device, best first; none of a single device."""
    best: dict[str, Line] = {}
    for line in lines:
        best.setdefault(line.device, line)
    return tuple(best.values()) if len(best) > 1 else ()


def _assumed(machines: Sequence[Machine]) -> list[str]:
    """The machines' assumptions; those that are not all devices' begin with the device."""
    devices = dict.fromkeys(machine.device for machine in machines)
    texts: dict[str, dict[str, None]] = {}
    for machine in machines:
        for text in machine.assumed:
            texts.setdefault(text, {})[machine.device] = None
    return [text if len(of) == len(devices) or text.startswith("left out:") else f"{', '.join(of)}: {text}"
            for text, of in texts.items()]


def _today(today: Today, machine: Machine, goal: Objective, kept: Kept) -> Line:
    """The line of what runs now."""
    workload = workload_of(today.job, today.layout, **today.fields)
    return line_of(today.job, machine, goal, today.layout, simulate(machine.design(workload), kept=kept), workload)


@contextmanager
def _other_kernels(machines: Sequence[Machine]) -> Iterator[None]:
    """Add to an error about unmeasured kernels the compute model that has them."""
    try:
        yield
    except InputError as error:
        if error.path.startswith("compute.device") and any(each.compute.tag == "measured" for each in machines):
            raise InputError(error.path, error.message, expected="--compute analytic, from the data sheet, or kernels "
                             f"that were measured: {error.expected}") from None
        raise


def _conditions(design: Design) -> dict[str, object]:
    """What holds for every line: sequence, batch, precision."""
    about = conditions(design)
    return {name: about[name] for name in ("sequence_tokens", "global_batch", "precision")}


def _models(machines: Sequence[Machine]) -> tuple[str, ...]:
    """Which models say how long things take: one text where they are the same on all machines."""
    every = {machine.device: machine.models for machine in machines}
    texts = tuple(dict.fromkeys(every.values()))
    return texts if len(texts) == 1 else tuple(f"{device}: {text}" for device, text in every.items())


def _beside(line: Line, best: Line, goal: Objective) -> Line:
    if line is best:
        return line
    return replace(line, lost=reason(line, best, goal), tie=tied((line.value, line.within), (best.value, best.within)))


def _refuse_nothing(explored: Sequence[Explored], machines: Sequence[Machine]) -> None:
    if any(each.found for each in explored):
        return
    problem = next((trial.problem for each in explored for trial in each.unknown), "")
    total = sum(each.layouts for each in explored)
    if not total:
        raise InputError("gpus", f"no layout of {machines[0].npus:,} NPUs is left: {explored[0].refused}",
                         expected="other sizes, or another --fix")
    smallest, machine = min(zip((each.smallest for each in explored), machines), key=lambda pair: pair[0])
    need, more = "", "more NPUs"
    if smallest < math.inf:
        need = (f": each needs at least {format_bytes(smallest)}, and {format_bytes(machine.room)} are left to it "
                f"({format_bytes(smallest - machine.room)} are missing)")
        count = math.ceil(machine.npus * smallest / machine.room)
        host = max(machine.host, host_size(machine.device))
        whole = count if count <= host else -(-count // host) * host
        more = f"more NPUs (about {whole:,} if all memory is sharded)"
    raise InputError("gpus", f"none of {total:,} layouts fits {machine.npus} x {machine.device}{need}"
                     + (f" ({problem})" if problem else ""),
                     expected=f"{more}, more memory in each, or a smaller --reserve")


def line_of(job: Job, machine: Machine, goal: Objective, layout: Layout, result: Result,
            workload: Transformer | None = None) -> Line:
    """The line of a layout, of which `result` is the recorded run; `workload`: where it is not the layout's; `goal`:
    what lines are ranked by."""
    workload = workload or workload_of(job, layout)
    design, time = machine.design(workload), float(result.at_least)
    return Line(layout, machine.device, time, memory_of(workload, Kept()), machine.capacity,
                _figure("mfu", design, result), _figure("tokens_per_second_per_npu", design, result),
                breakdown_of(result, machine, workload), design, job, room=machine.room,
                value=goal.value(time, busy_of(result) if goal.per_busy_ns else 0.0), figures=_money(design, result),
                makespan=float(result.makespan),
                peak=math.nan if result.peak_memory is None else float(result.peak_memory))


def _money(design: Design, result: Result) -> dict[str, float]:
    """Figures of cost for which the design says what they need; none where it says nothing of cost."""
    if design.cost == Cost():
        return {}
    found = {name: _figure(name, design, result) for name in MONEY}
    return {name: value for name, value in found.items() if not math.isnan(value)}


def _figure(name: str, design: Design, result: Result) -> float:
    """A figure of the run; NaN where the design does not say what it needs (a peak)."""
    figure = FIGURES[name]
    try:
        if figure.check is not None:
            figure.check(design)
        return figure.of_design(design) if figure.of_design is not None else figure.measure(design, result)
    except InputError:
        return math.nan
