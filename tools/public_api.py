#!/usr/bin/env python3
"""The public API, a line for each name: module, name, and its signature or the fields of its class.

`python tools/public_api.py` writes tests/packaging/public_api.txt, which a test compares with the code: whoever changes
what users may rely on (docs/reference/compatibility.md) sees it in the difference of that file.
"""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import get_origin

import msgspec

import astrarium

SNAPSHOT = Path(__file__).resolve().parent.parent / "tests" / "packaging" / "public_api.txt"
MODULES = ("astrarium", *(f"astrarium.{name}" for name in astrarium.NAMESPACES))


def lines() -> Iterator[str]:
    """`module.name(signature)` of every public name."""
    for module in MODULES:
        found = importlib.import_module(module)
        for name in sorted(found.__all__):
            yield f"{module}.{name}{shape(getattr(found, name))}"


def shape(thing: object) -> str:
    """A signature of a function, `(fields)` and `: methods` of a class, what a type stands for, the type of anything
    else."""
    if get_origin(thing) is not None:
        return f" = {thing}"
    if isinstance(thing, type):
        return fields(thing) + methods(thing)
    if callable(thing):
        try:
            return str(inspect.signature(thing)).replace("'", "")
        except (TypeError, ValueError):
            return "(...)"
    return f" {type(thing).__name__}"


def fields(kind: type) -> str:
    """Members of an enum; fields of a struct or a data class, those without a default marked `!`; else arguments."""
    if issubclass(kind, enum.Enum):
        return "(" + ", ".join(kind.__members__) + ")"
    if issubclass(kind, msgspec.Struct):
        made = inspect.signature(kind).parameters.values()
        return "(" + ", ".join(f"{each.name}{'!' if each.default is each.empty else ''}" for each in made) + ")"
    try:
        return str(inspect.signature(kind)).replace("'", "").replace(" -> None", "")
    except (TypeError, ValueError):
        return ""


def methods(kind: type) -> str:
    """Names of the public methods and properties that the class itself has."""
    found = sorted(name for name, value in vars(kind).items()
                   if not name.startswith("_") and (callable(value) or isinstance(value, (property, classmethod))))
    return ": " + " ".join(found) if found and not issubclass(kind, enum.Enum) else ""


def main() -> None:
    """Write the snapshot."""
    SNAPSHOT.write_text("\n".join(lines()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
