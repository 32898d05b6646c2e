"""Why two serving designs differ, as tables and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from astrarium.report.tables.explain import knob_cells, knobs_plain
from astrarium.report.tables.interval import interval_remarks
from astrarium.report.tables.table import Table
from astrarium.search.explain import Change, Explanation
from astrarium.search.explain_serving import VALUES, Part, ServingExplanation
from astrarium.units import format_time

__all__ = ["serving_explanation_plain", "serving_explanation_tables"]

TITLES = {"ttft": "TTFT (mean)", "tpot": "TPOT (mean)", "tokens_per_second": "output tokens/s",
          "npu_time": "NPU time of an output token (1 / tokens/s of an NPU)"}
FACTS = {"servers": "servers", "steps": "steps", "busy_share": "busy", "decoding_mean": "sequences of a decoding step",
         "context_mean": "tokens in the cache of each", "prompt_steps_share": "steps with prompts",
         "prompt_tokens_mean": "tokens of prompts in them", "queue_mean": "requests that wait (mean)",
         "cache_use_mean": "cache in use (mean)", "cache_use_most": "cache in use (most)",
         "prefix_hit_share": "prompt tokens from the cache", "preemptions": "preemptions", "saturated": "saturated"}
SHARES = ("busy_share", "prompt_steps_share", "cache_use_mean", "cache_use_most", "prefix_hit_share")


def serving_explanation_tables(found: ServingExplanation, first: str, second: str) -> Iterator[Table]:
    """The differences, and what they are made of."""
    rows = [(TITLES[name], f"{_shown(name, each.before)} to {_shown(name, each.after)}",
             _signed(name, each.difference) + _share(each)) for name, each in found.knobs.items()]
    yield Table(f"{first} to {second}", "<<<", rows)
    if any(each.known for each in found.within):
        said = {True: "undecided: one TPOT is within the interval of the other", False: "decided: each TPOT is outside "
                "the interval of the other", None: "one of both has no interval of TPOT"}[found.undecided]
        yield Table("\n".join([said, *interval_remarks(found.within)]), "", ())
    for name, parts in found.parts.items():
        yield _parts_table(TITLES[name], parts)
    yield from _knob_table(found)
    before, after = found.facts
    yield Table("what steps hold", "<>>", [(FACTS[name], _fact(name, before[name]), _fact(name, after[name]))
                                           for name in FACTS if name in before and name in after],
                ("", "first", "second"))


def _parts_table(title: str, parts: Sequence[Part]) -> Table:
    """What a figure is made of in both designs; the sums are the figures."""
    def row(name: str, before: float, after: float, same: float, other: float) -> list[str]:
        return [name, _time(before), _time(after), _sign(after - before), _sign(same), _sign(other)]

    rows = [row(part.name, part.before, part.after, part.same_steps, part.other_steps) for part in parts]
    sums = [sum(getattr(part, name) for part in parts) for name in ("before", "after", "same_steps", "other_steps")]
    return Table(title, "<>>>>>", [*rows, row("sum", *sums)],
                 ["", "first", "second", "difference", "other times", "other steps"])


def _knob_table(found: ServingExplanation) -> Iterator[Table]:
    """The contributions of every knob to every figure."""
    every = list(found.knobs.items())
    if not every[0][1].changes:
        return
    rows: list[list[str]] = []
    for place, change in enumerate(every[0][1].changes):
        cells = [_signed(name, each.changes[place].contribution) for name, each in every]
        for number, words in enumerate(knob_cells(change)):
            rows.append([*words, *(cells if number == 0 else [""] * len(cells))])
    rows.append(["sum", "", "", *(_signed(name, each.difference) for name, each in every)])
    one = every[0][1]
    how = f"all {one.orders:,} orders" if one.exact else f"{one.orders:,} drawn orders"
    yield Table(f"by knob ({how}, {one.simulated:,} designs served, {one.refused:,} refused)", "<<<>>>", rows,
                ["knob", "from", "to", *(TITLES[name] for name, _ in every)])


def serving_explanation_plain(found: ServingExplanation) -> dict[str, Any]:
    """What `astrarium explain --json` prints of two serving files."""
    def scaled(name: str, value: float) -> float:
        return value / VALUES[name][1]

    def change(name: str, each: Change) -> dict[str, Any]:
        return {"knobs": knobs_plain(each), "contribution": scaled(name, each.contribution),
                "alone": None if each.alone is None else scaled(name, each.alone),
                "standard_error": scaled(name, each.error)}

    knobs = {VALUES[name][0]: {"before": scaled(name, each.before), "after": scaled(name, each.after),
                               "exact": each.exact, "simulated": each.simulated, "refused": each.refused,
                               "changes": [change(name, one) for one in each.changes]}
             for name, each in found.knobs.items()}
    parts = {f"{name}_ns": [{"part": each.name, "before": each.before / 1000, "after": each.after / 1000,
                             "other_times": each.same_steps / 1000, "other_steps": each.other_steps / 1000}
                            for each in each_parts] for name, each_parts in found.parts.items()}
    return {"by_knob": knobs, "by_part": parts, "facts": [dict(each) for each in found.facts],
            "saturated_runs": found.saturated, "tpot_undecided": found.undecided,
            "intervals": [each.words for each in found.within]}


def _shown(name: str, value: float) -> str:
    return _time(value) if name != "tokens_per_second" else f"{value / VALUES[name][1]:,.5g}"


def _signed(name: str, value: float) -> str:
    return ("-" if value < 0 else "+" if value > 0 else "") + _shown(name, abs(value))


def _share(found: Explanation) -> str:
    return f" ({found.difference / found.before:+.2%})" if found.before else ""


def _time(ps: float) -> str:
    return format_time(ps / 1000) if abs(ps) >= 1 else "0"


def _sign(ps: float) -> str:
    return ("-" if ps <= -1 else "+" if ps >= 1 else "") + _time(abs(ps))


def _fact(name: str, value: float) -> str:
    return f"{100 * value:.1f} %" if name in SHARES else f"{value:,.4g}" if value % 1 else f"{value:,.0f}"
