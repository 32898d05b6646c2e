"""Digests of Python code that a study runs and that is not Astrarium's: functions, classes, plug-ins."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import CodeType
from typing import Any

from astrarium import registry

__all__ = ["digest_of", "plugin_digests", "text_of_class", "text_of_function", "version_of"]

PLAIN = (bool, int, float, str, bytes, type(None))


def digest_of(parts: Iterable[object]) -> str:
    """SHA-256 of plain data, shortened."""
    return hashlib.sha256(json.dumps(list(parts), default=str).encode()).hexdigest()[:32]


def text_of_function(function: Callable[..., Any]) -> Iterator[str]:
    """The compiled code of a function, its defaults and the plain values around it; what it calls is not in it."""
    if isinstance(function, partial):
        yield from text_of_function(function.func)
        yield from _plain((*function.args, *sorted(function.keywords.items())))
        return
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    if isinstance(code, CodeType):
        yield from _code(code)
    yield from _plain(getattr(function, "__defaults__", None) or ())
    for cell in getattr(function, "__closure__", None) or ():
        yield from _plain([cell.cell_contents])


def _code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield " ".join(code.co_names)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _code(each)
        else:
            yield repr(sorted(map(repr, each)) if isinstance(each, frozenset) else each)


def _plain(values: Iterable[object]) -> Iterator[str]:
    """Those values that are numbers or text, or tuples of them: others have no text that is theirs alone."""
    for each in values:
        if isinstance(each, tuple):
            yield from _plain(each)
        elif isinstance(each, PLAIN):
            yield repr(each)


def text_of_class(kind: type) -> str:
    """The source of the module of a class; of a class of the script that runs, its own."""
    import inspect  # rarely needed

    try:
        module = inspect.getmodule(kind)
        return inspect.getsource(kind if module is None or kind.__module__ == "__main__" else module)
    except (OSError, TypeError):
        return ""


def plugin_digests(text: str) -> Iterator[tuple[str, str, str]]:
    """(kind, name, digest) of installed plug-ins whose name `text` holds; of the package's version and the module's
    source."""
    words = set(re.findall(r"[\w-]+", text))
    for kind in registry.kinds():
        for name, entry in registry.entries(kind).items():
            if entry.package and name in words:
                yield kind, name, digest_of([version_of(entry.package), _module(entry.target.partition(":")[0])])


def version_of(package: str) -> str:
    """The version of an installed package; empty where there is none of that name."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _module(name: str) -> str:
    """The source of a module; empty where it has none, or cannot be imported (who uses it says so)."""
    import inspect

    try:
        return inspect.getsource(importlib.import_module(name))
    except (ImportError, OSError, TypeError):
        return ""
