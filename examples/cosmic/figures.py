"""The figures of the slides as SVG, from the searches that each rests on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from drawings import Cell, Span, cells, ranges, trials
from found_designs import DESIGNS, values_of
from intervals import Interval, ratio_over_seeds
from runs import MIXES, Found
from spaces import REWARDS, SYSTEMS
from use_cases import best_designs, trying
from verdicts import CRITICAL, SINGLE, SIZES, bests_of_agents, critical_knobs, gains, over_best_single

from astrarium.report.plot.colours import ranked
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.report.plot.svg import svg_file
from astrarium.search.gains import Gains
from astrarium.search.gains import gains as gains_of

Optima = Mapping[str, float]
Values = Mapping[str, object]
SMALL = 0.05    # a factor nearer to 1 is one of "all other knobs"
ORDERS = 16     # of knobs' changes that are drawn, if more than 8 differ


def latency(found: Sequence[Found], _: Optima) -> str:
    """Time of a step over the tensor-parallel degree, a colour for each number of stages."""
    rows = list[tuple[int, float, float]]()
    for each in found:
        space = each.study.plan.space
        for trial in each.study.trials():
            if trial.verdict.values is not None:
                design = space.design(trial.point)
                bandwidth = sum(dim.bandwidth_per_npu for dim in design.network.dims)
                rows.append((design.workload.pp, float(design.workload.tp), trial.verdict.values[0] / bandwidth))
    rows.sort()
    names = [f"{pp} stage{'s' if pp > 1 else ''}" for pp, _, _ in rows]
    columns = {"colour": Column("", names), "x": Column("", [tp for _, tp, _ in rows], "count"),
               "y": Column("", [time for _, _, time in rows], "time")}
    return svg_file(Plot("Time of a step", "Each point is a design; colours are numbers of pipeline stages.",
                         (Layer("point", columns, size=18, opacity=0.6),),
                         Axis("tensor-parallel degree", "count", log=True), Axis("time of a step", "time", log=True),
                         ranked(names)))


def gain(found: Sequence[Found], _: Optima) -> str:
    """The full stack's gain over each single stack, on the three systems, under both rewards."""
    rows = []
    for system in SYSTEMS:
        over = [gains(found, reward, system=system) for reward in REWARDS]
        rows += [(f"System {system}, over {stack} alone",
                  [_span(ratio_over_seeds(list(each[stack].values()))) for each in over]) for stack in SINGLE]
    return ranges("Gain of the full stack", ["performance per bandwidth", "performance per cost"], rows,
                  "gain of the full stack, times")


def _span(interval: Interval | None) -> Span | None:
    if interval is None:
        return None
    known = math.isfinite(interval.high)
    return interval.value, interval.low if known else interval.value, interval.high if known else interval.value


def by_knob(found: Sequence[Found], _: Optima) -> str:
    """The factors by which each knob makes the full stack better than the single ones, on System 2."""
    part = [each for each in found if each.run.setup.reward == "perf_per_bandwidth" and each.run.setup.system == 2]
    parts: dict[str, list[Span | None]] = {}
    others: list[Span | None] = [None] * len(SINGLE)
    full = _best(part, "full")
    for at, stack in enumerate(SINGLE):
        own, rest = _best(part, stack), 1.0
        if full is None or own is None:
            continue
        for gain in _gains(own, full).parts:
            if abs(gain.factor - 1) < SMALL:
                rest *= gain.factor
                continue
            name, around = ", ".join(each.knob for each in gain.knobs), math.exp(1.96 * gain.error)
            parts.setdefault(name, [None] * len(SINGLE))[at] = gain.factor, gain.factor / around, gain.factor * around
        others[at] = rest, rest, rest
    rows = sorted(parts.items(), key=lambda row: -max(span[0] for span in row[1] if span))
    rows.append(("all other knobs", others))
    return ranges("Gain by knob", [f"over {stack}" for stack in SINGLE], rows, "factor of the gain")


def _best(found: Sequence[Found], stack: str) -> Found | None:
    own = [each for each in found if each.run.setup.stack == stack and each.best is not None]
    return min(own, key=lambda each: each.best or 0, default=None)


def _gains(before: Found, after: Found) -> Gains:
    first, second = (each.study.plan.space.design(each.study.plan.space.point_of(
        {axis.name: each.values[axis.name] for axis in each.study.plan.space.axes})) for each in (before, after))
    return gains_of(first, second, after.study.plan.goal, orders=ORDERS)


def scaling(found: Sequence[Found], _: Optima) -> str:
    """The full stack's gain over each single stack and over the best of them, by the number of NPUs."""
    by_size = [gains(found, "perf_per_bandwidth", npus=npus) for npus in SIZES]
    over = {**{stack: [each[stack] for each in by_size] for stack in SINGLE},
            "the best of them": [over_best_single(each) for each in by_size]}
    rows = [(f"over {name}", [_span(ratio_over_seeds(list(each.values()))) for each in ratios])
            for name, ratios in over.items()]
    return ranges("Gain by the number of NPUs", [f"{npus:,} NPUs" for npus in SIZES], rows,
                  "gain of the full stack, times")


SHORT = {"fully_connected": "FC", "ring": "ring", "switch": "switch", "halving_doubling": "halving-d.",
         "double_binary_tree": "tree", "direct": "direct"}


def designs(found: Sequence[Found], _: Optima) -> str:
    """The talk's design of each use case beside the best that was found; green: the same value."""
    best = best_designs(found)
    columns, pairs, last = list[tuple[str, str]](), list[tuple[Values, Values]](), list[Cell]()
    for use_case, design in zip(MIXES[-1:] + MIXES[:-1], DESIGNS):
        own = min((each for (name, _), each in best.items() if name == use_case), key=lambda each: each.best or 0,
                  default=None)
        name = {"multi_model": "multi-model", "inference_qa": "QA"}.get(use_case, "chat")
        columns += [(name, "talk"), (name, "found here")]
        talk = {**values_of(design, use_case), "workload.tp": math.prod(design.npus) // math.prod(design.workload)}
        pairs.append((talk, {} if own is None else own.values))
        value = None if own is None or own.best is None else trying(use_case)(talk)
        last += [("-" if own is None or value is None else f"{value / (own.best or 1):.3g}", False), ("1", False)]
    knobs = [knob for knob in dict.fromkeys(knob for pair in pairs for each in pair for knob in each)
             if not knob.startswith(("collective.all_gather", "collective.reduce_scatter"))]
    knobs.sort(key=lambda knob: not knob.startswith("workload"))
    rows = []
    for knob in knobs:
        row: list[Cell] = []
        for talk, ours in pairs:
            theirs, here = _shown(talk.get(knob)), _shown(ours.get(knob))
            row += [(theirs, False), (here, here == theirs != "-")]
        rows.append((_short(knob), row))
    rows.append(("objective over ours", last))
    return cells(columns, rows, len(rows) - 1)


def _short(knob: str) -> str:
    """A knob's name without its section; `network.dims[0]` is dim 0."""
    name = knob.partition(".")[2].removesuffix("_per_npu").replace("dims[", "dim ").replace("[", " ")
    return name.replace("]", "").replace(".", " ").replace("_", " ")


def _shown(value: object) -> str:
    return "-" if value is None else SHORT.get(str(value), str(value))


def rewards(found: Sequence[Found], optima: Optima) -> str:
    """The reward of every trial, over the proven optimum's (without one: over the best of all)."""
    part = [each for each in found if each.run.setup.reward == "perf_per_bandwidth"]
    top = optima.get("perf_per_bandwidth") or min(each.best for each in part if each.best)
    agents = dict.fromkeys(each.run.agent for each in part)
    return trials([(agent, [[top / value for value in each.objectives if math.isfinite(value)]
                            for each in part if each.run.agent == agent]) for agent in agents],
                  "reward / the proven optimum's" if optima else "reward / the best")


def consistency(found: Sequence[Found], _: Optima) -> str:
    """The values of the agents' best designs, the most important knob first; green: the most frequent value."""
    knobs = critical_knobs(found)
    bests = [each for _, own in sorted(bests_of_agents(found, "perf_per_bandwidth").items()) for each in own]
    bests.sort(key=lambda each: (each.run.agent, each.run.seed))
    rows = []
    for knob, share in knobs:
        values = [_shown(each.values.get(knob)) for each in bests]
        usual = Counter(values).most_common(1)[0][0]
        rows.append((f"{_short(knob)} ({share:.2f})", [(value, value == usual) for value in values]))
    return cells([(each.run.agent.replace("_", " "), f"seed {each.run.seed}") for each in bests], rows, CRITICAL,
                 wide=max(68.0, min(96.0, 900 / max(1, len(bests)))))
