"""A ServingPlan as the tables that `astrarium plan --for serving` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astrarium.planner.serving.explore import Lost, Trial
from astrarium.planner.serving.goal import Goal
from astrarium.planner.serving.routed import Routed
from astrarium.planner.serving.shortlist import Line, ServingPlan
from astrarium.report.tables.interval import interval_remarks
from astrarium.report.tables.table import Table, count_text
from astrarium.units import format_time

__all__ = ["HEAD", "answer_of", "found_so_far", "front_table", "head_of", "row_of", "serving_plan_remarks",
           "serving_plan_tables"]

KINDS = {"memory": "too large for the memory", "limits": "the limits do not hold at any rate",
         "ceiling": "with a ceiling below the last line",
         "probe": "do not reach the last line", "slower": "behind the last line", "unknown": "cannot be predicted"}
HEAD = ("", "engine", "format", "engines", "NPUs", "requests/s")
MONEY = {"cost_per_mega_tokens": "$/10^6 tok", "energy_per_mega_tokens": "J/tok",
         "carbon_per_mega_tokens": "kg CO2/10^6 tok"}
AMOUNTS = {"energy_per_mega_tokens": 10**6}     # tokens that the table's column is not of
SHOWN = 3
DIFFERENT = "their times come from different models, whose errors are not the same"


def head_of(found: ServingPlan) -> tuple[str, ...]:
    """The columns."""
    return (*HEAD, *(f"{each.metric.upper()} {each.statistic}" for each in found.service.slo.limits), "tok/s/NPU",
            "tok/s/user", "cache used", *(title for name, title in MONEY.items() if _known(found, name)))


def _known(found: ServingPlan, name: str) -> bool:
    """Whether a column is shown: what is known; CO2 if it ranks engines."""
    return any(name in line.money for line in found.lines) and ("carbon" not in name or "CO2" in found.goal.unit)


def row_of(place: str, line: Line, found: ServingPlan) -> tuple[str, ...]:
    """Cells of a line under the head."""
    engine, several = line.trial.candidate.engine, len({each.device for each in found.lines}) > 1
    name = f"{line.device}: {engine.words}" if several else engine.words
    if len({each.trial.candidate.engine.tokens for each in found.lines}) > 1:
        name += f", steps of {engine.tokens:,}"
    limits = [format_time(each.of(line.served)) for each in found.service.slo.limits]
    return (place + (" ~" if line.tie else ""), name, engine.format, f"{line.engines:,}", f"{line.npus:,}",
            count_text(line.load * line.engines), *limits, count_text(line.tokens), count_text(line.user),
            f"{100 * float(line.figures.get('cache_use_most', 0.0)):.0f} %",
            *(f"{line.money[name] / AMOUNTS.get(name, 1):,.3g}" if name in line.money else ""
              for name in MONEY if _known(found, name)))


def serving_plan_tables(found: ServingPlan) -> Iterator[Table]:
    """What was asked, the engines, why the others lost, loads of all, and what was assumed."""
    service, goal = found.service, found.goal
    devices = " or ".join(dict.fromkeys(line.device for line in found.lines))
    title = (f"{service.name} {goal.text} ({devices}): {service.mix.words}, within {service.slo}\n"
             + "\n".join(f"predicted with {text}" for text in found.models))
    every = [*((str(place), line) for place, line in enumerate(found.lines, 1)),
             *([("now", found.today)] if found.today is not None else [])]
    rows = [row_of(place, line, found) for place, line in every]
    title += f"\n{answer_of(found)}" if goal.rate is not None else ""
    yield Table(title, "<<<" + ">" * (len(head_of(found)) - 3), rows, head_of(found))
    yield _spans(every, found)
    if found.routed is not None:
        yield Table(_routed(found.routed, found.goal, found.best.trial.candidate.engine.npus), "", ())
    lost = [(place, line.lost) for place, line in every if line.lost]
    if lost:
        yield Table("beside 1", "<<", lost)
    if found.today is not None:
        yield _changes(found.today, found.best)
    yield front_table(found)
    yield Table("\n".join(serving_plan_remarks(found)), "", ())


def answer_of(found: ServingPlan) -> str:
    """How many GPUs to take for a rate: those of line 1, their interval, and how many are enough behind a router."""
    line, goal = found.best, found.goal
    engine = line.trial.candidate.engine
    span = f" ({_span(line, goal)}: the interval)" if line.span else ""
    few = _behind_router(found)
    return (f"take {line.npus:,} x {line.device}{span}: {line.engines:,} engines of {engine.words}, {engine.format}"
            + (f"; {few:,} if a router sends each request to the engine with the fewest" if few < line.npus else ""))


def _behind_router(found: ServingPlan) -> int:
    """GPUs that are enough behind a router; those of line 1 where none was served."""
    npus = found.best.trial.candidate.engine.npus
    return found.best.npus if found.routed is None else \
        found.goal.engines(npus, found.routed.fewest / found.routed.engines) * npus


def _changes(today: Line, best: Line) -> Table:
    """What to change, and what that gives."""
    before, after = (each.trial.candidate.engine.plain for each in (today, best))
    gain = best.trial.rate / best.trial.candidate.engine.npus / (
        today.trial.rate / today.trial.candidate.engine.npus)
    rows = [(name, str(before[name]), str(after[name])) for name in after if before[name] != after[name]]
    if not rows or gain <= 1:
        return Table("no engine that was compared serves more requests of a GPU than today's", "", ())
    return Table(f"to change: {gain:.2f} x as many requests of a GPU", "<>>", rows, ("", "now", "1"))


def _spans(every: Sequence[tuple[str, Line]], found: ServingPlan) -> Table:
    """The interval of each line's rate, or of its GPUs for a rate; whether it is undecided if the first is better."""
    about = [*interval_remarks((line.within for _, line in every), (place for place, _ in every)),
             *([f"undecided between devices: {DIFFERENT}"] if len(found.models) > 1 else [])]
    if not any(line.span for _, line in every):
        return Table("\n".join(about), "", ())
    rows = [(place, _span(line, found.goal), "undecided against 1" if line.tie else "") for place, line in every]
    return Table("\n".join(about), "<<<", rows)


def _routed(routed: Routed, goal: Goal, npus: int) -> str:
    """What a router gives, and how many NPUs it needs."""
    text = (f"behind a router, each request to the engine with the fewest: {routed.fewest:,.4g} requests/s of "
            f"{routed.engines} engines of line 1; with shares at random, as above, {routed.at_random:,.4g}")
    if goal.rate is None:
        return text
    return f"{text}; then {goal.engines(npus, routed.fewest / routed.engines) * npus:,} GPUs are enough"


def _span(line: Line, goal: Goal) -> str:
    """Requests/s of an engine, or GPUs where a rate is asked for."""
    if line.span is None:
        return ""
    if goal.rate is None:
        return f"{line.span[0]:,.3g} to {line.span[1]:,.3g} requests/s an engine"
    npus = line.trial.candidate.engine.npus
    low, high = (goal.engines(npus, rate) * npus for rate in reversed(line.span))
    return f"{low:,} to {high:,} GPUs"


def front_table(found: ServingPlan) -> Table:
    """Loads of the lines that no other load exceeds in tokens/s of a user and of an NPU."""
    rows = [(count_text(point.user), count_text(point.npu), str(place),
             found.lines[place - 1].trial.candidate.engine.format, "" if point.holds else "beyond the limits")
            for place, point in found.front]
    return Table("loads that no other exceeds in both", ">><<<", rows, ("tok/s/user", "tok/s/NPU", "line", "", ""))


def found_so_far(done: int, candidates: int, trials: Sequence[Trial]) -> Table:
    """The best engines before all are looked at."""
    rows = [(trial.candidate.machine.device, trial.candidate.engine.words, trial.candidate.engine.format,
             count_text(trial.rate), count_text(trial.rate / trial.candidate.engine.npus)) for trial in trials]
    return Table(f"so far ({done:,} of {candidates:,} engines looked at)", "<<<>>", rows,
                 ("", "engine", "format", "requests/s an engine", "requests/s and NPU"))


def serving_plan_remarks(found: ServingPlan) -> Iterator[str]:
    """How many engines lost and why, the rules, what was assumed."""
    counts = ", ".join(f"{count:,} {KINDS[kind]}" for kind, count in found.reasons.items())
    yield f"{found.candidates:,} engines" + (f": {counts}" if counts else "") + \
        f"; {found.simulated:,} streams served"
    for kind in ("memory", "limits", "unknown"):
        yield from (f"  {_lost(each)}" for each in [each for each in found.lost if each.kind == kind][:SHOWN])
    kept, lifted = ([each for each in found.rules if bool(each.lifted) is which] for which in (False, True))
    if kept:
        yield "rules that leave out engines (to lift one: --lift NAME, or --fix with a value that it forbids):"
        yield from (f"  {each.rule.name}: {each.rule.text}" for each in kept)
    if lifted:
        yield "lifted: " + ", ".join(f"{each.rule.name} ({each.lifted})" for each in lifted)
    if found.assumed:
        yield "assumed:"
        yield from (f"  {text}" for text in found.assumed)


def _lost(each: Lost) -> str:
    return f"{each.engine.words}, {each.engine.format}: {each.why}"
