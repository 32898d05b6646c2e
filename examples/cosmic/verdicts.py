"""A verdict with its reason on each published finding.

A finding is one claim or several, each about a value per seed. A claim holds, or does not hold, if

- the 95 % interval over seeds is wholly on one side of it, and
- the mean after half of each search's trials is on that side, too: else the searches are too short to tell.

Everything else is undecided, as is a finding that rests on a search with few designs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from intervals import Claim, Interval, over_seeds, points, ratio_over_seeds, summed_up
from runs import Found
from spaces import REWARDS, STACKS, SYSTEMS
from use_cases import losses

from astrarium import InputError
from astrarium.search.analysis import knob_importances

FEW = 32        # designs with a value, below which a search says nothing about what there is to find
CLEAR = 1.05    # what differs by less is alike
APART = 0.05    # what differs by fewer shares of the knobs is alike
FLAT = 1.25     # a curve that changes by less is flat
SINGLE = STACKS[:3]
CRITICAL = 5    # knobs
SIZES = (512, 1024, 2048)
Verdict = tuple[str, str]


@dataclass(frozen=True)
class Finding:
    """The claims of a finding, and the part of the study that it rests on; of its stacks, those named (none: all)."""

    claims: Callable[[Sequence[Found]], Sequence[Claim]]
    part: str
    stacks: tuple[str, ...] = ()

    def rests_on(self, each: Found) -> bool:
        """Whether a search is one of those that it rests on, and could have enough designs."""
        run = each.run
        return run.part == self.part and run.trials >= FEW and (not self.stacks or run.setup.stack in self.stacks)


def judged(finding: Finding, found: Sequence[Found]) -> Verdict:
    """The verdict and its reason."""
    own = [each for each in found if finding.rests_on(each)]
    claims = finding.claims(own)
    if not claims:
        return "not run", "its searches are missing"
    early = {claim.name: claim.side for claim in finding.claims([each.half for each in own])}
    verdicts = [claim.verdict if early.get(claim.name) == claim.side else "undecided" for claim in claims]
    reason = "; ".join(claim.text + (" (not yet so after half of the trials)" if claim.verdict != verdict else "")
                       for claim, verdict in zip(claims, verdicts))
    least = min(own, key=lambda each: each.trials - each.refused)
    if least.trials - least.refused < FEW:
        return "undecided", f"{reason}; {least.run.file.removesuffix('.study')} has {least.trials - least.refused} " \
            f"designs with a value, and {FEW} are needed"
    return summed_up(verdicts), reason


def best_of(found: Sequence[Found], stack: str, reward: str, **wanted: object) -> float | None:
    """The best objective among runs of a stack under a reward."""
    return min(best_by_seed(found, stack, reward, **wanted).values(), default=None)


def best_by_seed(found: Sequence[Found], stack: str, reward: str, **wanted: object) -> dict[int, float]:
    """Seed -> the best objective of a stack under a reward."""
    values: dict[int, float] = {}
    for each in found:
        setup = each.run.setup
        if each.best is not None and (setup.stack, setup.reward) == (stack, reward) \
                and all(getattr(setup, key) == value for key, value in wanted.items()):
            values[each.run.seed] = min(each.best, values.get(each.run.seed, math.inf))
    return values


def gains(found: Sequence[Found], reward: str, **wanted: object) -> dict[str, dict[int, float]]:
    """Single stack -> seed -> how much better the best design of the full stack is."""
    full = best_by_seed(found, "full", reward, **wanted)
    return {stack: {seed: best / full[seed] for seed, best in best_by_seed(found, stack, reward, **wanted).items()
                    if seed in full} for stack in SINGLE}


def over_best_single(ratios: Mapping[str, Mapping[int, float]]) -> dict[int, float]:
    """Seed -> the gain over the best of the single stacks, where all of them were searched."""
    seeds = set.intersection(*(set(each) for each in ratios.values()))
    return {seed: min(each[seed] for each in ratios.values()) for seed in sorted(seeds)}


def _claims(named: Mapping[str, Sequence[float]], least: float, most: float = math.inf) -> list[Claim]:
    """A claim on each ratio that some seed has."""
    found = [(name, ratio_over_seeds(ratios)) for name, ratios in named.items()]
    return [Claim(name, interval, least, most) for name, interval in found if interval is not None]


def _cases() -> list[tuple[str, str, int]]:
    return [(f"system {system} {reward.removeprefix('perf_per_')}", reward, system)
            for reward in REWARDS for system in SYSTEMS]


def full_stack_wins(found: Sequence[Found]) -> Sequence[Claim]:
    """Full stack over each single stack."""
    return _claims({f"{name} over {stack}": list(by_seed.values()) for name, reward, system in _cases()
                    for stack, by_seed in gains(found, reward, system=system).items()}, CLEAR)


def highest_gain_from_workload(found: Sequence[Found]) -> Sequence[Claim]:
    """The workload stack over the better of the collective and the network stack."""
    named = {}
    for name, reward, system in _cases():
        best = [best_by_seed(found, stack, reward, system=system) for stack in SINGLE]
        named[name] = [min(best[1][seed], best[2][seed]) / best[0][seed] for seed in sorted(set.intersection(
            *map(set, best)))]
    return _claims(named, CLEAR)


def bests_of_agents(found: Sequence[Found], reward: str) -> dict[int, list[Found]]:
    """Seed -> searches of the agents that learn, which found something."""
    bests: dict[int, list[Found]] = {}
    for each in found:
        if each.run.setup.reward == reward and each.values and each.run.agent != "random":
            bests.setdefault(each.run.seed, []).append(each)
    return {seed: own for seed, own in bests.items() if len(own) > 1}


def agreement(bests: Sequence[Found], knobs: Sequence[str]) -> float:
    """The share of knobs, over pairs of best designs, that have the same value in both."""
    return statistics.mean(one.values.get(knob) == other.values.get(knob) for place, one in enumerate(bests)
                           for other in bests[:place] for knob in knobs)


def diverse_under_cost(found: Sequence[Found]) -> Sequence[Claim]:
    """Two agents' best designs differ in more knobs under cost than under bandwidth, from the same seed."""
    bandwidth, cost = (bests_of_agents(found, reward) for reward in REWARDS)
    shares = {seed: [1 - agreement(bests[seed], list(bests[seed][0].values)) for bests in (bandwidth, cost)]
              for seed in sorted(set(bandwidth) & set(cost))}
    interval = over_seeds([after - before for before, after in shares.values()])
    if interval is None:
        return ()
    before, after = (100 * statistics.mean(each[place] for each in shares.values()) for place in (0, 1))
    return [Claim("diverse", interval, APART, shown=points, said=f"two agents' bests differ in {after:.0f} % of the "
                  f"knobs under cost, in {before:.0f} % under bandwidth:")]


def grows_with_size(found: Sequence[Found]) -> Sequence[Claim]:
    """The growth per doubling of the full stack's gain over the best single stack, for System 2 at three sizes."""
    by_size = [over_best_single(gains(found, "perf_per_bandwidth", npus=npus)) for npus in SIZES]
    seeds = sorted(set.intersection(*map(set, by_size)))
    typical = [ratio_over_seeds([each[seed] for seed in seeds]) for each in by_size]
    growth = ratio_over_seeds([math.sqrt(by_size[2][seed] / by_size[0][seed]) for seed in seeds])
    said = ", ".join(f"{each.value:.2f}x" for each in typical if each)
    return () if growth is None else [Claim("growth", growth, CLEAR, said=f"full over best single stack {said} at 512, "
                                            "1,024, 2,048 NPUs; growth per doubling")]


def random_flat_others_learn(found: Sequence[Found]) -> Sequence[Claim]:
    """Random: its typical trial in the first quarter over that in the last. Others: the typical trial of the random
    walk from the same seed over theirs in their last quarter."""
    ways: dict[str, list[float]] = {}
    for each in found:
        drawn = [other for other in found if other.run.agent == "random"
                 and (other.run.setup, other.run.seed) == (each.run.setup, each.run.seed)]
        own = _finite(each)
        if len(own) < 16 or not drawn:
            continue
        quarter = len(own) // 4
        before = own[:quarter] if each.run.agent == "random" else _finite(drawn[0])
        ways.setdefault(each.run.agent, []).append(statistics.median(before) / statistics.median(own[-quarter:]))
    flat = {"random, first quarter over last": ways.pop("random", [])}
    return [*_claims(flat, 1 / FLAT, FLAT),
            *_claims({f"{agent}'s last quarter better than random by": way for agent, way in ways.items()}, FLAT)]


def _finite(each: Found) -> list[float]:
    return [value for value in each.objectives if math.isfinite(value)]


def critical_knobs(found: Sequence[Found]) -> list[tuple[str, float]]:
    """(knob, importance), the most important first, by permutation importance on all trials under
    performance/bandwidth; empty where there are too few."""
    part = [each.study for each in found if each.run.setup.reward == "perf_per_bandwidth"]
    try:
        return [(each.knob, each.share) for each in knob_importances(part)[1]] if part else []
    except InputError:
        return []


def agree_on_critical_knobs(found: Sequence[Found]) -> Sequence[Claim]:
    """The agents' best designs, from the same seed, share more of the critical knobs' values than of the others'."""
    knobs = [name for name, _ in critical_knobs(found)]
    bests = bests_of_agents(found, "perf_per_bandwidth")
    if not knobs or not bests:
        return ()
    shares = [[agreement(own, part) for part in (knobs[:CRITICAL], knobs[CRITICAL:])] for own in bests.values()]
    interval = over_seeds([first - rest for first, rest in shares])
    first, rest = (100 * statistics.mean(each[place] for each in shares) for place in (0, 1))
    assert interval is not None
    return [Claim("critical", interval, APART, shown=points, said=f"two agents' bests share {first:.0f} % of the "
                  f"values of the {CRITICAL} most important knobs ({', '.join(knobs[:CRITICAL])}), {rest:.0f} % of the "
                  "others':")]


def latency_spread(found: Sequence[Found]) -> Sequence[Claim]:
    """GPT3-175B on System 2: slowest over fastest of the workload knobs alone; exact once every workload has run."""
    good = [value for each in found for value in _finite(each)]
    if len(good) < 2:
        return ()
    spread = max(good) / min(good)
    known = all(each.trials == each.study.plan.space.count for each in found)
    return [Claim("spread", Interval(spread, spread if known else 0.0, spread if known else math.inf, 1), 2.0,
                  said=f"slowest over fastest of {len(good)} workloads")]


def own_designs(found: Sequence[Found]) -> Sequence[Claim]:
    """The best design of another use case, over the use case's own best."""
    return _claims({f"{use_case} with the design for {other}": ratios for (use_case, other), ratios in
                    losses(found).items()}, CLEAR)


FINDINGS = {
    "GPT3-175B's latency spreads widely over workload knobs alone": Finding(latency_spread, "spread"),
    "Full-stack search beats every single-stack search": Finding(full_stack_wins, "stacks", (*SINGLE, "full")),
    "The workload stack gives the highest gains": Finding(highest_gain_from_workload, "stacks", SINGLE),
    "The value of full-stack search grows with system size": Finding(grows_with_size, "scaling"),
    "Each use case wants a design of its own": Finding(own_designs, "mixes"),
    "The random walk's curve stays flat, the other agents learn": Finding(random_flat_others_learn, "agents"),
    "Agents agree on the critical knobs and vary in the others": Finding(agree_on_critical_knobs, "agents"),
    "Optimising for cost leads to diverse choices": Finding(diverse_under_cost, "agents"),
}
"""Finding (published, the authors' talk) -> how it is judged."""
