"""Plots in a page: static SVG for every screen, which Vega replaces where its scripts were at hand when the page was
written."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Collection, Iterator

from astrarium.report.pages.html import note, section, shell
from astrarium.report.plot.find import plots_of
from astrarium.report.plot.plot import Plot
from astrarium.report.plot.svg import svg
from astrarium.report.plot.vega import vega, vega_config

__all__ = ["figure", "figures", "with_vega"]

BROAD, NARROW = 720, 340        # px of the static picture, and of the one on a phone
_SPEC = re.compile(r'<script type="application/json">(.*?)</script>')


def figure(plot: Plot, half: bool = True) -> str:
    """A plot under its title, with its sentence. `half`: two of them share the width of a large screen."""
    spec = vega(plot)
    text = _json({name: spec[name] for name in spec if name not in ("$schema", "config")})
    picture = (f'<figure class="plot"><div class="still broad">{_inline(plot, BROAD)}</div>'
               f'<div class="still narrow">{_inline(plot, NARROW)}</div><script type="application/json">{text}</script>'
               "</figure>")
    return section(plot.title, picture, note(plot.sentence), half=half)


def _inline(plot: Plot, width: float) -> str:
    """The static picture; HTML needs no namespace."""
    return svg(plot, width).replace(' xmlns="http://www.w3.org/2000/svg"', "", 1)


def figures(verb: str, answer: object, without: Collection[str] = ()) -> Iterator[str]:
    """Every plot that the answer of a verb has, but those named."""
    return (figure(plot) for name, plot in plots_of(verb, answer) if name not in without)


def with_vega(text: str) -> tuple[str, str]:
    """The text of a page without the specifications of its plots, and a script that has these and Vega, packed; none
    without the extra `pages`, which holds Vega."""
    specs = _SPEC.findall(text)
    text = _SPEC.sub("", text)
    try:
        from vl_convert import javascript_bundle
    except ImportError:
        return text, ""
    plain = (f'{{"vega":{_json(javascript_bundle())},"light":{_json(vega_config())},'
             f'"dark":{_json(vega_config(dark=True))},"plots":[{",".join(specs)}]}}')
    packed = base64.b64encode(gzip.compress(plain.encode(), mtime=0)).decode()
    return text, f'<script type="text/plain" id="plots">{packed}</script><script>{shell("interactive.js")}</script>'


def _json(plain: object) -> str:
    """JSON in which no text looks like a tag."""
    return json.dumps(plain, separators=(",", ":")).replace("<", "\\u003c")
