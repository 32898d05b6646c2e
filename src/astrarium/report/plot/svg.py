"""Plots as static SVG without any extra: colours of the page's theme, hover texts, a title and a description."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from astrarium.report.plot.colours import plot_style
from astrarium.report.plot.frame import FONT, LETTER, Frame, frame_of, text_width
from astrarium.report.plot.plot import Axis, Plot
from astrarium.report.plot.svg_marks import HALO, ink, marks

__all__ = ["cell", "plot_style", "svg", "svg_file"]

GRID, INK, MUTED = (ink(role) for role in ("grid", "ink", "muted"))
MARGIN = 12     # px around the picture of a file


def svg(plot: Plot, width: float = 720) -> str:
    """One <svg> for a page that has `plot_style()` (without it the picture is light).

    Args:
        plot: what to draw.
        width: of the picture, in px; it shrinks where the page is narrower. 360 suits a phone.
    """
    frame = frame_of(plot, width)
    body = "".join((*_axes(plot, frame), *(part for layer in plot.layers for part in marks(plot, layer, frame)),
                    *_legend(plot, frame), *_names(plot, frame)))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 {width:g} {frame.height:g}" '
            f'width="{width:g}" height="{frame.height:g}" role="img" aria-label="{html.escape(plot.title)}" '
            f'font-family="system-ui,sans-serif" font-size="{FONT}" style="max-width:100%;height:auto">'
            f"<desc>{html.escape(plot.sentence)}</desc>{body}</svg>")


def svg_file(plot: Plot, width: float = 720) -> str:
    """The text of an SVG file, with its title drawn, its own colours and ground."""
    frame = frame_of(plot, width)
    whole, high = width + 2 * MARGIN, frame.height + 34 + MARGIN
    title = plot.title if text_width(plot.title) * 1.25 < width else plot.title[:int(width / 8)] + "…"
    return ('<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole:g} {high:g}" width="{whole:g}" '
            f'height="{high:g}" font-family="system-ui,sans-serif"><style>{plot_style()}</style>'
            f'<rect width="100%" height="100%" fill="{ink("paper")}"/>'
            f'<text x="{MARGIN + 4}" y="24" font-size="15" font-weight="600" fill="{INK}">{html.escape(title)}</text>'
            f'<g transform="translate({MARGIN} 34)">{svg(plot, width)}</g></svg>\n')


def cell(plot: Plot) -> str:
    """A plot with its sentence, as a notebook shows it: on its own ground, as it may be light in a dark system."""
    picture = svg_file(plot).split("\n", 1)[1]
    return f'<figure style="margin:0">{picture}<figcaption>{html.escape(plot.sentence)}</figcaption></figure>'


def _axes(plot: Plot, frame: Frame) -> Iterator[str]:
    """Grid, ticks and titles; names of categories are drawn over the marks (`_names`)."""
    if plot.x.shown:
        upright = "".join(f"M{at:.1f} {frame.top:g}V{frame.bottom:g}" for at, _ in frame.x.ticks)
        yield f'<path d="{upright}" stroke="{GRID}"/>' if upright and not plot.x.order else ""
        yield from (_text(min(max(at, text_width(text) / 2), frame.width - text_width(text) / 2),
                          frame.bottom + 16, text, "middle") for at, text in _apart(frame.x.ticks))
        yield _text(frame.right, frame.bottom + 34, _title(plot.x, frame.x.unit), "end", INK)
    if plot.y.shown and not plot.y.order:
        level = "".join(f"M{frame.left:g} {at:.1f}H{frame.right:g}" for at, _ in frame.y.ticks)
        yield f'<path d="{level}" stroke="{GRID}"/>'
        yield from (_text(frame.left - 6, at + 4, text, "end") for at, text in frame.y.ticks)
        yield _text(2, frame.top - 9, _title(plot.y, frame.y.unit), "start", INK)


def _apart(texts: Sequence[tuple[float, str]]) -> Iterator[tuple[float, str]]:
    """Those texts of an axis that do not run into the one before."""
    end = float("-inf")
    for at, text in texts:
        half = text_width(text) / 2 + 3
        if at - half >= end:
            yield at, text
            end = at + half


def _title(axis: Axis, unit: str) -> str:
    return f"{axis.title}, {unit}" if unit and axis.title else axis.title or unit


def _names(plot: Plot, frame: Frame) -> Iterator[str]:
    """Names of the categories of y."""
    if not plot.y.order:
        return
    for at, name in frame.y.ticks:
        if frame.above:
            most = int((frame.right - frame.left) / 6.4)
            yield _text(frame.left, at - frame.y.band / 2 + 13, name if len(name) <= most else name[:most - 1] + "…",
                        "start", INK)
        elif plot.y.shown:
            yield _text(frame.left - 6, at + 4, name, "end", INK)


def _legend(plot: Plot, frame: Frame) -> Iterator[str]:
    for x, y, name in frame.keys:
        yield f'<rect x="{x:g}" y="{y - 10:g}" width="11" height="11" rx="2" fill="{ink(plot.colours[name])}"/>'
        most = int((frame.width - x - 16) / LETTER)
        yield _text(x + 16, y, name if len(name) <= most else name[:most - 1] + "…", "start", INK)


def _text(x: float, y: float, words: str, anchor: str, colour: str = MUTED) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{HALO}>{html.escape(words)}</text>'

