"""A verdict with its reason on each published finding. Each takes the runs and gives (holds, reason); one that rests on
too small a search is undecided."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runs import Found
from spaces import REWARDS, STACKS, SYSTEMS, Setup, base

import astrarium as ar
from astrarium import InputError
from astrarium.cost import network_bandwidth, network_cost
from astrarium.search.analysis import knob_importances

FEW = 32        # designs with a value, below which a search says nothing about what there is to find
CLEAR = 1.05    # what differs by less is alike
Verdict = tuple[str, str]


@dataclass(frozen=True)
class Finding:
    """How a finding is judged, and the part of the study that it rests on; of its stacks, those named (none: all)."""

    judge: Callable[[Sequence[Found], str], Verdict]
    part: str
    stacks: tuple[str, ...] = ()

    def rests_on(self, each: Found) -> bool:
        """Whether a search is one of those that it rests on, and could have enough designs."""
        run = each.run
        return run.part == self.part and run.trials >= FEW and (not self.stacks or run.setup.stack in self.stacks)


def judged(finding: Finding, found: Sequence[Found], preset: str) -> Verdict:
    """The verdict; `undecided` where one of its searches has too few designs with a value, of those there are."""
    verdict, reason = finding.judge(found, preset)
    least = min(filter(finding.rests_on, found), key=lambda each: each.trials - each.refused, default=None)
    if verdict == "not run" or least is None or least.trials - least.refused >= FEW:
        return verdict, reason
    run, has = least.run, least.trials - least.refused
    return f"undecided ({verdict} as far as it goes)", \
        f"{reason}; {run.setup.name}-{run.agent}-{run.seed} has {has} designs with a value, and {FEW} are needed"


def best_of(found: Sequence[Found], stack: str, reward: str, **wanted: object) -> float | None:
    """The best objective among runs of a stack under a reward."""
    values = [each.best for each in found if each.best is not None and each.run.setup.stack == stack
              and each.run.setup.reward == reward
              and all(getattr(each.run.setup, key) == value for key, value in wanted.items())]
    return min(values) if values else None


def start_of(reward: str, system: int, preset: str) -> float:
    """The objective of a system as the talk has it."""
    design = base(Setup("full", reward, system, preset=preset))
    figure = network_bandwidth if reward == "perf_per_bandwidth" else network_cost
    return ar.simulate(design, record=False).makespan_ps / 1000 * figure(design.network)


def highest_gain_from_workload(found: Sequence[Found], preset: str) -> Verdict:
    """The workload stack alone gains most over the system as it is."""
    part = [each for each in found if each.run.part == "stacks"]
    won, said = 0, []
    for system in SYSTEMS:
        for reward in REWARDS:
            start = start_of(reward, system, preset)
            gains = {stack: start / best for stack in STACKS[:3]
                     if (best := best_of(part, stack, reward, system=system)) is not None}
            if len(gains) == 3:
                top = max(gains, key=lambda stack: gains[stack])
                won += top == "workload"
                said.append(f"system {system} {reward}: "
                            + ", ".join(f"{stack} {gain:.2f}x" for stack, gain in gains.items()))
    return _share(won, len(said)), "; ".join(said)


def _share(held: int, cases: int) -> str:
    if not cases:
        return "not run"
    return "holds" if held == cases else "does not hold" if held == 0 else f"holds in {held} of {cases}"


def _clearly(ratio: float, alike: str) -> str:
    return "holds" if ratio > CLEAR else "does not hold" if ratio < 1 / CLEAR else alike


def diverse_under_cost(found: Sequence[Found], _: str) -> Verdict:
    """Best designs of agents and seeds differ more under cost than under bandwidth."""
    shares = {}
    for reward in REWARDS:
        points = [each.values for each in found if each.run.part == "agents" and each.run.setup.reward == reward
                  and each.values and each.run.agent != "random"]
        pairs = [(one, two) for place, one in enumerate(points) for two in points[:place]]
        if pairs:
            shares[reward] = statistics.mean(statistics.mean(one[knob] != two[knob] for knob in one)
                                             for one, two in pairs)
    if len(shares) < 2:
        return "not run", "needs two bests under each reward"
    bandwidth, cost = shares["perf_per_bandwidth"], shares["perf_per_cost"]
    return _clearly(cost / bandwidth if bandwidth else math.inf, "no difference"), \
        f"two bests differ in {100 * cost:.0f} % of the knobs under cost, in {100 * bandwidth:.0f} % under bandwidth"


def grows_with_size(found: Sequence[Found], _: str) -> Verdict:
    """Full stack over the best single stack, for System 2 at three sizes."""
    part, gains = [each for each in found if each.run.part == "scaling"], {}
    for npus in (512, 1024, 2048):
        full = best_of(part, "full", "perf_per_bandwidth", npus=npus)
        single = [best for stack in STACKS[:3]
                  if (best := best_of(part, stack, "perf_per_bandwidth", npus=npus)) is not None]
        if full and single:
            gains[npus] = min(single) / full
    if len(gains) < 3:
        return "not run", "needs all three sizes"
    steps = [gains[1024] / gains[512], gains[2048] / gains[1024]]
    return _clearly(gains[2048] / gains[512] if min(steps) > 1 / CLEAR else 0, "stays the same"), \
        "full stack over best single stack: " + ", ".join(f"{npus} NPUs {gain:.2f}x" for npus, gain in gains.items())


def random_flat_others_learn(found: Sequence[Found], _: str) -> Verdict:
    """The typical trial of the last quarter against that of the first; above 1: it became better."""
    ways: dict[str, list[float]] = {}
    for each in found:
        good = [value for value in each.objectives if math.isfinite(value)]
        if each.run.part == "agents" and len(good) >= 16:
            quarter = len(good) // 4
            ways.setdefault(each.run.agent, []).append(
                statistics.median(good[:quarter]) / statistics.median(good[-quarter:]))
    if "random" not in ways or len(ways) < 2:
        return "not run", "needs the random walk and another agent"
    typical = {agent: statistics.median(way) for agent, way in ways.items()}
    flat = abs(math.log(typical["random"])) < math.log(1.25)
    learn = all(value > 1.25 for agent, value in typical.items() if agent != "random")
    return ("holds" if flat and learn else "holds in part" if flat or learn else "does not hold"), \
        "median trial, first quarter over last: " + ", ".join(f"{agent} {way:.2f}" for agent, way in typical.items())


def agree_on_critical_knobs(found: Sequence[Found], _: str) -> Verdict:
    """Agents' bests agree on the knobs that matter, by permutation importance on all trials, and not on others."""
    part = [each for each in found if each.run.part == "agents" and each.run.setup.reward == "perf_per_bandwidth"]
    bests = [each.values for each in part if each.values and each.run.agent != "random"]
    try:
        model_and_order = knob_importances([each.study for each in part]) if part else None
    except InputError as error:
        return "not run", str(error)
    if model_and_order is None or len(bests) < 2:
        return "not run", "needs two bests"
    knobs = [name for name, _ in model_and_order[1]]
    agreement = {knob: max(sum(best[knob] == each[knob] for each in bests) for best in bests) / len(bests)
                 for knob in knobs}
    first, rest = (statistics.mean(agreement[knob] for knob in part_) for part_ in (knobs[:5], knobs[5:]))
    return ("holds" if first > rest else "does not hold"), \
        f"of {len(bests)} bests {100 * first:.0f} % share a value in the five knobs that matter most " \
        f"({', '.join(knobs[:5])}), {100 * rest:.0f} % in the others"


def latency_spread(found: Sequence[Found], _: str) -> Verdict:
    """GPT3-175B on System 2: slowest over fastest of the workload knobs alone."""
    good = [value for each in found if each.run.part == "spread" for value in each.objectives if math.isfinite(value)]
    if len(good) < 2:
        return "not run", "no trials"
    return ("holds" if max(good) > 2 * min(good) else "does not hold"), \
        f"{max(good) / min(good):.1f}x between the slowest and the fastest of {len(good)} workloads"


FINDINGS = {
    "The workload stack gives the highest gains": Finding(highest_gain_from_workload, "stacks", STACKS[:3]),
    "Optimising for cost leads to diverse choices": Finding(diverse_under_cost, "agents"),
    "The value of full-stack search grows with system size": Finding(grows_with_size, "scaling"),
    "The random walk's curve stays flat, the other agents learn": Finding(random_flat_others_learn, "agents"),
    "Agents agree on the critical knobs and vary in the others": Finding(agree_on_critical_knobs, "agents"),
    "GPT3-175B's latency spreads widely over workload knobs alone": Finding(latency_spread, "spread"),
}
"""Finding (published, the authors' talk) -> how it is judged."""
