"""`astrarium trace graph FILE -o OUT`: the graph of a trace as a picture."""

from __future__ import annotations

import argparse
import os

from astrarium.cli.arguments import Parser, note, place, whole, wrote
from astrarium.errors import InputError

__all__ = ["arguments", "draw", "run"]


def arguments(parser: Parser) -> None:
    """The file, the picture, how much of it."""
    parser.add_argument("file", metavar="FILE", help="one trace (.et, plain or gzip)")
    parser.add_argument("-o", "--out", metavar="OUT", required=True,
                        help="writes .svg, .dot or .graphml; .pdf, .png and a tidier .svg with Graphviz")
    parser.renamed = {"--limit": "--most"}
    parser.add_argument("--most", metavar="N", type=whole, default=60,
                        help="larger graphs are drawn by scope, at most N of them (60)")
    parser.add_argument("--depth", metavar="D", type=whole, help="depth of scopes to draw (as deep as fits)")


def run(options: argparse.Namespace) -> int:
    """Draw."""
    draw(options.file, options.out, options.most, options.depth)
    return 0


def draw(file: str, out: str, limit: int, depth: int | None) -> None:
    """Writes the picture in the form that the name of `out` says."""
    from astrarium.config.whole import write_whole
    from astrarium.report.trace.graph import dot_text, graphml_text, picture, rendered
    from astrarium.trace import read_traces

    form = os.path.splitext(out)[1][1:].lower()
    if form not in ("dot", "graphml", "svg", "pdf", "png"):
        raise InputError("--out", f"{out!r}", expected="a name that ends in .dot, .graphml, .svg, .pdf or .png")
    place("--out", out)
    drawn = picture(read_traces([file]).classes[0], limit=limit, depth=depth)
    if drawn.depth is not None:
        scopes = f"{len(drawn.boxes):,} scope{'s' if len(drawn.boxes) != 1 else ''}"
        note(f"{scopes} instead of nodes; --most draws more")
    if form in ("dot", "graphml"):
        lines = dot_text(drawn) if form == "dot" else graphml_text(drawn)
        data = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
    else:
        data = rendered(drawn, form)
    with write_whole(out) as stream:
        stream.write(data)
    wrote(out)
