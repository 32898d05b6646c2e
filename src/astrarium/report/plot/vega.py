"""Plots as Vega-Lite specifications: hover with exact values, legends that filter, zoom, light and dark."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from astrarium.report.plot.colours import DARK, LIGHT, ROLES
from astrarium.report.plot.frame import ROW, TALL, above, row_height, span_of
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.report.plot.quantities import LADDERS, axis_unit, one_unit, ticks

__all__ = ["SCHEMA", "vega", "vega_config"]

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
NAMED = 6.6         # px of a letter in a legend
BESIDE = 70         # px of the picture that an axis at the left takes from a legend
NARROW, LETTERS = 480, 34       # px of a narrow picture, and letters of a line of its legend
Spec = dict[str, Any]
HALO: Mapping[str, Any] = {"fill": {"expr": "paper"}, "stroke": {"expr": "paper"}, "strokeWidth": 5,
                           "strokeJoin": "round"}        # under letters that lie over lines


def vega(plot: Plot, width: float | None = None, *, dark: bool = False) -> Spec:
    """A Vega-Lite 5 specification; only its `config` differs between light and dark.

    Args:
        plot: what to draw.
        width: of the marks, in px; None: of the element that holds the picture.
        dark: whether `config` is that of a dark page.
    """
    rows = len(plot.y.order)
    high = rows * row_height(plot.y) if rows else plot.height
    layers = [each for number, layer in enumerate(plot.layers) for each in _layers(plot, layer, number, width)]
    if plot.y.order and above(plot.y):
        layers += [_names(plot, HALO), _names(plot, {"color": {"expr": "ink"}})]
    return {"$schema": SCHEMA, "description": f"{plot.title}. {plot.sentence}",
            "width": "container" if width is None else width, "height": high,
            "autosize": {"type": "fit-x", "contains": "padding"}, "config": vega_config(dark=dark), "layer": layers,
            "resolve": {"legend": {"color": "shared"}}}


def vega_config(*, dark: bool = False) -> Spec:
    """The configuration of a specification: colours of the ground, of letters and of grids."""
    colour = DARK if dark else LIGHT
    return {"background": None, "font": "system-ui, sans-serif", "view": {"stroke": None},
            "axis": {"labelColor": colour["muted"], "titleColor": colour["ink"], "gridColor": colour["grid"],
                     "domainColor": colour["grid"], "tickColor": colour["grid"], "labelFontSize": 12,
                     "titleFontSize": 12, "titleFontWeight": "normal"},
            "legend": {"labelColor": colour["ink"], "labelFontSize": 12, "symbolOpacity": 1, "title": None},
            "text": {"color": colour["ink"], "fontSize": 12},
            "params": [{"name": role, "value": colour[role]} for role in ROLES]}


def _layers(plot: Plot, layer: Layer, number: int, width: float | None) -> Iterator[Spec]:
    """The layer; of a line also points that are seen when pointed at."""
    if not layer.columns or not _length(layer):
        return
    own: Spec = {"data": {"values": list(_data(layer)), "name": f"layer{number}"}, "mark": _mark(plot, layer),
                 "encoding": _encoding(plot, layer, width)}
    hovers = list(_hovers(layer))
    if hovers:
        own["transform"] = [{"calculate": text, "as": f"h{place}"} for place, (_, text) in enumerate(hovers)]
        own["encoding"]["tooltip"] = [{"field": f"h{place}", "type": "nominal", "title": title}
                                      for place, (title, _) in enumerate(hovers)]
    if layer.mark == "text":
        yield own | {"mark": {**{name: own["mark"][name] for name in own["mark"] if name != "color"}, **HALO}}
    first = not any(each.columns for each in plot.layers[:number])
    params = []
    if "colour" in layer.columns and not any("colour" in each.columns for each in plot.layers[:number]) \
            and len(plot.colours) > 1:
        params.append({"name": "pick", "select": {"type": "point", "fields": ["colour"]}, "bind": "legend"})
    if plot.zoom and first:
        shift = "[event.shiftKey]"
        params.append({"name": "zoom", "bind": "scales", "select": {
            "type": "interval", "encodings": ["x"] if plot.y.order else ["x", "y"], "zoom": f"wheel!{shift}",
            "translate": f"[pointerdown{shift}, window:pointerup] > window:pointermove!"}})
    yield own | ({"params": params} if params else {})
    if layer.mark == "line" and hovers:
        yield own | {"data": {"name": f"layer{number}"}, "mark": {"type": "point", "opacity": 0, "size": 90},
                     "encoding": {name: own["encoding"][name] for name in ("x", "y", "tooltip")}}


def _length(layer: Layer) -> int:
    return len(next(iter(layer.columns.values())).values)


def _data(layer: Layer) -> Iterator[Spec]:
    """A mapping per row. A number that is not finite is null; columns for hovers are numbers as well."""
    names = list(layer.columns)
    for number, row in enumerate(zip(*(each.values for each in layer.columns.values()), strict=True)):
        found = {name: value if isinstance(value, str) else _number(value) for name, value in zip(names, row)}
        yield found | ({"at": number} if layer.mark == "line" else {})


def _number(value: float) -> float | int | None:
    """A number of JSON, whole ones without a point."""
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) else float(value)


def _hovers(layer: Layer) -> Iterator[tuple[str, str]]:
    """(title, Vega expression of the text) of each column with a title."""
    for name, column in layer.columns.items():
        if column.title:
            yield column.title, _exact(name, column)


def _exact(name: str, column: Column) -> str:
    """The expression of what `quantities.exact` writes."""
    value = f"datum[{name!r}]"
    if not column.quantity:
        return value
    ladder = LADDERS[column.quantity]
    if len(ladder) == 1:
        factor, unit = ladder[0]
        return f"isValid({value}) ? format({value} / {factor!r}, ',.6~r') + {_after(unit)} : 'none'"
    base = next(unit for factor, unit in ladder if factor == 1.0)
    said, whole = _laddered(value, column.quantity), f"format({value}, ',.12~r') + {_after(base)}"
    return f"isValid({value}) ? {said} == {whole} ? {said} : {said} + ' (' + {whole} + ')' : 'none'"


def _after(unit: str) -> str:
    return repr(f" {unit}") if unit else "''"


def _laddered(value: str, quantity: str, form: str = ",.4~r") -> str:
    """The expression of `value` in the largest unit in which it is 1 or more."""
    ladder = LADDERS[quantity]
    text = f"format({value} / {ladder[0][0]!r}, '{form}') + {_after(ladder[0][1])}"
    for factor, unit in ladder[1:]:
        more = f"format({value} / {factor!r}, '{form}') + {_after(unit)}"
        text = f"abs({value}) >= {0.99995 * factor!r} ? {more} : {text}"
    return f"({text})"


def _mark(plot: Plot, layer: Layer) -> Spec:
    found: Spec = {"type": layer.mark, "clip": bool(plot.zoom)}
    if "opacity" not in layer.columns and layer.opacity < 1:
        found["opacity"] = layer.opacity
    if "colour" not in layer.columns:
        found["color"] = {"expr": layer.colour} if layer.colour in ROLES else layer.colour
    if layer.mark == "point":
        found |= {"filled": True, "size": layer.size or 50, "shape": layer.shape}
    if layer.mark in ("line", "rule"):
        found |= {"strokeWidth": layer.size or (2 if layer.mark == "line" else 1.5)}
        found |= {"strokeDash": [5, 4]} if layer.dash else {}
    if layer.mark == "line":
        found |= {"interpolate": "step-after"} if layer.step else {}
    if layer.mark == "text":
        found |= {"align": layer.align, "baseline": "middle"}
    if layer.mark == "bar":
        band = TALL - 16 if above(plot.y) else ROW
        found |= {"height": round(layer.share * band, 1)} if plot.y.order else {}
    shift = layer.down + (8 if plot.y.order and above(plot.y) else 0)
    return found | ({"yOffset": shift, **({"y2Offset": shift} if layer.mark == "rule" else {})} if shift else {})


def _encoding(plot: Plot, layer: Layer, width: float | None) -> Spec:
    found: Spec = {}
    for name, axis in (("x", plot.x), ("y", plot.y)):
        if name in layer.columns:
            found[name] = _place(plot, name, axis) | {"field": name}
        if f"{name}2" in layer.columns:
            found[f"{name}2"] = {"field": f"{name}2"}
        elif name in layer.columns and not axis.order and layer.mark == "bar" and name == "x":
            found["x2"] = {"datum": 0}
    if "colour" in layer.columns:
        names = list(plot.colours)
        found["color"] = {"field": "colour", "type": "nominal", "sort": None,
                          "scale": {"domain": names, "range": list(plot.colours.values())},
                          "legend": _legend(names, plot, width) if len(names) > 1 else None}
    if "opacity" in layer.columns:
        found["opacity"] = {"field": "opacity", "type": "quantitative", "scale": None, "legend": None}
    elif "colour" in layer.columns and len(plot.colours) > 1:
        found["opacity"] = {"condition": {"param": "pick", "value": layer.opacity}, "value": 0.12 * layer.opacity}
    if "text" in layer.columns:
        found["text"] = {"field": "text", "type": "nominal"}
    if "detail" in layer.columns:
        found["detail"] = {"field": "detail", "type": "nominal"}
    if layer.mark == "line":
        found["order"] = {"field": "at", "type": "quantitative"}
    return found


def _legend(names: Sequence[str], plot: Plot, width: float | None) -> Spec:
    longest = max(map(len, names)) * NAMED + 34     # not over the signal `width`: the first layout would cut lines
    axis = 0 if not plot.y.shown or above(plot.y) else BESIDE
    return {"orient": "top", "direction": "horizontal", "offset": 26 if plot.y.shown and plot.y.quantity else 8,
            "columns": {"expr": f"max(1, min({len(names)}, floor(((containerSize()[0] || 600) - {axis}) / "
                                f"{longest:.0f})))"} if width is None else
            max(1, min(len(names), int(width / longest))),
            "title": None, **_wrapped(names, width), **_symbol(plot), "columnPadding": 16}


def _wrapped(names: Sequence[str], width: float | None) -> Spec:
    """The texts of a legend, of which long ones have several lines where the picture is narrow."""
    lines = {name: wrap(name, LETTERS) for name in names if len(name) > LETTERS}
    if not lines or width is not None:
        return {"labelLimit": 0}
    return {"labelLimit": 0, "labelExpr": f"containerSize()[0] < {NARROW} ? {json.dumps(lines)}[datum.label] || "
                                          "datum.label : datum.label"}


def _symbol(plot: Plot) -> Spec:
    """The sign of a legend: a thick stroke where only lines have colours."""
    if all(layer.mark in ("line", "rule") for layer in plot.layers if "colour" in layer.columns):
        return {"symbolType": "stroke", "symbolStrokeWidth": 4}
    return {"symbolType": "square"}


def _place(plot: Plot, channel: str, axis: Axis) -> Spec:
    """Type, scale and axis of x or y."""
    if axis.order:
        shown = axis.shown and not (channel == "y" and above(axis))
        look: Spec | None = {"title": None, "grid": False, "domain": False, "ticks": False, "labelLimit": 220} \
            if shown else None
        return {"type": "nominal", "sort": list(axis.order), "axis": look,
                "scale": {"type": "band", "domain": list(axis.order), "paddingInner": 0, "paddingOuter": 0}}
    low, high = span_of(plot, channel)
    scale: Spec = {"domain": [low, high], "nice": False}
    return {"type": "quantitative", "scale": scale | ({"type": "log"} if axis.log else {"zero": False}),
            "axis": _axis(axis, low, high, channel) if axis.shown else None}


def _axis(axis: Axis, low: float, high: float, channel: str) -> Spec:
    title: Spec = {"titleAnchor": "end"} if channel == "x" else {
        "titleAngle": 0, "titleAnchor": "end", "titleAlign": "left", "titleX": -34, "titleY": -10,
        "titleBaseline": "bottom"}
    found: Spec = {"labelOverlap": True, "domain": False, "ticks": False, "labelPadding": 6, **title}
    if axis.labels:
        texts = ", ".join(f"'{value:g}': {text!r}" for value, text in axis.labels.items())
        return found | {"values": list(axis.labels), "title": axis.title or None,
                        "labelExpr": f"{{{texts}}}[toString(datum.value)]"}
    if axis.log:
        one = one_unit(axis.quantity)
        return found | {"title": _titled(axis, one), "values": ticks(low, high, log=True, most=7),
                        "labelExpr": f"format(datum.value / {LADDERS[axis.quantity][0][0]!r}, ',.4~r')" if one else
                        _laddered("datum.value", axis.quantity)}
    factor, unit = axis_unit((low, high), axis.quantity)
    return found | {"title": _titled(axis, unit),
                    "values": ticks(low, high, log=False, base=factor),
                    "labelExpr": f"format(datum.value / {factor!r}, ',.4~r')"}


def _titled(axis: Axis, unit: str) -> str | None:
    return f"{axis.title}, {unit}" if unit and axis.title else axis.title or unit or None


def _names(plot: Plot, paint: Mapping[str, Any]) -> Spec:
    """Names of categories above their rows."""
    return {"data": {"values": [{"y": name} for name in plot.y.order]},
            "mark": {"type": "text", "align": "left", "baseline": "middle", "yOffset": -10, "limit": 700, **paint},
            "encoding": {"y": _place(plot, "y", plot.y) | {"field": "y"}, "x": {"value": 0},
                         "text": {"field": "y", "type": "nominal"}}}
