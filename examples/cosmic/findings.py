"""The report: our tables beside the published ranges, verdicts, the published designs re-scored, what was slow."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from found_designs import placed
from recheck import rechecked
from runs import Effort, Found
from spaces import REWARDS, STACKS, SYSTEMS, Setup, base
from verdicts import FEW, FINDINGS, best_of, judged

import astrarium as ar
from astrarium.network.cost import network_bandwidth, network_cost

PUBLISHED = {"perf_per_bandwidth": "1.50-48.41x and 3.15-7.67x", "perf_per_cost": "3.94-127.17x and 3.40-38.73x"}


def report(found: Sequence[Found], planned: int, effort: Effort, preset: str, optima: Mapping[str, float],
           seconds: Callable[[], float]) -> str:
    """The whole report as Markdown. `planned`: searches, of which some may not be among `found`; `optima`: reward ->
    proven optimum of the full stack of System 2."""
    trials, slow = sum(each.trials for each in found), sum(each.slow for each in found)
    refused = sum(each.refused for each in found) - slow
    body = [*_stacks(found, preset), *_agents(found, optima), *_models(found), *_batches(found),
            *_verdicts(found), *_rechecked(found, effort),
            *(_designs(found, effort, optima) if preset == "talk" else ()), *_effort(found), *_slowest(found)]
    cpu = sum(each.cpu for each in found)
    counts = [each.trials - each.refused for each in found] or [0]
    left = planned - len(found)
    lines = ["# COSMIC's study", "",
             f"Preset `{preset}`; {len(found)} of {planned} searches, {trials} trials ({refused} refused by a model, "
             f"{slow} took more than {effort.limit:g} CPU-s and count as refused); this call took {seconds():.0f} s, "
             f"{cpu:.0f} CPU-s in searches.", "",
             *([f"**{left} searches were not run: time was over. The same command runs them.**", ""] if left else []),
             *([f"**A quick study: a search has {min(counts)} to {max(counts)} designs with a value, the more the "
                f"faster the machine is; a finding that rests on a search with less than {FEW} is undecided.**", ""]
               if effort.seconds else []),
             "Less is better in every objective (ns x GB/s, ns x US dollars); a gain is a ratio of them. Network "
             "model: `closed_form`. A gain below 1: the full search found less in its trials than the single one, or "
             "what the system has is not in the table (12.5 and 900 GB/s are not).", ""]
    return "\n".join([*lines, *body]) + "\n"


def start_of(reward: str, system: int, preset: str) -> float:
    """The objective of a system as the talk has it."""
    design = base(Setup("full", reward, system, preset=preset))
    figure = network_bandwidth if reward == "perf_per_bandwidth" else network_cost
    return ar.simulate(design, record=False).makespan_ps / 1000 * figure(design.network)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    if not rows:
        return ["Not run.", ""]
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
            *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows), ""]


def _number(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.4g}"


def _times(value: float | None, other: float | None) -> str:
    return "-" if value is None or other is None or not math.isfinite(value / other) else f"{value / other:.2f}x"


def _stacks(found: Sequence[Found], preset: str) -> Iterator[str]:
    """Full stack over each single stack."""
    yield "## Full stack over single stacks (GPT3-175B)\n"
    part, rows = [each for each in found if each.run.part in ("stacks", "agents")], []
    for reward in REWARDS:
        ratios = []
        for system in SYSTEMS:
            full = best_of(part, "full", reward, system=system)
            single = [best_of(part, stack, reward, system=system) for stack in STACKS]
            gains = [best / full for best in single[:3] if best and full]
            ratios += gains
            over = [f"{_number(best)} ({best / full:.2f}x)" if best and full else "-" for best in single]
            rows.append([reward, system, _number(start_of(reward, system, preset)), *over, _number(full)])
        if ratios:
            yield f"- {reward}: {min(ratios):.2f}-{max(ratios):.2f}x; published {PUBLISHED[reward]}"
    yield ""
    yield from _table(["reward", "system", "as it is", *STACKS, "full"], rows)


def _agents(found: Sequence[Found], optima: Mapping[str, float]) -> Iterator[str]:
    """Agents on the full stack of System 2, at the number of trials that all of them reach."""
    yield "## Agents, full stack of System 2\n"
    rows = []
    for reward in REWARDS:
        part = [each for each in found if each.run.part == "agents" and each.run.setup.reward == reward]
        least = min((each.trials for each in part), default=0)
        for agent in dict.fromkeys(each.run.agent for each in part):
            own = [each for each in part if each.run.agent == agent]
            middle = statistics.median(min(each.objectives[:least]) for each in own)
            best = min(each.best or math.inf for each in own)
            rows.append([reward, agent, len(own), least, _number(middle), _over(middle, optima.get(reward)),
                         _number(best), _over(best, optima.get(reward)), sum(each.refused for each in own)])
    yield from _table(["reward", "agent", "seeds", "trials", "median best", "over the proven optimum",
                       "best of all trials", "over the proven optimum", "refused"], rows)


def _over(value: float | None, optimum: float | None) -> str:
    return "-" if value is None or optimum is None else f"{100 * (value / optimum - 1):.1f} %"


def _batches(found: Sequence[Found]) -> Iterator[str]:
    """GPT3-175B's (and others') batches at 2,048 NPUs."""
    part = [each for each in found if each.run.part == "batches"]
    yield "## Batches at 2,048 NPUs (performance per bandwidth)\n"
    rows = []
    for model, batch in dict.fromkeys((each.run.setup.model, each.run.setup.batch) for each in part):
        workload, full = (best_of(part, stack, "perf_per_bandwidth", model=model, batch=batch)
                          for stack in ("workload", "full"))
        gain = "-" if workload is None or full is None else f"{workload / full:.2f}x"
        rows.append([model, batch, _number(workload), _number(full), gain])
    yield from _table(["model", "batch", "workload stack", "full stack", "gain"], rows)


def _effort(found: Sequence[Found]) -> Iterator[str]:
    """What every search had."""
    yield "## Trials of every search\n"
    yield from _table(["search", "part", "trials", "of at most", "refused", "slow", "wall s of this call"],
                      [[each.run.file.removesuffix(".study"), each.run.part, each.trials, each.run.trials,
                        each.refused - each.slow, each.slow, f"{each.wall:.1f}"] for each in found])


def _models(found: Sequence[Found]) -> Iterator[str]:
    """Best designs of the other workloads and of the mixes."""
    yield "## Other workloads, sizes and mixes\n"
    rows = [[each.run.setup.name, each.run.agent, each.run.seed, each.trials, each.refused, _number(each.best)]
            for each in found if each.run.part in ("models", "mixes", "scaling")]
    yield from _table(["search", "agent", "seed", "trials", "refused", "best"], rows)


def _verdicts(found: Sequence[Found]) -> Iterator[str]:
    yield "## Published findings\n"
    yield ("Values are means over seeds, with their 95 % interval. A claim is undecided if its interval spans it, or "
           "if the mean after half of the trials is on its other side.\n")
    yield from _table(["finding", "verdict", "reason"],
                      [[text, *judged(finding, found)] for text, finding in FINDINGS.items()])


def _designs(found: Sequence[Found], effort: Effort, optima: Mapping[str, float]) -> Iterator[str]:
    yield "## The three published designs\n"
    yield "Each in the experiment that found it, and (`full`) for training GPT3-175B, whose optimum can be proved.\n"
    rows = []
    for each in placed(found, max(10, effort.limit)):
        proven = optima.get(each.reward) if each.experiment == "full" else None
        rows.append([each.name, each.experiment, each.reward,
                     each.problem if each.value is None else _number(each.value),
                     f"{each.percent:.0f} % of {each.samples}" if each.samples else "-", _number(each.best),
                     _times(each.value, each.best), _over(each.value, proven)])
    yield from _table(["design", "experiment", "reward", "objective", "better than, of uniform samples",
                       "best found here", "over it", "over the proven optimum"], rows)


def _rechecked(found: Sequence[Found], effort: Effort) -> Iterator[str]:
    yield "## The ten best designs on `contention`\n"
    yield ("Full stack of System 2. A ratio far from 1: a fault of the network model was found rather than a design. A "
           f"design may take {effort.recheck:g} CPU-s.\n")
    rows = [[each.reward, each.search, each.trial, _number(each.value),
             each.problem or _number(each.contention), _times(each.contention, each.value)]
            for each in rechecked(found, effort.recheck)]
    yield from _table(["reward", "search", "trial", "closed_form", "contention", "ratio"], rows)


def _slowest(found: Sequence[Found]) -> Iterator[str]:
    """The slowest trials: designs that do not fold."""
    yield "## Slowest trials\n"
    every = [(trial.verdict.seconds, each.run.file, trial.number, trial.verdict.problem) for each in found
             for trial in each.study.trials() if trial.same_as is None]
    yield from _table(["wall s", "study", "trial", "problem"],
                      [[f"{seconds:.2f}", *rest] for seconds, *rest in sorted(every, reverse=True)[:10]])
