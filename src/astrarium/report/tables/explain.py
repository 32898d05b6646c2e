"""Why two designs differ, as tables and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from astrarium.config import Config, to_plain
from astrarium.report.tables.alike import alike
from astrarium.report.tables.summary import PARTS
from astrarium.report.tables.table import Table
from astrarium.search.explain import Change, Explanation
from astrarium.units import Quantity, format_time

__all__ = ["explanation_plain", "explanation_sentence", "explanation_tables", "knob_cells", "knobs_plain",
           "makespans", "orders_text", "plain_value", "values_text"]

LONGEST = 32        # characters of a value
NS = 1000           # ps


def explanation_tables(found: Explanation, first: str, second: str) -> Iterator[Table]:
    """The difference and what it is made of."""
    rows = [("makespan", " to ".join(makespans(found))),
            ("difference", _signed(found.difference) + _part(found)),
            ("orders", orders_text(found.exact, found.orders)),
            ("designs", f"{found.simulated:,} simulated" + (f", {found.refused:,} refused" if found.refused else ""))]
    if found.filled:
        rows.append(("in between", f"in {found.filled:,} of them another axis of the parallelisation makes up for the "
                     "ranks"))
    yield Table(f"{first} to {second}", "<<", rows)
    if not found.changes:
        return
    if found.times:
        yield _times_table(found)
    head = ["knob", "from", "to", "alone", "in turn", "contribution"] + ([] if found.exact else ["+-"])
    lines = [line for change in found.changes for line in _lines(change, found.exact)]
    total = ["sum", "", "", "", _signed(found.difference), _signed(found.difference)]
    lines.append(total + ([] if found.exact else [""]))
    yield Table("by knob", "<<<" + ">" * (len(head) - 3), lines, head)


def explanation_sentence(found: Explanation) -> str:
    """The difference in a sentence."""
    if not found.before or found.before == found.after:
        return f"Both take {_time(found.before)}."
    if alike(found.after, found.before):
        return f"Both take {_time(found.before)}, equal within rounding."
    share = abs(found.difference) / found.before
    before, after = makespans(found)
    return (f"The second takes {after}, {100 * share:.1f} % {'less' if found.difference < 0 else 'more'} "
            f"than the first ({before}).")


def makespans(found: Explanation) -> list[str]:
    """Both makespans, those that count with what a port needs as bounds."""
    bounds = [bool(each["ports"]) for each in found.times] or [False, False]
    return [">= " * bound + _time(ps) for bound, ps in zip(bounds, (found.before, found.after), strict=True)]


def _times_table(found: Explanation) -> Table:
    """What the time of the rank that finishes last goes into, in both designs."""
    before, after = found.times
    rows = [[text, _time(before[name]), _time(after[name]), _signed(after[name] - before[name])]
            for name, text in PARTS if before[name] or after[name] or name in ("compute", "exposed_comm", "bubble")]
    return Table("time of the rank that finishes last", "<>>>", rows, ["", "first", "second", "difference"])


def explanation_plain(found: Explanation) -> dict[str, Any]:
    """What `astrarium explain --json` prints."""
    changes = [{"knobs": knobs_plain(change), "alone_ns": None if change.alone is None else change.alone / NS,
                "in_turn_ns": change.step / NS, "contribution_ns": change.contribution / NS,
                "standard_error_ns": change.error / NS} for change in found.changes]
    return {"before_ns": found.before / NS, "after_ns": found.after / NS, "difference_ns": found.difference / NS,
            "exact": found.exact, "orders": found.orders, "simulated": found.simulated, "refused": found.refused,
            "made_up": found.filled, "changes": changes,
            "parts_ns": [{name: ps / NS for name, ps in each.items()} for each in found.times]}


def _lines(change: Change, exact: bool) -> Iterator[list[str]]:
    """One line per knob; knobs that only go together share the figures of the first line."""
    figures = ["refused" if change.alone is None else _signed(change.alone), _signed(change.step),
               _signed(change.contribution)]
    figures += [] if exact else [_time(change.error)]
    for number, cells in enumerate(knob_cells(change)):
        yield [*cells, *(figures if number == 0 else [""] * len(figures))]


def knob_cells(change: Change) -> Iterator[list[str]]:
    """Name, value before and value after of each knob of a change."""
    for number, knob in enumerate(change.knobs):
        yield [f"+ {knob.knob}" if number else knob.knob, values_text(knob.before), values_text(knob.after)]


def knobs_plain(change: Change) -> list[dict[str, Any]]:
    """The knobs of a change as plain data."""
    return [{"knob": each.knob, "from": plain_value(each.before), "to": plain_value(each.after)}
            for each in change.knobs]


def orders_text(exact: bool, orders: int) -> str:
    """How many orders of changes the contributions are means over."""
    if exact:
        return f"all {orders:,}" if orders > 1 else "one"
    return f"{orders:,} drawn (contributions have a standard error)"


def _part(found: Explanation) -> str:
    if found.difference and alike(found.after, found.before):
        return " (equal within rounding)"
    return f" ({found.difference / found.before:+.2%})" if found.before else ""


def _time(ps: float) -> str:
    return format_time(ps / 1000)


def _signed(ps: int) -> str:
    return ("-" if ps < 0 else "+" if ps > 0 else "") + _time(abs(ps))


def plain_value(value: Any) -> Any:
    """A value as mappings, lists and scalars."""
    if isinstance(value, Config):
        return plain_value(to_plain(value))
    if isinstance(value, dict):
        return {name: plain_value(each) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain_value(each) for each in value]
    return str(value) if isinstance(value, Quantity) else value


def values_text(values: tuple[Any, ...]) -> str:
    """A knob's values in its places; once, where they are equal."""
    same = all(value == values[0] for value in values)
    text = ", ".join(map(_short, values[:1] if same else values))
    return text if len(text) <= LONGEST else text[:LONGEST - 1] + "…"


def _short(value: Any) -> str:
    if isinstance(value, Config):
        fields = [str(each) for each in plain_value(value).values() if not isinstance(each, (dict, list))]
        return value.tag or " ".join(fields) or "default"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_short, value)) + "]"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
