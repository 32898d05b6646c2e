"""What the best design of one study gains over that of another, by knob: as tables and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from astrarium.report.tables.explain import orders_text, plain_value, values_text
from astrarium.report.tables.study import shown
from astrarium.report.tables.table import Table
from astrarium.search.gains import Gains

__all__ = ["gains_plain", "gains_tables"]


def gains_tables(found: Gains, first: str, second: str) -> Iterator[Table]:
    """The gain, and the factors that it is the product of."""
    name = found.objective
    rows = [(name, f"{shown(name, found.before)} to {shown(name, found.after)}"), ("gain", f"{found.gain:.4g}x"),
            ("orders", orders_text(found.exact, found.orders)),
            ("designs", f"{found.simulated:,} simulated" + (f", {found.refused:,} refused" if found.refused else ""))]
    yield Table(f"best of {first} to best of {second}", "<<", rows)
    if not found.parts:
        return
    head = ["knob", "from", "to", "alone", "factor"] + ([] if found.exact else ["+-"])
    lines = []
    for part in found.parts:
        figures = ["refused" if part.alone is None else f"{part.alone:.3f}x", f"{part.factor:.3f}x"]
        figures += [] if found.exact else [f"{part.error:.1%}"]
        for number, knob in enumerate(part.knobs):
            lines.append([f"+ {knob.knob}" if number else knob.knob, values_text(knob.before), values_text(knob.after),
                          *(figures if number == 0 else [""] * len(figures))])
    lines.append(["product", "", "", "", f"{found.gain:.3f}x", *([] if found.exact else [""])])
    yield Table("by knob", "<<<" + ">" * (len(head) - 3), lines, head)


def gains_plain(found: Gains) -> dict[str, Any]:
    """What `astrarium explain --json` prints for two studies."""
    parts = [{"knobs": [{"knob": each.knob, "from": plain_value(each.before), "to": plain_value(each.after)}
                        for each in part.knobs],
              "alone": part.alone, "factor": part.factor, "relative_error": part.error} for part in found.parts]
    return {"objective": found.objective, "before": found.before, "after": found.after, "gain": found.gain,
            "exact": found.exact, "orders": found.orders, "simulated": found.simulated, "refused": found.refused,
            "parts": parts}
