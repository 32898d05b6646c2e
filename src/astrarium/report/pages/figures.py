"""Plots in a page: static SVG for every screen, which Vega replaces where its scripts were at hand when the page was
written."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Collection, Iterator

from astrarium.report.pages.html import note, section, shell
from astrarium.report.plot.find import plots_of
from astrarium.report.plot.plot import Plot
from astrarium.report.plot.svg import svg
from astrarium.report.plot.vega import vega, vega_config

__all__ = ["figure", "figures", "interactive"]

BROAD, NARROW = 720, 340        # px of the static picture, and of the one on a phone


def figure(plot: Plot, half: bool = True) -> str:
    """A plot under its title, with its sentence. `half`: two of them share the width of a large screen."""
    spec = vega(plot)
    text = _json({name: spec[name] for name in spec if name not in ("$schema", "config")})
    picture = (f'<figure class="plot"><div class="still broad">{svg(plot, BROAD)}</div>'
               f'<div class="still narrow">{svg(plot, NARROW)}</div><script type="application/json">{text}</script>'
               "</figure>")
    return section(plot.title, picture, note(plot.sentence), half=half)


def figures(verb: str, answer: object, without: Collection[str] = ()) -> Iterator[str]:
    """Every plot that the answer of a verb has, but those named."""
    return (figure(plot) for name, plot in plots_of(verb, answer) if name not in without)


def interactive() -> str:
    """Vega, packed, and the script that draws with it; empty without the extra `pages`, which holds it."""
    try:
        from vl_convert import javascript_bundle
    except ImportError:
        return ""
    packed = base64.b64encode(gzip.compress(javascript_bundle().encode(), mtime=0)).decode()
    configs = _json({"light": vega_config(), "dark": vega_config(dark=True)})
    return (f'<script type="text/plain" id="vega">{packed}</script>'
            f'<script type="application/json" id="vega-configs">{configs}</script>'
            f"<script>{shell('interactive.js')}</script>")


def _json(plain: object) -> str:
    """JSON that no text in it ends the script around."""
    return json.dumps(plain, separators=(",", ":")).replace("<", "\\u003c")
