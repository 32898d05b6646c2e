"""The figures of the registry (kind `figure`), with those of plug-ins."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping

from astrarium import registry
from astrarium.cost.assumed import with_prices
from astrarium.cost.figure import Figure
from astrarium.design import Design
from astrarium.errors import InputError, nearest
from astrarium.result import Result

__all__ = ["FIGURES", "figures", "prices_assumed", "sentence"]

KIND = registry.Kind("figure")


class _Figures(Mapping[str, Figure]):
    """Name -> figure; a figure is imported when it is asked for."""

    def __getitem__(self, name: str) -> Figure:
        if name not in KIND:
            raise KeyError(name)
        return _loaded(name)

    def __iter__(self) -> Iterator[str]:
        return iter(KIND.names())

    def __len__(self) -> int:
        return len(KIND.names())

    def __contains__(self, name: object) -> bool:
        return name in KIND


@functools.cache
def _loaded(name: str) -> Figure:
    found = KIND.load(name)
    if not isinstance(found, Figure):
        raise InputError(f"figure.{name}", f"is of {type(found).__name__}", expected="an astrarium.cost.Figure")
    return found


FIGURES: Mapping[str, Figure] = _Figures()
"""Every figure by its name. Times are ns, sizes bytes, bandwidths byte/ns."""


def sentence(name: str) -> str:
    """What a figure is."""
    return registry.entries("figure")[name].sentence


def figures(design: Design, result: Result, more: Iterable[str] = ()) -> dict[str, float]:
    """The figures that `run` prints, by name: the built-in ones with a label for which the design says what they need,
    and those in `more`, of which it must: else InputError."""
    found = {}
    for name in registry.built_ins("figure"):
        figure = FIGURES[name]
        known = result.recorded or not figure.record
        if figure.label and known and (figure.printed is None or figure.printed(design)):
            with contextlib.suppress(InputError):
                found[name] = _of(figure, design, result)
    return found | {name: _of(_known(name), design, result) for name in more}


def _known(name: str) -> Figure:
    if name not in FIGURES:
        raise InputError("figure", f"{name[:60]!r} is not known", expected="one of " + ", ".join(FIGURES),
                         did_you_mean=nearest(name, FIGURES))
    return FIGURES[name]


def prices_assumed(design: Design, found: Iterable[str]) -> tuple[str, ...]:
    """What the figures in `found` assume of prices and powers, in words."""
    return with_prices(design)[1] if any(FIGURES[name].of_catalog for name in found) else ()


def _of(figure: Figure, design: Design, result: Result) -> float:
    if figure.of_catalog:
        design, _ = with_prices(design)
    if figure.check is not None:
        figure.check(design)
    return figure.measure(design, result) if figure.of_design is None else figure.of_design(design)
