"""Plots as files: .svg by ourselves; .png, and .json of the Vega-Lite specification."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any

from astrarium.config.whole import write_whole
from astrarium.errors import InputError, install_line
from astrarium.report.plot.colours import DARK, LIGHT
from astrarium.report.plot.plot import Plot
from astrarium.report.plot.svg import svg_file
from astrarium.report.plot.vega import vega

__all__ = ["ENDS", "need_renderer", "save", "titled"]

ENDS = (".svg", ".png", ".json")
WIDE = 720          # px
FINE = 2.0          # px of a PNG for each of them


def need_renderer(path: str, flag: str) -> None:
    """Raises InputError where a plot cannot be written to `path`: an unknown ending, or .png without the extra."""
    end = PurePath(path).suffix.lower()
    if end not in ENDS:
        raise InputError(flag, f"{path} ends in {end!r}" if end else f"{path} has no ending",
                         expected="NAME.svg, NAME.png (extra: pages) or NAME.json (a Vega-Lite specification)")
    if end == ".png":
        _renderer(flag)


def save(plot: Plot, path: str, flag: str = "path", *, dark: bool = False) -> None:
    """Write a plot: .svg (by itself light or dark, as its viewer prefers), .png (extra: pages) or .json (Vega-Lite).

    Raises:
        InputError: of an unknown ending, a missing extra, or a file that cannot be written.
    """
    need_renderer(path, flag)
    end = PurePath(path).suffix.lower()
    found = (svg_file(plot).encode() if end == ".svg" else
             _renderer(flag).vegalite_to_png(titled(plot, dark=dark), scale=FINE) if end == ".png" else
             (json.dumps(titled(plot, dark=dark), indent=1) + "\n").encode())
    with write_whole(path) as stream:
        stream.write(found)


def titled(plot: Plot, *, dark: bool = False) -> dict[str, Any]:
    """The specification of a picture that is alone: with its title, ground and width."""
    spec = vega(plot, WIDE, dark=dark)
    colour = DARK if dark else LIGHT
    title = {"text": plot.title, "anchor": "start", "color": colour["ink"], "fontSize": 15, "offset": 14}
    return spec | {"title": title, "background": colour["paper"], "padding": 12}


def _renderer(flag: str) -> Any:
    try:
        import vl_convert
    except ImportError as error:
        raise InputError(flag, "a PNG needs vl-convert",
                         expected=f"{install_line('pages')}, or a name that ends in .svg") from error
    return vl_convert
