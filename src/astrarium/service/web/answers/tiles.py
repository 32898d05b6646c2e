"""Tiles: a figure with its change against what was before."""

from __future__ import annotations

from collections.abc import Iterable

from astrarium.report.pages.html import escape
from astrarium.report.tables.alike import EQUAL
from astrarium.service.answer import Number

__all__ = ["strip", "tile"]


def strip(found: Iterable[str]) -> str:
    """Tiles in a row."""
    return f'<div class="tiles" role="region" aria-label="Figures" tabindex="0">{"".join(found)}</div>'


def tile(label: str, text: str, now: Number, before: Number | None, up: bool, note: str, kind: str = "") -> str:
    """One figure. `up`: whether more is better."""
    number, space, unit = text.partition(" ")
    return (f'<div class="tile{kind}"><span class="label">{escape(label)}</span>'
            f'<b>{escape(number)}{space}<i>{escape(unit)}</i></b>{_change(now, before, up)}'
            f'<small>{escape(note)}</small></div>')


def _change(now: Number, then: Number | None, up: bool) -> str:
    """`+3.2 %` with its colour; nothing where nothing was changed."""
    if now.value is None or then is None or not then.value:
        return ""
    share = now.value / then.value - 1
    if abs(share) < 5e-6:
        return '<span class="change">unchanged</span>'
    if abs(share) < EQUAL:
        return '<span class="change">equal within rounding</span>'
    kind = "better" if (share > 0) == up else "worse"
    text = f"x {share + 1:.3g}" if share >= 1 else f"{100 * share:+.{2 if abs(share) < 0.1 else 3}g} %"
    return f'<span class="change {kind}">{escape(text)}<span class="vh"> ({kind})</span></span>'
