"""What there is to choose from: per kind a name, one sentence, and where the object lives; imported when asked for.

One more of a kind is one new file and one line of `built_in`. Other packages add theirs through the entry-point group
`astrarium.plugins`: `"compute.mine" = "my_package.my_module:MyCompute"`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from astrarium.entry_points import GROUP, declared, files
from astrarium.errors import InputError, nearest
from astrarium.registry.built_in import BUILT_IN as _BUILT_IN

__all__ = ["GROUP", "Entry", "Kind", "built_ins", "celled", "entries", "kinds", "load", "names", "printed"]


class Entry(Struct, frozen=True):
    """One thing to choose: `target` is "module:object"; `package` names who brought it, empty for a built-in."""

    kind: str
    name: str
    target: str
    sentence: str
    package: str = ""


def kinds() -> tuple[str, ...]:
    """Every kind of thing that can be chosen."""
    return tuple(_BUILT_IN) + tuple(kind for kind in _plugins(files()) if kind not in _BUILT_IN)


@functools.cache
def _built_in(kind: str) -> Mapping[str, Entry]:
    return {name: Entry(kind, name, target, sentence) for name, (target, sentence) in _BUILT_IN.get(kind, {}).items()}


@functools.cache
def _plugins(beside: str) -> Mapping[str, Mapping[str, Entry]]:
    """Plug-ins by kind and name, with those of the files `beside`; a built-in name cannot be taken."""
    found: dict[str, dict[str, Entry]] = {}
    for full, target, package in declared(beside):
        kind, dot, name = full.partition(".")
        if not dot or not name:
            raise InputError(f"{package}: {full}", "is not the name of a plug-in", expected="kind.name")
        if name in _built_in(kind) or name in found.get(kind, {}):
            raise InputError(f"{package}: {full}", "is taken by another one", expected="another name")
        found.setdefault(kind, {})[name] = Entry(kind, name, target, f"Plug-in of {package}.", package)
    return found


def entries(kind: str) -> Mapping[str, Entry]:
    """Everything of one kind, built-ins first. Raises InputError for an unknown kind."""
    if kind not in kinds():
        raise InputError(kind, "unknown kind", expected="one of " + ", ".join(kinds()),
                         did_you_mean=nearest(kind, kinds()))
    return {**_built_in(kind), **_plugins(files()).get(kind, {})}


def built_ins(kind: str) -> Mapping[str, Entry]:
    """Everything of one kind but plug-ins, which are not looked for."""
    return _built_in(kind)


def names(kind: str) -> tuple[str, ...]:
    """The names of one kind."""
    return tuple(entries(kind))


def load(kind: str, name: str) -> Any:
    """The object behind a name. Raises InputError with the nearest match for an unknown one."""
    entry = _built_in(kind).get(name) or entries(kind).get(name)
    if entry is None:
        known = names(kind)
        raise InputError(kind, f"{name[:60]!r} is not known", expected="one of " + ", ".join(known),
                         did_you_mean=nearest(name, known))
    if not entry.target:
        raise InputError(kind, f"{name!r} is a choice, there is no object behind it")
    return _resolve(entry.target, entry.package)


def _resolve(target: str, package: str = "") -> Any:
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        if not package:
            raise
        raise InputError(f"{package}: {target}", f"the plug-in cannot be loaded ({error})") from error


def printed(name: str, answer: Any) -> str:
    """What `print` shows of an answer: the text of `table.NAME`."""
    return str(load("table", name)(answer))


def celled(name: str, answer: Any) -> str:
    """What a notebook shows of an answer: the HTML of `cell.NAME`."""
    return str(load("cell", name)(answer))


class Kind(Struct, frozen=True):
    """One kind, as config classes hold it: membership is answered from the built-ins before plug-ins are looked for."""

    kind: str

    def names(self) -> tuple[str, ...]:
        return names(self.kind)

    def load(self, name: str) -> Any:
        return load(self.kind, name)

    def __contains__(self, name: object) -> bool:
        return name in _built_in(self.kind) or name in entries(self.kind)
