#!/usr/bin/env python3
"""Figures of docs/background/models_*.md: one layer of each family, drawn from its own graph.

`python tools/model_figures.py` writes docs/background/figures/*.svg; `--check` exits 1 where one is not current. A row
is a kernel or a collective of the forward pass, in order; a bar its share of the layer's products.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from astrarium import catalog
from astrarium.config import decode
from astrarium.vocab import NodeKind
from astrarium.workload.graph import Options, lower_stack
from astrarium.workload.model.base import Model
from astrarium.workload.model.stacks import stack_of
from astrarium.workload.pieces import Step

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "background" / "figures"
ROW, BOX, LEFT, BAR = 24, 250, 190, 150
COLOURS = {"product": "#9ec5fe", "other": "#dee2e6", "collective": "#ffb3a7"}


@dataclass(frozen=True)
class Figure:
    """The block `block` of a catalog model on `degrees` ranks."""

    name: str
    model: str
    block: str
    degrees: Mapping[str, int] = field(default_factory=dict)
    tp_sequence: bool = False
    batch: int = 8


FIGURES = (
    Figure("decoder", "llama3-8b", "layer", {"tp": 2, "edp": 2}, tp_sequence=True),
    Figure("experts", "deepseek-v3", "expert_layer", {"ep": 8, "tp": 2}, tp_sequence=True),
    Figure("encoder", "vit-b-16", "layer", {"tp": 2}),
    Figure("encoder_decoder", "t5-11b", "decoder_layer", {"tp": 2}),
    Figure("diffusion", "dit-xl-2", "layer", {"sp": 2}),
    Figure("mamba", "mamba2-2.7b", "layer", {"tp": 2, "sp": 2}),
    Figure("dlrm", "dlrm-dcnv2", "front", {"ep": 8}, batch=8192),
)


def steps(figure: Figure) -> tuple[Step, ...]:
    """The forward pass of the block, one step per operator."""
    model = decode(Model, catalog.load("models")[figure.model]["model"])
    seq = getattr(model, "seq", 1)
    options = Options(figure.degrees, figure.batch, seq, tp_sequence=figure.tp_sequence, fuse=False)
    found = lower_stack(stack_of(model, options), options)
    return next(block for block in found.blocks if block.name == figure.block).forward.steps


def _label(step: Step) -> tuple[str, str]:
    """(text, colour) of a row."""
    name = step.name.split(".", 1)[1]
    if step.kind == NodeKind.COMP:
        return name, COLOURS["product" if step.gemm else "other"]
    if step.op is None:
        return name, COLOURS["collective"]
    return f"{step.op.name.lower()} over {' x '.join(step.axes)}: {name.rsplit('.', 1)[0]}", COLOURS["collective"]


def _arc(start: int, end: int) -> str:
    """From row `start` to row `end`, on the left."""
    top, bottom, far = _middle(start), _middle(end), min(170, 24 + 9 * (end - start))
    return (f'<path d="M{LEFT} {top} C{LEFT - far} {top + 8},{LEFT - far} {bottom - 8},{LEFT} {bottom}" fill="none" '
            'stroke="#868e96" marker-end="url(#tip)"/>')


def _middle(row: int) -> int:
    return 40 + row * ROW + ROW // 2


def draw(figure: Figure) -> str:
    """The figure as SVG."""
    rows = steps(figure)
    most, height = max((step.gemm for step in rows), default=0.0) or 1.0, 52 + ROW * len(rows)
    total = sum(step.gemm for step in rows) or 1.0
    ranks = ", ".join(f"{axis} {degree}" for axis, degree in figure.degrees.items())
    title = f"{figure.model}: {figure.block.replace('_', ' ')}, forward, {ranks}" + (
        ", tp_sequence" if figure.tp_sequence else "")
    lines = _head(title, height)
    for number, step in enumerate(rows):
        text, colour = _label(step)
        y = 40 + number * ROW
        lines.append(f'<rect x="{LEFT}" y="{y + 2}" width="{BOX}" height="{ROW - 4}" rx="4" fill="{colour}"/>')
        lines.append(f'<text x="{LEFT + 8}" y="{y + 16}">{html.escape(text)}</text>')
        lines += [_arc(before, number) for before in step.after if before != number - 1]
        if number - 1 in step.after:
            lines.append(f'<path d="M{LEFT + 20} {y - 2} v4" stroke="#868e96"/>')
        if step.gemm:
            width = max(1.0, BAR * step.gemm / most)
            lines.append(f'<rect x="{LEFT + BOX + 12}" y="{y + 6}" width="{width:.1f}" height="{ROW - 12}" '
                         'fill="#4c8bf5"/>')
            lines.append(f'<text x="{LEFT + BOX + 18 + width:.1f}" y="{y + 16}">{100 * step.gemm / total:.1f} %</text>')
    return "\n".join([*lines, "</svg>", ""])


def _head(title: str, height: int) -> list[str]:
    wide = LEFT + BOX + BAR + 90
    return [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {height}" width="{wide}" height="{height}" '
            'font-family="sans-serif" font-size="12" fill="#212529">',
            f"<title>{html.escape(title)}</title>",
            '<defs><marker id="tip" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
            '<path d="M0 0 L6 3 L0 6 z" fill="#868e96"/></marker></defs>',
            f'<rect width="{wide}" height="{height}" fill="#ffffff"/>',
            f'<text x="12" y="24" font-size="14" font-weight="bold">{html.escape(title)}</text>']


def main(arguments: Sequence[str]) -> int:
    """Write the figures, or check them."""
    stale = []
    for figure in FIGURES:
        path, text = FOLDER / f"model_{figure.name}.svg", draw(figure)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if "--check" not in arguments:
                path.write_text(text, encoding="utf-8")
    if "--check" in arguments and stale:
        print("not current:", ", ".join(stale))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
