"""From a plain value (text, numbers, lists, mappings) to a field's type; every problem is collected, none is fatal."""

from __future__ import annotations

import functools
import math
import operator
import os
import reprlib
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import msgspec

from astrarium.config.mapping import NameMap
from astrarium.config.named import Shorthand
from astrarium.config.spec import Knob, Problem, join
from astrarium.errors import InputError, nearest
from astrarium.units import Quantity

__all__ = ["coerce", "describe", "members", "shown"]

LONGEST_RANGE = 1 << 24
LARGEST = 1 << 40       # whole numbers of which a knob does not say more are below it: nothing counts so many
_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null"}


class _Decodes(Protocol):
    """A config class: `config.base.Config`, which is above."""

    @classmethod
    def _decoded(cls, given: str | Mapping[str, Any], path: str, problems: list[Problem]) -> Any: ...


def shown(value: object) -> str:
    """`value` for a message, cut to a readable length."""
    return reprlib.repr(value)


@functools.cache
def _origin(hint: Any) -> Any:
    return typing.get_origin(hint)


@functools.cache
def members(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a type: those of a union, else the type itself."""
    return typing.get_args(hint) if _origin(hint) in (typing.Union, types.UnionType) else (hint,)


def describe(hint: Any, knob: Knob) -> str:
    """What a field of this type takes, in words."""
    return " or ".join(dict.fromkeys(_describe(option, knob) for option in members(hint)))


def _describe(option: Any, knob: Knob) -> str:
    if _origin(option) is typing.Literal:
        return "one of " + ", ".join(map(str, typing.get_args(option)))
    if _origin(option) is Sequence:
        return f"a list of {describe(typing.get_args(option)[0], knob)}"
    if _origin(option) is Mapping:
        return f"a mapping of names, each to {describe(typing.get_args(option)[1], knob)}"
    if option in (int, float):
        limit = _limit(knob)
        return f"{_WORDS[option]}{', ' + limit if limit else ''}"
    if option is str and knob.choices:
        return "one of " + ", ".join(knob.legal())
    if option in _WORDS:
        return _WORDS[option]
    if issubclass(option, Quantity):
        return str(option.expected())
    shorthand = _shorthand(option)
    return f"{shorthand.takes + ', or ' if shorthand else ''}a mapping ({option.__name__})"


def _shorthand(option: Any) -> Shorthand | None:
    """How text replaces the class `option`; None if it cannot."""
    found: Shorthand | None = getattr(option, "shorthand", None)
    return found


def coerce(value: object, hint: Any, knob: Knob, path: str, problems: list[Problem]) -> Any:
    """`value` as `hint`, or itself after adding to `problems`; `path` is its path."""
    if type(value) is hint and not isinstance(value, msgspec.Struct):       # nothing else can suit it
        return _convert(value, hint, knob, path, problems)
    options = members(hint)
    if isinstance(value, msgspec.Struct) and any(isinstance(option, type) and isinstance(value, option)
                                                 for option in options):
        return value      # it was checked when it was made
    if value is None and type(None) in options:
        return None
    value = _familiar(value)
    for option in options:
        if _suits(value, option):
            return _convert(value, option, knob, path, problems)
    classes = [option for option in options if _origin(option) is None]
    quantity = next((option for option in classes if issubclass(option, Quantity)), None)
    if quantity is not None:
        return _quantity(value, quantity, knob, path, problems)
    choice = next((option for option in options if _origin(option) is typing.Literal), None)
    guess = nearest(value, map(str, typing.get_args(choice))) if choice and isinstance(value, str) else None
    problems.append(Problem(path, f"{shown(value)} is {_kind(value)}" if guess is None and not choice else
                            f"{shown(value)} is not known", describe(hint, knob), guess))
    return value


def _familiar(value: object) -> object:
    """Numbers and arrays of numpy as Python's, a path as its text, a range as its list; other values as they are."""
    if isinstance(value, (str, int, float, list, tuple, Mapping)) and type(value).__module__ != "numpy":
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, range):
        return list(value) if len(value) <= LONGEST_RANGE else value
    numpy: Any = sys.modules.get("numpy")       # what was never imported made no value
    if numpy is None or not isinstance(value, (numpy.generic, numpy.ndarray)):
        return value
    return cast(Any, value).tolist()


def _kind(value: object) -> str:
    names: tuple[tuple[Any, str], ...] = (
        (bool, "true or false"), (int, "a whole number"), (float, "a number"), (str, "text"),
        (Mapping, "a mapping"), (Sequence, "a list"), (type(None), "empty"))
    return next((name for kind, name in names if isinstance(value, kind)), f"a {type(value).__name__}")


def _suits(value: object, option: Any) -> bool:
    """Whether `option` is the alternative that `value` is meant for."""
    origin = _origin(option)
    if origin is typing.Literal:
        return any(value == legal and type(value) is type(legal) for legal in typing.get_args(option))
    if origin is Sequence:
        return isinstance(value, (list, tuple))
    if origin is Mapping:
        return isinstance(value, Mapping)
    if option is float:
        return isinstance(value, (int, float)) and not isinstance(value, (bool, Quantity))
    if option is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if option in (str, bool, type(None)):
        return isinstance(value, option)
    if issubclass(option, msgspec.Struct):
        return isinstance(value, (option, Mapping)) or (isinstance(value, str) and _shorthand(option) is not None)
    return isinstance(value, option)


def _convert(value: Any, option: Any, knob: Knob, path: str, problems: list[Problem]) -> Any:
    if _origin(option) is Sequence:
        item = typing.get_args(option)[0]
        found = tuple([coerce(each, item, knob, f"{path}[{index}]", problems) for index, each in enumerate(value)])
        unchanged = isinstance(value, tuple) and all(map(operator.is_, value, found))
        return value if unchanged else found        # a default stays the object that a repr leaves out
    if _origin(option) is Mapping:
        return _mapping(value, typing.get_args(option)[1], knob, path, problems)
    if isinstance(option, type) and issubclass(option, msgspec.Struct) and not isinstance(value, option):
        return cast("type[_Decodes]", option)._decoded(value, path, problems)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        problems.append(Problem(path, f"{shown(value)} is impossible", "a number that fits in 64 bits"))
        return value
    if option is float:
        value = float(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        _limits(value, knob, path, problems)
    elif option is str and knob.choices and value not in knob.choices:
        guess = nearest(value, knob.legal())
        problems.append(Problem(path, f"{shown(value)} is not known", describe(str, knob), guess))
    return value


def _mapping(value: Mapping[Any, Any], item: Any, knob: Knob, path: str, problems: list[Problem]) -> NameMap[Any]:
    """Every value as an `item`; names are text."""
    found: dict[str, Any] = {}
    for name, each in value.items():
        if not isinstance(name, str):
            problems.append(Problem(path, f"the key {shown(name)} is {_kind(name)}", "text"))
            continue
        found[name] = coerce(each, item, knob, join(path, name), problems)
    if isinstance(value, NameMap) and all(found.get(name) is value[name] for name in value):
        return value
    return NameMap(found)


def _quantity(value: object, option: type[Quantity], knob: Knob, path: str, problems: list[Problem]) -> Any:
    try:
        quantity = option(value)
    except InputError as error:
        problems.append(Problem(path, error.message, error.expected, error.did_you_mean))
        return value
    _limits(quantity, knob, path, problems)
    return quantity


def _limit(knob: Knob) -> str:
    low = f"above {knob.gt:g}" if knob.gt is not None else f"{knob.ge:g} or more" if knob.ge is not None else ""
    return low if knob.lt is None else f"{low}, below {knob.lt:.0f}".removeprefix(", ")


def _limits(value: float, knob: Knob, path: str, problems: list[Problem]) -> None:
    if isinstance(value, int) and knob.lt is None and abs(value) >= LARGEST:
        problems.append(Problem(path, f"{shown(value)} is impossible", f"a whole number below {LARGEST:,}"))
        return
    if isinstance(value, Quantity) and value >= value.most[0]:
        problems.append(Problem(path, *value.most[1:]))
        return
    low = (knob.gt is not None and not value > knob.gt) or (knob.ge is not None and not value >= knob.ge)
    if low or not math.isfinite(value) or (knob.lt is not None and value >= knob.lt):
        problems.append(Problem(path, f"{shown(value)} is impossible", _limit(knob) or "a finite number"))
