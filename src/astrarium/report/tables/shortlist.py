"""A Shortlist as the tables that `astrarium plan` prints."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import cast

from astrarium.cost import FIGURES
from astrarium.cost.assumed import price_hint
from astrarium.cost.interval import tied
from astrarium.planner.breakdown import AXES
from astrarium.planner.explore import Progress
from astrarium.planner.rules import UNEVEN_PARTS
from astrarium.planner.shortlist import Line, OfEp, Shortlist
from astrarium.report.tables.figures import SCORES
from astrarium.report.tables.interval import interval_remarks, span, tie_words
from astrarium.report.tables.table import Table
from astrarium.report.tables.today import changes, no_gain, single_changes, verdict
from astrarium.units import format_bytes, format_time
from astrarium.workload.flops import executed_flops, model_flops
from astrarium.workload.transformer import Transformer

__all__ = ["HEAD", "candidates", "caution", "first_table", "intervals", "remarks", "row_of", "shortlist_tables"]

SHORT = {"cost_per_tera_tokens": "10^12 tokens", "owned_cost_per_tera_tokens": "10^12 tokens", "cost_per_hour": "hour",
         "training_cost": "training run", "capital_cost": "bought for", "power_peak": "power at most",
         "npu_hours": "GPU-hours", "npu_hours_per_tera_tokens": "GPU-hours of 10^12",
         "energy_per_tera_tokens": "energy of 10^12", "carbon_per_tera_tokens": "CO2 of 10^12"}
OWNED = "owned_cost_per_tera_tokens"
PRICES = (OWNED, "cost_per_tera_tokens")
ALIKE = 1.005   # of two peaks of memory
MASKED = 0.9    # HFU of MFU, below which the table says why
SCALED = "scaled to the measured step, as the steps are (how well that predicts other layouts was not measured)"
LIMITED = (">=: measured collectives that run at once do not slow each other; the step is how long they need a port at "
           "the data sheet's rate, which is longer than the run (--collectives simulated shares ports)")
HEAD = ("", "layout", "memory", "step", "MFU", "tok/s/NPU", "recompute", "exposed comm", "bubble")


def shortlist_tables(found: Shortlist) -> Iterator[Table]:
    """Of a job that runs, the verdict; what was asked, the layouts, why the others are slower, and how far the proof
    goes."""
    if found.today is not None:
        yield Table("\n".join(verdict(found.today, found)), "", ())
    devices = list(dict.fromkeys(line.device for line in found.lines))
    several = len(devices) > 1 or len(found.counts) > 1
    title = f"{found.model} on {counted(found)} x {' or '.join(devices)}: {found.tokens:,} tokens a step\n" + "\n".join(
        f"predicted with {text}" for text in found.models) + " (to change: --compute, --collectives, --stack)"
    title += "".join(f"\nnote: {text}" for text in found.notes)
    if found.objective.name != "time":
        title += f"\nby {found.objective.name} of 10^12 tokens, least first"
    rows = [row_of(str(place), line, several, found.factor) for place, line in enumerate(found.lines, 1)]
    if found.today is not None:
        rows.append(row_of("now", found.today, several, found.factor))
    yield Table(title, "<<" + ">" * (len(HEAD) - 2), rows, HEAD)
    if any(line.figures for line in found.lines):
        yield money(found)
    if found.candidates:
        yield candidates(found)
    yield intervals(found)
    if found.per_ep:
        yield of_each_ep(found)
    lost = [(str(place), line.lost) for place, line in enumerate(found.lines, 1) if line.lost]
    if found.today is not None:
        lost.append(("now", found.today.lost))
    if lost:
        yield Table("slower than 1 by (the sum of parts, mean over NPUs, in % of the step of 1)"
                    if found.objective.name == "time" else "more than 1 by", "<<", lost)
    if found.today is not None:
        yield from (each for each in (single_changes(found.today, found), no_gain(found) if found.no_gain else None,
                                      changes(found.today, found)) if each is not None)
    yield Table("\n".join(remarks(found)), "", ())


def counted(found: Shortlist) -> str:
    """The counts of NPUs that were compared."""
    counts = sorted(found.counts or (found.npus,))
    return f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"


def money(found: Shortlist) -> Table:
    """Figures of cost of every line."""
    every = [(str(place), line) for place, line in enumerate(found.lines, 1)]
    every += [] if found.today is None else [("now", found.today)]
    names = [name for name in FIGURES if any(name in line.figures for _, line in every)]
    head = ["", "NPUs"]
    columns = [[place for place, _ in every], [f"{line.npus:,}" for _, line in every]]
    for name in names:
        head.append(SHORT.get(name, name))
        columns.append([_figure(line, name) for _, line in every])
        if name in PRICES:
            head.append("interval")
            columns.append([span(line.within, name, line.figures.get(name, math.nan)) for _, line in every])
        if name == OWNED and any(line.rented for _, line in every):
            head[-2:] = ["10^12 tokens, owned", "interval", "10^12 tokens, rented"]
            columns.append([_rents(line) for _, line in every])
    rows = [tuple(cell.replace(" US dollars", " $") for cell in row) for row in zip(*columns, strict=True)]
    return Table("", "<" + ">" * (len(head) - 1), rows, tuple(head))


def _figure(line: Line, name: str) -> str:
    return FIGURES[name].shown(line.figures[name]) if name in line.figures else ""


def _rents(line: Line) -> str:
    """What 10^12 tokens cost at the lowest and the highest rent of the device."""
    prices = list(line.rented.values())
    if not prices:
        return ""
    low, high = FIGURES[OWNED].shown(prices[0]), FIGURES[OWNED].shown(prices[-1])
    return low if low == high else f"{low.partition(' ')[0]} to {high}"


def candidates(found: Shortlist) -> Table:
    """The best layout of each device, with all that it costs."""
    names = [name for name in FIGURES if any(name in line.figures for line in found.candidates)]
    rows = [(line.device, f"{line.npus:,}", line.label, format_time(line.time),
             span(line.within, "makespan", line.time), f"{line.tokens * line.npus:,.0f}",
             *(FIGURES[name].shown(line.figures[name]).replace(" US dollars", " $") if name in line.figures else ""
               for name in names)) for line in found.candidates]
    return Table("the best of each device", "<><" + ">" * (3 + len(names)), rows,
                 ("", "NPUs", "layout", "step", "interval", "tok/s", *(SHORT.get(name, name) for name in names)))


def of_each_ep(found: Shortlist) -> Table:
    """The best layout of each ep, or what its steps take at least."""
    rows = [(f"ep {each.ep}", "none fits" if each.layout is None else str(each.layout), _value_of(each, found))
            for each in found.per_ep]
    title = "the best of each ep (a range, at least: lower bounds; the search did not simulate all)"
    return Table(f"{title}\n{ep_verdict(found)}", "<<>", rows)


def ep_verdict(found: Shortlist) -> str:
    """Whether the ep of line 1 is better than the next one: by the lower bounds, and, as lines tie, by the interval."""
    best, ep = found.best, found.best.layout.ep
    others = [(each.value if each.least >= each.value else each.least, each)
              for each in found.per_ep if each.ep != ep and each.layout is not None]
    if not others:
        return f"only ep {ep} fits"
    least, other = min(others, key=lambda pair: pair[0])
    if least < best.value:
        return f"undecided: ep {other.ep} may be better than ep {ep}, as its lower bound is below line 1"
    worse = "slower" if found.objective.name == "time" else "worse"
    more = f"{'' if other.least >= other.value else 'at least '}{100 * (least / best.value - 1):.1f} % {worse}"
    said = f"ep {ep} is predicted the best; the next, ep {other.ep}, is {more}"
    around = best.within.around(best.value)
    if around is None:
        return f"{said} (without an interval, so not decided by measurements)"
    if least <= around[1]:
        return f"{said}: undecided, as that is within the interval of line 1"
    if tied((least, best.within), (best.value, best.within)):
        return f"{said}: undecided, as line 1 is within the same interval around that"
    return f"{said}: decided, as neither is within such an interval of the other"


def _value_of(each: OfEp, found: Shortlist) -> str:
    scale = found.factor if found.objective.name == "time" else 1.0
    value, least = (found.objective.shown(number * scale) if not math.isnan(number) else ""
                    for number in (each.value, each.least))
    if not value:
        return f"at least {least}" if least else ""
    return value if each.least >= each.value else f"{least} to {value}"


def intervals(found: Shortlist) -> Table:
    """Where measurements of every line are expected, and which lines are within the interval of the first; one sentence
    where no line has an interval."""
    every = [(str(place), line) for place, line in enumerate(found.lines, 1)]
    every += [] if found.today is None else [("now", found.today)]
    about: list[str] = list(interval_remarks((line.within for _, line in every), (place for place, _ in every)))
    if not any(line.within.known for _, line in every):
        return Table("\n".join(about), "", ())
    about = [*about, SCALED] if found.measured is not None else about
    rows = [(place, *(_spans(line, found.factor) if place != "now" or found.measured is None else
                      [f"{format_time(found.measured)}, measured", "", ""]), _about(line, found.best))
            for place, line in every]
    return Table("\n".join(about), "<<<<<", rows, ("", "step, expected", "MFU", "tok/s/NPU", ""))


def _about(line: Line, first: Line) -> str:
    """Whether it is within the interval of the first, and whether its own is extrapolated."""
    said = [tie_words(line.value, (first.value, first.within), "1")] if line.tie else []
    return ", ".join(said + (["extrapolated"] if line.within.extrapolated else []))


def _spans(line: Line, factor: float) -> list[str]:
    figures = (("makespan", line.time * factor), ("mfu", line.mfu / factor),
               ("tokens_per_second_per_npu", line.tokens / factor))
    return [span(line.within, name, value) for name, value in figures]


def first_table(state: Progress) -> Table:
    """The layouts that may be the fastest, before they are simulated: what each takes and holds at least."""
    rows = [(str(trial.layout), format_bytes(trial.memory), format_time(trial.time)) for trial in state.found]
    rows += [(str(each.layout), f">= {format_bytes(each.bound.memory)}", f">= {format_time(each.bound.time)}")
             for each in state.waiting]
    about = f"first of {state.left:,} layouts that may fit, to be simulated" if state.waiting else \
        f"the fastest of {state.simulated:,} that were simulated, {state.left:,} are left"
    return Table(f"{state.device}: {about}", "<>>", rows, ("layout", "memory", "step"))


def row_of(place: str, line: Line, several: bool, factor: float = 1.0) -> tuple[str, ...]:
    """Cells of a line under HEAD; `several`: with count and name of the device; `factor`: measured over predicted
    times."""
    parts = line.breakdown.mean
    exposed = sum(parts[axis] for axis in (*AXES, "ports"))
    name = f"{line.npus:,} x {line.device}: {line.label}" if several else line.label
    tie = " ~" if line.tie else ""
    return (place + tie, name, f"{format_bytes(line.memory)} of {format_bytes(line.capacity)}",
            ">= " * line.limited + format_time(line.time * factor), _percent(line.mfu / factor),
            f"{line.tokens / factor:,.0f}",
            *(_percent(part / line.time) for part in (parts["recompute"], exposed, parts["bubble"])))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if not math.isnan(share) else ""


def _rest(found: Shortlist) -> str:
    """The number of layouts that were not simulated, as lower bounds say how good they can be."""
    return f"{max(0, found.layouts - found.too_large - found.simulated - len(found.unknown)):,}"


def caution(found: Shortlist) -> str:
    """Which lines other layouts may come before; empty if all are proved to be the best."""
    if found.sure == len(found.lines):
        return ""
    proved = {0: "No line is", 1: "Line 1 is"}.get(found.sure, f"Lines 1 to {found.sure} are")
    return (f"{proved} proved to be the best: of {_rest(found)} layouts that were not simulated, and "
            f"{len(found.unknown):,} that were not to the end, some may come before line {found.sure + 1}"
            + (" (--exact simulates these)." if found.lines[-1].value > found.beyond else "."))


def remarks(found: Shortlist) -> Iterator[str]:
    """How far the proof goes, and what was assumed."""
    faster = "faster" if found.objective.name == "time" else "better"
    rest = _rest(found)
    if found.lines[-1].value > found.beyond:
        rest += (f" cannot be {faster} than line 1 (their lower bounds are higher: "
                 f"{found.objective.shown(found.beyond)} and more), but may come before line {found.sure + 1} (--exact "
                 "simulates these)")
    else:
        rest += f" cannot be {faster} (their lower bounds are higher)"
    yield (f"{found.layouts:,} layouts (1F1B or interleaved, ranks in Megatron's order): {found.too_large:,} do not "
           f"fit, {found.simulated:,} simulated, {rest}")
    if found.unknown:
        bound = min(least for _, least in found.unknown)
        yield (f"not simulated to the end: {len(found.unknown):,}; none is {faster} than "
               f"{found.objective.shown(bound)}; the first: {found.unknown[0][0]}")
    if any(line.limited for line in (*found.lines, *(() if found.today is None else (found.today,)))):
        yield LIMITED
    work = cast("Transformer", found.best.design.workload)
    if (share := executed_flops(work) / model_flops(work)) < MASKED:
        yield f"{SCORES} (of line 1: {_percent(share * found.best.mfu / found.factor)})"
    kept, lifted = ([each for each in found.rules if bool(each.lifted) is which] for which in (False, True))
    if kept:
        yield "rules that leave out layouts (to lift one: --lift NAME, or --fix with a value that it forbids):"
        yield from (f"  {each.rule.name}: {each.rule.text}{_hides(each.rule.name, found)}" for each in kept)
    if lifted:
        yield "lifted: " + ", ".join(f"{each.rule.name} ({each.lifted})" for each in lifted)
    yield from _peaks(found)
    yield "with " + ", ".join(f"{name.replace('_', ' ')} {value:,}" if isinstance(value, int) else
                              f"{name.replace('_', ' ')} {value}" for name, value in found.conditions.items())
    if found.assumed:
        yield "assumed:"
        yield from (f"  {text}" for text in found.assumed)
    if not any(line.figures for line in found.lines):
        hint = price_hint(dict.fromkeys(line.device for line in found.lines))
        yield from [hint] if hint else []


def _hides(rule: str, found: Shortlist) -> str:
    """What a rule leaves out that may be better than line 1."""
    hidden = next((each for each in found.hidden if each.rule == rule), None)
    if hidden is None:
        return ""
    faster = "faster" if found.objective.name == "time" else "better"
    few = f" (of at most {UNEVEN_PARTS} parts a stage)" if hidden.layout.virtual_stages <= UNEVEN_PARTS else ""
    return (f"\n    leaves out {hidden.count:,}{few} that may be {faster} than line 1: "
            f"{found.objective.shown(hidden.least)} at least ({hidden.layout}), with --lift {rule}")


def _peaks(found: Shortlist) -> Iterator[str]:
    """The memory of lines whose simulation held more, as communication overlaps and lets tensors wait."""
    more = [(place, line) for place, line in enumerate(found.lines, 1) if line.peak > line.memory * ALIKE]
    if more:
        said = ", ".join(f"line {place} {format_bytes(line.peak)}" + (
            " (more than there is)" if line.peak > line.capacity else "") for place, line in more)
        yield ("memory in the table is of one unit of work after another; with those that overlap, as simulated (and "
               f"in astrarium run): {said}")
