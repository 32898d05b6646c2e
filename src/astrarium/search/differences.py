"""The knobs in which two designs differ, and the designs in between.

Between two parallelisations of the same ranks some axes have changed and others have not, so that their product is no
longer the number of ranks; `made_up` sets one of the other axes so that it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from astrarium.config import Config, decode, to_plain
from astrarium.config.spec import specs
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.workload.transformer import Transformer

__all__ = ["AXES", "Difference", "between", "differences", "made_up"]

Steps = tuple[str | int, ...]

TOGETHER = ("family",)      # a model whose fields differ is another model
OWN_TAG = ("shape",)        # a dim of another shape keeps what both shapes have
AXES = ("dp", "cp", "sp", "pp", "tp")
"""Axes in the order in which they make up for other axes."""


class Difference(Struct, frozen=True):
    """A knob with its values in both designs, one per place where they differ: `network.dims[*].bandwidth` of several
    places, `network.dims[0].bandwidth` of one."""

    knob: str
    places: tuple[Steps, ...]
    before: tuple[Any, ...]
    after: tuple[Any, ...]


def differences(first: Design, second: Design) -> tuple[Difference, ...]:
    """The knobs that differ, in the order of the design's fields. The entries of a list of sections (dims) are one
    knob per field, with the entry's number if only one differs; lists of another length, sections of another kind
    (another workload source, another compute model) and models with several fields that differ are one knob as a
    whole."""
    found: dict[str, list[Steps]] = {}
    for steps in _places(first, second, ()):
        found.setdefault(_name(steps, "*"), []).append(steps)
    return tuple(Difference(name if len(places) > 1 else _name(places[0]), tuple(places),
                            tuple(_at(first, each) for each in places), tuple(_at(second, each) for each in places))
                 for name, places in found.items())


def between(first: Design, second: Design, changes: Iterable[Difference], more: Mapping[Steps, Any] | None = None
            ) -> Design:
    """`first` with the knobs of `changes` as in `second`, and `more` values at their places. Raises InputError if the
    configuration refuses it."""
    plain, other = to_plain(first, defaults=True), to_plain(second, defaults=True)
    for change in changes:
        for *owners, last in change.places:
            target, source = _inside(plain, owners), _inside(other, owners)
            if last in OWN_TAG:
                _turn(target, source)
            target[last] = source[last]
    for (*owners, last), value in (more or {}).items():
        _inside(plain, owners)[last] = value
    return decode(type(first), plain)


def _turn(target: dict[str, Any], source: dict[str, Any]) -> None:
    """Exchange the fields that only one of two kinds has."""
    for name in target.keys() - source.keys():
        del target[name]
    for name in source.keys() - target.keys():
        target[name] = source[name]


def _places(first: Any, second: Any, steps: Steps) -> Iterator[Steps]:
    if isinstance(first, Config) and isinstance(second, Config):
        yield from _in_sections(first, second, steps)
    elif _lists_of_sections(first, second):
        for index, (one, other) in enumerate(zip(first, second)):
            yield from _places(one, other, (*steps, index))
    elif first != second:
        yield steps


def _in_sections(first: Config, second: Config, steps: Steps) -> Iterator[Steps]:
    names = [spec.name for spec in specs(type(first))]
    if first.tag != second.tag or type(first) is not type(second):
        if first.tag_key not in OWN_TAG:
            yield steps
            return
        yield (*steps, first.tag_key)
        there = {spec.name for spec in specs(type(second))}
        names = [name for name in names if name in there]
    found = [place for name in names for place in _places(getattr(first, name), getattr(second, name), (*steps, name))]
    yield from [steps] if first.tag_key in TOGETHER and len(found) > 1 else found


def _lists_of_sections(first: Any, second: Any) -> bool:
    return (isinstance(first, tuple) and isinstance(second, tuple) and len(first) == len(second)
            and all(isinstance(each, Config) for each in (*first, *second)))


def _name(steps: Steps, every: str = "") -> str:
    """The path of a place, with `every` for the numbers of entries, unless it is empty."""
    return "".join(f"[{every or step}]" if isinstance(step, int) else f".{step}" for step in steps)[1:]


def _at(owner: Any, steps: Steps) -> Any:
    for step in steps:
        owner = owner[step] if isinstance(step, int) else (
            owner.tag if isinstance(owner, Config) and step == owner.tag_key else getattr(owner, step))
    return owner


def _inside(plain: Any, steps: Iterable[str | int]) -> Any:
    for step in steps:
        plain = plain[step]
    return plain


def made_up(first: Design, second: Design, chosen: Sequence[Difference]) -> Iterator[Design]:
    """Yield `first` with the `chosen` knobs as in `second` and one more axis set so that the product is the number of
    ranks. Yields nothing if fewer than three axes differ (two only change together), if the numbers of ranks differ, or
    if the chosen knobs alone give the number of ranks."""
    one, other = first.workload, second.workload
    if not isinstance(one, Transformer) or not isinstance(other, Transformer) or one.ranks != other.ranks:
        return
    changed = [axis for axis in AXES if getattr(one, axis) != getattr(other, axis)]
    names = {each.knob for each in chosen}
    here = {axis: getattr(other if f"workload.{axis}" in names else one, axis) for axis in AXES}
    if len(changed) < 3 or first.network.npus != second.network.npus or math.prod(here.values()) == one.ranks:
        return
    for axis in changed:
        if f"workload.{axis}" in names:
            continue
        value, rest = divmod(one.ranks * here[axis], math.prod(here.values()))
        if rest == 0 and value > 0:
            try:
                yield between(first, second, chosen, {("workload", axis): value})
            except InputError:
                continue
