"""Starts of a search: designs that are known already, from files or values, as points of a space."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from astrarium.config import get
from astrarium.config.base import ConfigError
from astrarium.config.yamlfile import read_text
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.search.axes import Axis, Point
from astrarium.search.choice import plain
from astrarium.search.space import Space
from astrarium.search.subject import load_base

__all__ = ["Start", "Starts", "base_name", "starts_of"]

Start: TypeAlias = "str | os.PathLike[str] | Design | Mapping[str, Any]"

KNOB = "knob:"      # what columns of `astrarium report --csv` begin with
MOST = 10_000       # rows of a CSV
NAMED = 3           # replaced values that a note names
LONGEST = 60        # characters of one


class Starts(Struct, frozen=True):
    """`points`: the first trials of a search. `notes`: the values that the space does not have, and their nearest."""

    points: tuple[Point, ...] = ()
    notes: tuple[str, ...] = ()


def starts_of(space: Space, given: Start | Sequence[Start], base: bool = False) -> Starts:
    """The points nearest to designs that are given, each once, in their order.

    Args:
        space: The space.
        given: A Design, a mapping knob -> value, or a file (a design, or a CSV with a column per knob); or several of
            them.
        base: Whether the base comes first. It does not if the space has variables, or a knob without order that has
            not the base's value.

    Raises:
        InputError: for a file that cannot be read, and for a start that has none of the space's knobs.
    """
    several: Sequence[Any] = given if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    found: dict[Point, None] = {}
    replaced: list[str] = []
    values, why = _of_base(space) if base else (None, "")
    if values is not None:
        several = [values, *several]
    for number, each in enumerate(several):
        for where, start in _values_of(space, each):
            name = "the base" if values is not None and not number else where
            point = _nearest(space, name, start)
            found[point] = None
            replaced += _replaced(space, name, start, point)
    more = f"; {len(replaced) - NAMED:,} more" if len(replaced) > NAMED else ""
    said = [f"starts: values that the space does not have, and their nearest: {'; '.join(replaced[:NAMED])}{more}"]
    return Starts(tuple(found), (*([why] if why else []), *(said if replaced else [])))


def base_name(space: Space) -> str:
    """What trial 0 of a search that begins with the base is: the base, or where the space lacks a value of it (one that
    is left out, as another field gives it, or between two choices) the design nearest to it."""
    return "design nearest to the base" if starts_of(space, (), base=True).notes else "base"


def _of_base(space: Space) -> tuple[Mapping[str, Any] | None, str]:
    """Knob -> value of the base; None where it is not near the space, and why."""
    if space.base is None or any(not axis.paths for axis in space.axes):
        return None, ""
    for axis in space.axes:
        known = [plain(value) for value in axis.values]
        if axis.size and not axis.ordered and axis.when is None and plain(axis.otherwise) not in known:
            return None, (f"the base is not tried: {axis.name} of the base is {_shown(axis.otherwise)}, which is not a "
                          "choice")
    return {axis.name: axis.otherwise for axis in space.axes if axis.when is None or axis.otherwise is not None}, ""


def _replaced(space: Space, where: str, values: Mapping[str, Any], point: Point) -> Iterator[str]:
    """Texts about the values of a start that its point does not have."""
    has = space.values(point)
    for axis in space.axes:
        if axis.name not in values:
            continue
        wanted = _plain_of(axis, values[axis.name], where)
        if axis.name in has and plain(has[axis.name]) != wanted and (wanted is not None or axis.when is None):
            yield f"{axis.name} {_shown(values[axis.name])} -> {_shown(has[axis.name])} ({where})"


def _shown(value: Any) -> str:
    return "null" if value is None else str(value)[:LONGEST]


def _values_of(space: Space, given: Start) -> list[tuple[str, Mapping[str, Any]]]:
    """(where from, knob -> value) of each design of a start."""
    if isinstance(given, Design):
        return [("start", _of_design(space, given))]
    if isinstance(given, Mapping):
        return [("start", given)]
    if not isinstance(given, (str, os.PathLike)):
        raise InputError("start", f"{given!r} is no design", expected="a Design, a mapping knob -> value, or a file")
    path = os.fspath(given)
    if path.endswith(".csv"):
        return _of_csv(path)
    return [(path, _of_design(space, load_base(path)))]


def _of_design(space: Space, design: Design) -> dict[str, Any]:
    found = {}
    for axis in space.axes:
        if axis.paths:
            try:
                found[axis.name] = get(design, axis.paths[0])
            except InputError:      # another variant, or fewer dims
                continue
    return found


def _of_csv(path: str) -> list[tuple[str, Mapping[str, Any]]]:
    rows = csv.DictReader(io.StringIO(read_text(path)))
    found: list[tuple[str, Mapping[str, Any]]] = []
    try:
        for number, row in enumerate(rows, 2):
            if number - 1 > MOST:
                raise InputError(path, f"has more than {MOST:,} rows", expected="the designs to start from")
            named = {str(key).removeprefix(KNOB): _number(value) for key, value in row.items() if value}
            for name, value in named.items():
                if isinstance(value, float) and not math.isfinite(value):
                    raise InputError(f"{path}:{number}: {name}", f"{value} is no value", expected="a finite number")
            found.append((f"{path}:{number}", named))
    except csv.Error as error:
        raise InputError(path, f"is no CSV ({error})") from None
    if not found:
        raise InputError(path, "has no designs", expected="a row of knobs' names, and a row for each design")
    return found


def _number(text: Any) -> Any:
    """A cell as a number (in base units) if it is one."""
    try:
        return {"True": True, "False": False}[text] if text in ("True", "False") else float(text)
    except (TypeError, ValueError):
        return text


def _nearest(space: Space, where: str, values: Mapping[str, Any]) -> Point:
    """The feasible point nearest to values; knobs that they lack are as in the base."""
    known = {axis.name for axis in space.axes}
    if not known & values.keys():
        raise InputError(where, "has none of the space's knobs",
                         expected="a value for one of " + ", ".join(sorted(known)))
    base = [values.get(axis.name, axis.otherwise) for axis in space.axes]
    wish = [_wish(axis, value, where) for axis, value in zip(space.axes, base)]
    left = [number if axis.when is None or axis.name in values else -1 for axis, number in zip(space.axes, wish)]
    found = [space.projector.project(each) for each in (wish, left)]      # conditional knobs as in the base, or none
    return min(found, key=lambda point: sum(kept != wanted for axis, kept, wanted in zip(space.axes, point, wish)
                                            if axis.name in values))


def _wish(axis: Axis, value: Any, where: str) -> float:
    """The index of the value, or of the nearest one where values are ordered; of a continuum the value."""
    number = _plain_of(axis, value, where)
    numeric = isinstance(number, (int, float)) and not isinstance(number, bool) and math.isfinite(number)
    if not axis.size:
        return float(number) if numeric else axis.domain.low
    known = [plain(each) for each in axis.values]
    if number in known:
        return known.index(number)
    if axis.when is not None and value is None:
        return -1
    if axis.ordered and numeric:
        inside = min(max(number, min(known)), max(known))       # far away, all are equally far
        return min(range(axis.size), key=lambda index: abs(known[index] - inside))
    return 0


def _plain_of(axis: Axis, value: Any, where: str) -> Any:
    """A value in base units; text with a unit is read as the knob's field reads it."""
    if isinstance(value, str) and axis.fields:
        try:
            return plain(axis.fields[0].typed(value))
        except (ConfigError, InputError) as error:
            raise InputError(f"{where}: {axis.name}", f"{value!r} is no value of it ({error})") from None
    return plain(value)
