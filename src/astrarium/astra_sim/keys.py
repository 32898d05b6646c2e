"""Typed access to ASTRA-sim's JSON and YAML files, with errors that name file, key and value."""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from astrarium.errors import InputError, nearest

__all__ = ["Keys", "load_json", "load_yaml", "show"]

MAX_FILE = 64 << 20


def load_json(path: str) -> dict[str, Any]:
    try:
        if os.path.getsize(path) > MAX_FILE:
            raise InputError(path, "larger than 64 MiB")
        with open(path, encoding="utf-8-sig") as file:
            value = json.load(file)
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError(path, f"a JSON {type(value).__name__}", expected="an object")
    return value


def show(value: Any) -> str:
    """A value for a message: a long or deep one is cut."""
    short = reprlib.Repr()
    short.maxstring, short.maxlevel = 80, 3
    try:
        return short.repr(value)
    except ValueError:  # an integer with more digits than Python prints
        return "a very large number"


def load_yaml(path: str) -> dict[Any, Any]:
    try:
        if os.path.getsize(path) > MAX_FILE:
            raise InputError(path, "larger than 64 MiB")
        with open(path, encoding="utf-8-sig") as file:
            value = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(path, f"not YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(value, dict):
        raise InputError(path, f"a YAML {type(value).__name__}", expected="a mapping")
    return value


class Keys:
    """Typed access to the keys of a file, with errors that name file, key and value."""

    def __init__(self, path: str, values: Mapping[str, Any]) -> None:
        self.path, self.values = path, values

    def number(self, key: str, default: float, *, low: float = 0.0, high: float = 2**62, whole: bool = False) -> Any:
        value = self.values.get(key, default)
        ok = isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value < high
        if not ok or (whole and int(value) != value):
            what = f"a {'whole number' if whole else 'number'} of at least {low:g}"
            raise InputError(f"{self.path}: {key}", show(value),
                             expected=what if high == 2**62 else f"{what} and below {high:.10g}")
        return int(value) if whole else float(value)

    def truncated(self, key: str, default: float, *, low: int = 0, high: int = 2**31) -> int:
        """A number that ASTRA-sim reads into a whole one: a fraction is cut off, true is 1."""
        value = self.values.get(key, default)
        ok = isinstance(value, (int, float)) and abs(value) < 2**62
        if not ok or not low <= int(value) < high:
            raise InputError(f"{self.path}: {key}", show(value), expected=f"a number of at least {low} and below "
                             f"{high:.10g} (a fraction is cut off)")
        return int(value)

    def flag(self, key: str) -> bool:
        """Whether ASTRA-sim takes the key as on: whatever is there and is not the number 0."""
        value = self.values.get(key, 0)
        return isinstance(value, bool) or not isinstance(value, (int, float)) or value != 0

    def word(self, key: str, default: str, legal: Sequence[str]) -> str:
        value = self.values.get(key, default)
        if value not in legal:
            raise InputError(f"{self.path}: {key}", show(value), expected=", ".join(legal),
                             did_you_mean=nearest(value, legal) if isinstance(value, str) else None)
        return str(value)

    def words(self, key: str) -> tuple[str, ...] | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value) or not value:
            raise InputError(f"{self.path}: {key}", show(value), expected="a list of names")
        return tuple(value)
