"""Plots in a page: static SVG for every screen, which Vega replaces where its scripts were at hand when the page was
written."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from astrarium.report.pages.html import note, section
from astrarium.report.pages.vega import script_json
from astrarium.report.plot.find import plots_of
from astrarium.report.plot.plot import Plot
from astrarium.report.plot.svg import svg
from astrarium.report.plot.vega import vega

__all__ = ["figure", "figures"]

BROAD, NARROW = 720, 340        # px of the static picture, and of the one on a phone
HEAVY = 25_000                  # letters of a picture that a page holds only once


def figure(plot: Plot, of: str = "") -> str:
    """A plot under its title, before which it says whose it is (`of`), and over its sentence."""
    spec = vega(plot)
    text = script_json({name: spec[name] for name in spec if name not in ("$schema", "config")})
    broad, narrow = _inline(plot, BROAD), _inline(plot, NARROW)
    still = f'<div class="still">{broad}</div>' if len(narrow) > HEAVY else (
        f'<div class="still broad">{broad}</div><div class="still narrow">{narrow}</div>')
    picture = f'<figure class="plot">{still}<script type="application/json">{text}</script></figure>'
    return section(of + plot.title, picture, note(plot.sentence), half=True)


def _inline(plot: Plot, width: float) -> str:
    """The static picture; HTML needs no namespace."""
    return svg(plot, width).replace(' xmlns="http://www.w3.org/2000/svg"', "", 1)


def figures(verb: str, answer: object, without: Collection[str] = (), of: str = "") -> Iterator[str]:
    """Every plot that the answer of a verb has, but those named; each title begins with `of`."""
    return (figure(plot, of) for name, plot in plots_of(verb, answer) if name not in without)
