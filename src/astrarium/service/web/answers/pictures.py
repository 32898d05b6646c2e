"""Plots of an answer as pictures of a view: static SVG, which needs no script."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from astrarium.report.pages.html import note, section
from astrarium.report.plot.find import plots_of
from astrarium.report.plot.plot import Plot
from astrarium.report.plot.svg import svg

__all__ = ["picture", "pictures"]

BROAD, NARROW = 720, 340        # px of the picture, and of the one on a phone


def picture(plot: Plot) -> str:
    """A plot under its title, with its sentence."""
    return section(plot.title, f'<figure class="plot"><div class="still broad">{svg(plot, BROAD)}</div>'
                   f'<div class="still narrow">{svg(plot, NARROW)}</div></figure>', note(plot.sentence))


def pictures(verb: str, found: object, without: Collection[str] = ()) -> str:
    """Every plot that the answer of a verb has, but those named."""
    return "".join(_drawn(plot for name, plot in plots_of(verb, found) if name not in without))


def _drawn(plots: Iterable[Plot]) -> Iterable[str]:
    return map(picture, plots)
