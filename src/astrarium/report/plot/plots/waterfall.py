"""Why two designs differ: a step for each knob from the makespan of the one to that of the other."""

from __future__ import annotations

from astrarium.errors import InputError
from astrarium.report.plot.colours import PALETTE
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.report.tables.explain import knob_cells
from astrarium.search.explain import Explanation
from astrarium.units import format_time

__all__ = ["PLOT", "waterfall"]

COLOURS = {"makespan": PALETTE[0], "longer": PALETTE[1], "shorter": PALETTE[2]}


def waterfall(answer: Explanation) -> Plot:
    """The makespan of the first design, a bar for the contribution of each knob (its Shapley value), and the makespan
    of the second.

    Args:
        answer: an explanation of two designs.

    Raises:
        InputError: where the designs do not differ.
    """
    if not answer.changes:
        raise InputError("waterfall", "the designs do not differ", expected="two designs with other knobs")
    changes = sorted(answer.changes, key=lambda each: -abs(each.contribution))
    rows: list[tuple[str, str, float, float, float]] = [("first", "makespan", 0.0, answer.before / 1000, 0.0)]
    at = answer.before
    for change in changes:
        cells = list(knob_cells(change))
        name = " and ".join(f"{knob}: {before} to {after}" for knob, before, after in cells)
        kind = "longer" if change.contribution > 0 else "shorter"
        rows.append((name, kind, at / 1000, (at + change.contribution) / 1000, change.error / 1000))
        at += change.contribution
    rows.append(("second", "makespan", 0.0, answer.after / 1000, 0.0))
    columns = {"y": Column("", [row[0] for row in rows]), "colour": Column("", [row[1] for row in rows]),
               "x": Column("from", [row[2] for row in rows], "time"),
               "x2": Column("to", [row[3] for row in rows], "time"),
               "adds": Column("difference", [row[3] - row[2] for row in rows], "time")}
    if not answer.exact:
        columns["error"] = Column("standard error", [row[4] for row in rows], "time")
    texts = Layer("text", {"y": Column("", [row[0] for row in rows]),
                           "x": Column("", [max(row[2], row[3]) for row in rows], "time"),
                           "text": Column("", [_signed(row) for row in rows])}, colour="ink", align="left")
    used = {name: colour for name, colour in COLOURS.items() if name in set(columns["colour"].values)}
    top = max(max(row[2], row[3]) for row in rows)
    return Plot("Why the designs differ", f"From {format_time(answer.before / 1000)} to "
                f"{format_time(answer.after / 1000)}; {rows[1][0]} matters most ({_signed(rows[1]).strip()}).",
                (Layer("bar", columns), texts), Axis("makespan", "time", high=1.14 * top),
                Axis(order=tuple(dict.fromkeys(row[0] for row in rows))), used)


def _signed(row: tuple[str, str, float, float, float]) -> str:
    difference = row[3] - row[2]
    sign = "" if row[1] == "makespan" else "+" if difference > 0 else "-" if difference < 0 else ""
    return f" {sign}{format_time(abs(difference))}"


PLOT = Drawing(("explain",), waterfall)
