"""Colours of plots, in light and dark."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["DARK", "LIGHT", "PALETTE", "ROLES", "plot_style", "ranked"]

PALETTE = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#44bb99", "#bbcc33", "#999999")
"""Paul Tol's bright scheme, which colour-blind readers can tell apart, and more of his; none vanishes on black."""

LIGHT = {"paper": "#ffffff", "ink": "#222222", "muted": "#666666", "grid": "#e4e4e4", "limit": "#cc3311"}
DARK = {"paper": "#16181c", "ink": "#e6e6e6", "muted": "#a6a6a6", "grid": "#34373d", "limit": "#ff6b52"}
"""Colours by role."""

ROLES = tuple(LIGHT)


def plot_style() -> str:
    """CSS of the variables that `svg` uses: --plot-paper, --plot-ink, --plot-muted, --plot-grid and --plot-limit, light
    and dark by the system's preference, or by `data-theme` of the root."""
    light, dark = (";".join(f"--plot-{role}:{colour}" for role, colour in each.items()) for each in (LIGHT, DARK))
    return (f":root{{{light}}}@media(prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
            f":root[data-theme=dark]{{{dark}}}")


def ranked(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name, in turn; from the tenth on the last one."""
    return {name: PALETTE[min(place, len(PALETTE) - 1)] for place, name in enumerate(dict.fromkeys(names))}
