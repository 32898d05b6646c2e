"""A plot as data: what is drawn, without any idea of how. `svg.py` and `vega.py` draw it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

from msgspec import Struct, field

from astrarium.errors import InternalError

__all__ = ["CHANNELS", "MOST", "SPANS", "Axis", "Column", "Layer", "Mark", "Plot", "Values", "spread"]

T = TypeVar("T")
Mark = Literal["bar", "line", "area", "point", "rule", "text"]
Values = Sequence[float] | Sequence[str]
CHANNELS = ("x", "x2", "y", "y2", "colour", "text", "opacity", "detail")
MOST = 5_000        # marks of a layer; a plot's function bins or samples what is more, and its sentence says so
SPANS = 1_600       # bars over time: more lie closer than a wide screen shows, and make a page large


def spread(rows: Sequence[T]) -> tuple[Sequence[T], str]:
    """(at most MOST of the rows, evenly spread, and a sentence that says so; empty where all are there)."""
    if len(rows) <= MOST:
        return rows, ""
    some = rows[::-(-len(rows) // MOST)]
    return some, f" {len(some):,} of {len(rows):,}, evenly spread, are drawn."


class Column(Struct, frozen=True):
    """Values under a title, in the base unit of `quantity` (a key of `quantities.LADDERS`; empty: text). A column
    without a title is drawn and not shown on hover."""

    title: str
    values: Values
    quantity: str = ""


class Layer(Struct, frozen=True):
    """Marks of one kind, one a row of `columns`, which are equally long.

    Columns named like a channel (CHANNELS) place and paint the marks; all others are hover text alone.

    Args:
        mark: bar (x to x2 within the row of y), line and area (a path per colour and `detail`, in the order of the
            rows; an area from y to y2), point, rule (without y: upright, without x: level; with x and x2: from one to
            the other), text.
        columns: channel or name -> its values.
        colour: of all marks, without a column of that name: a colour (`#4477aa`) or a role: ink, muted, limit.
        opacity: of all marks, 0 to 1, without a column of that name.
        shape: of points: circle, diamond, square, triangle-right or triangle-left.
        size: of points, the area in px^2; of lines and rules, the width in px.
        share: of bars, how much of their band they fill.
        dash: whether lines are dashed.
        step: whether a line goes level from each point to the next one, then up or down.
        align: of text: left, center or right of its place lies the text's start, middle or end.
        down: px that marks lie below their place.
    """

    mark: Mark
    columns: Mapping[str, Column]
    colour: str = "#4477aa"
    opacity: float = 1.0
    shape: str = "circle"
    size: float = 0.0
    share: float = 0.62
    dash: bool = False
    step: bool = False
    align: Literal["left", "center", "right"] = "left"
    down: float = 0.0

    def __post_init__(self) -> None:
        lengths = {len(each.values) for each in self.columns.values()}
        if len(lengths) > 1:
            raise InternalError(f"columns of a layer differ in length: {sorted(lengths)}")


class Axis(Struct, frozen=True):
    """Where values of a channel go.

    Args:
        title: what it shows, without the unit.
        quantity: of numbers (a key of `quantities.LADDERS`); empty: categories.
        log: whether the scale is logarithmic.
        zero: whether a linear scale of numbers includes 0.
        low: the lowest value shown, and `high` the highest; None: that of the marks.
        order: the categories from left to right or from top to bottom.
        labels: value -> text of a tick, in place of the ticks that a renderer chooses.
        shown: whether ticks, grid and title are drawn.
        tall: whether names of categories stand above their rows, which long ones do anyway.
        row: px of the row of a category; 0: as its name needs.
    """

    title: str = ""
    quantity: str = ""
    log: bool = False
    zero: bool = True
    low: float | None = None
    high: float | None = None
    order: tuple[str, ...] = ()
    labels: Mapping[float, str] = field(default_factory=dict)
    shown: bool = True
    tall: bool = False
    row: int = 0


class Plot(Struct, frozen=True):
    """A picture of an answer.

    Args:
        title: what it is of.
        sentence: what one sees, for those who do not see it; also what was sampled or left out.
        layers: from back to front.
        x: the horizontal axis, and `y` the vertical one; y is an axis of categories where its `order` names some.
        colours: name in a column `colour` -> its colour, in the order of the legend.
        zoom: whether one may zoom in, where the renderer can.
        height: px of a plot whose y is a quantity; with categories the height follows from their number.
    """

    title: str
    sentence: str
    layers: tuple[Layer, ...]
    x: Axis
    y: Axis
    colours: Mapping[str, str] = field(default_factory=dict)
    zoom: bool = False
    height: int = 300

    def save(self, path: str, *, dark: bool = False) -> None:
        """Write the picture.

        Args:
            path: NAME.svg (light or dark as its viewer prefers), NAME.png (extra: pages), or NAME.json, a Vega-Lite
                specification.
            dark: draw .png and .json for a dark page.

        Raises:
            InputError: for another ending, without the extra, or if the file cannot be written.
        """
        from astrarium.report.plot.save import save

        save(self, path, dark=dark)

    def _repr_html_(self) -> str:
        """The picture and its sentence, for a notebook."""
        from astrarium.report.plot.svg import cell

        return cell(self)
