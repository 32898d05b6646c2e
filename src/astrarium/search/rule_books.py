"""Explain why our makespan of a design differs from ASTRA-sim's: by knob and by rule.

Rules that ASTRA-sim's engine can do without (`astra_sim.rules`) are knobs of their own; they exist once `compat` has
changed, so in every order they wait for it (or, on the way back, it waits for them). `compat` itself is what is left:
the engine, with links that are never shared, its hops, machines of algorithms and tie order.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from astrarium.astra_sim.design import lower_astra_design
from astrarium.astra_sim.rules import FINER, RULES, AstraRules
from astrarium.collective.config import Collective, algorithms_of, chunks_of, composition_of
from astrarium.config import replace_all
from astrarium.design import AstraSim, Design
from astrarium.engine import execute
from astrarium.engine.plan import Kind, Plan
from astrarium.errors import InputError
from astrarium.lower import Kept, read_work
from astrarium.result import Result
from astrarium.search.differences import Difference, between, differences
from astrarium.search.explain import Explanation, shared, times_of
from astrarium.simulate import TraceCache, simulate
from astrarium.system.config import System

__all__ = ["PREFIX", "explain_rules", "rule_books"]

PREFIX = "compat: "      # before a rule's name
CHOSEN = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")      # ASTRA-sim wants to be told their algorithms
STREAMS = ("compute_streams", "comm_streams", "p2p_streams", "copy_streams", "cpu_threads")
GROUPS_DELAY = 10       # ns


def rule_books(design: Design) -> tuple[Design, Design]:
    """The design, and the design under the other rule book.

    A native design becomes ASTRA-sim's reading of it: what ASTRA-sim knows in one way only (one stream of a kind,
    endpoint delays in whole ns) is set to that, and what the design leaves out of collectives is written out in both as
    it is with `choice: none`: there is no automatic choice in ASTRA-sim. One with `compat: astra_sim` becomes the
    native reading. Whatever else the other rule book does not have is refused when it runs.
    """
    return _READINGS[design.compat](design)


def _native_reading(design: Design) -> tuple[Design, Design]:
    design = replace_all(design, _written(design.collective))
    return design, replace_all(design, {"compat": "none", "astra_sim": AstraSim()})


def _written(given: Collective) -> dict[str, object]:
    """Changes that write out the choices of `choice: auto`: ASTRA-sim chooses nothing."""
    if given.choice != "auto":
        return {}
    return {"collective.choice": "none", "collective.composition": composition_of(given),
            "collective.chunks": chunks_of(given)}


def _astra_reading(design: Design) -> tuple[Design, Design]:
    shapes = [dim.tag for dim in design.network.flat]
    given = design.collective
    silent = [op for op in CHOSEN if not getattr(given, op) and not getattr(given.custom, op)]
    lists = {f"collective.{op}": list(algorithms_of(given, op, shapes)) for op in silent}
    design = replace_all(design, {**lists, **_written(given)})
    plain = System(comm_streams="auto" if design.system.comm_streams == "auto" else 1)      # auto: 1 in ASTRA-sim
    delay = float(design.collective.endpoint_delay)
    changes: dict[str, object] = {f"system.{name}": getattr(plain, name) for name in STREAMS}
    if not delay.is_integer():
        changes["collective.endpoint_delay"] = f"{int(delay)} ns"
    return design, replace_all(design, {**changes, "compat": "astra_sim"})


_READINGS = {"none": _astra_reading, "astra_sim": _native_reading}


def explain_rules(design: Design, *, orders: int = 64, seed: int = 0) -> Explanation:
    """Split the difference between a design and its reading under the other rule book (`rule_books`) by knob and by
    rule. Raises InputError or a subclass if one of the two cannot run."""
    first, second = rule_books(design)
    cache: TraceCache = {}
    to_astra = second.compat == "astra_sim"
    rules = _rules_that_matter(second if to_astra else first, cache)
    knobs = differences(first, second)
    switches = [_switch(name, to_astra) for name in rules]

    def value(chosen: Sequence[Difference]) -> int:
        turned = {each.knob.removeprefix(PREFIX) for each in chosen if each in switches}
        held = [name for name in rules if (name in turned) == to_astra]
        design = between(first, second, [each for each in chosen if each not in switches])
        return _RUNS[design.compat](design, held, rules, cache)
    return replace(shared((*knobs, *switches), value, orders, seed), times=(times_of(first), times_of(second)))


def _switch(name: str, to_astra: bool) -> Difference:
    native, astra = RULES[name]
    return Difference(PREFIX + name, (), (native if to_astra else astra,), (astra if to_astra else native,))


def _native_run(design: Design, held: Sequence[str], _: Sequence[str], cache: TraceCache) -> int:
    if held:
        raise InputError("compat", "none has no such rule as " + held[0])
    return simulate(design, record=False, cache=cache).makespan_ps


def _astra_run(design: Design, held: Sequence[str], rules: Sequence[str], cache: TraceCache) -> int:
    """The makespan in ps under ASTRA-sim's rule book with the rules `held`, of those that matter."""
    chosen = AstraRules.only(*held, *(name for name in RULES if name not in rules and name != "group_delay"))
    work = read_work(design, cache, Kept())
    plan = lower_astra_design(design, work, rules=chosen)
    found = Result(plan, execute(plan, record=False, fold=design.fold == "auto"), work.source, ()).makespan_ps
    return found if chosen.whole_ns else found // FINER


_RUNS = {"none": _native_run, "astra_sim": _astra_run}


def _rules_that_matter(design: Design, cache: TraceCache) -> list[str]:
    """The rules that can change the makespan of this design."""
    work = read_work(design, cache, Kept())
    plan = lower_astra_design(design, work)
    phases = [phase for each in plan.collectives for chunk in each.chunks for phase in chunk.phases]
    cut = lower_astra_design(design, work, rules=AstraRules(full_chunks=False))
    delay = float(design.collective.endpoint_delay)
    matters = {
        "whole_ns": True, "full_chunks": _sizes(plan) != _sizes(cut),
        "flat_groups": len(plan.network.dims) > 1 and any(phase.local for phase in phases),
        "group_delay": any(phase.local for phase in phases) and delay != GROUPS_DELAY,
        "one_slot": any(bool(((each.kind == Kind.SEND) | (each.kind == Kind.REMOTE)).any()) for each in plan.programs)}
    if plan.policy.shared_bus is not None:      # it counts whole ns, and passes groups with a delay of their own by
        matters |= {"whole_ns": False, "group_delay": any(phase.local for phase in phases)}
    return [name for name in RULES if matters[name]]


def _sizes(plan: Plan) -> list[list[tuple[int, list[int]]]]:
    return [[(chunk.repeat, [phase.size for phase in chunk.phases]) for chunk in each.chunks]
            for each in plan.collectives]
