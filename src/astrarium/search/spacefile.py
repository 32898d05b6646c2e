"""Spaces as YAML: `base` (a design file, or the design itself), `choices`, `variables`, `derived`, `constraints`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import fields

from astrarium.config import to_plain
from astrarium.config.base import ConfigError
from astrarium.config.files import decode_at, plain_beside
from astrarium.config.yamlfile import Document, parse_yaml, read_text, to_yaml
from astrarium.design import Design, load_design
from astrarium.errors import InputError, nearest
from astrarium.search.choice import Choice, choice_of
from astrarium.search.space import Space
from astrarium.units import Quantity

__all__ = ["SPACE_KEYS", "dump_space", "load_space", "located", "mapping", "space_from", "space_plain", "texts"]

SPACE_KEYS = ("base", "choices", "variables", "derived", "constraints")


def load_space(path: str | os.PathLike[str]) -> Space:
    """Read a space file; a relative `base` or file field is taken from its folder. Raises InputError with the line.

    What a search file holds beside the space (`minimize`, `agent`...) is left alone: see `load_search`.
    """
    name = os.fspath(path)
    document = parse_yaml(read_text(name), name)
    try:
        return space_from(document.data, os.path.dirname(name))
    except InputError as error:
        raise located(error, document, name) from None


def located(error: InputError, document: Document, name: str) -> InputError:
    """`error` with the file and line in front of its path."""
    lines = [document.line(f"{section}{error.path}") for section in ("choices.", "variables.", "derived.", "base.", "")]
    exact = [document.lines.get(f"{section}{path}") for path in (error.path, re.sub(r"\[\d+\]", "[*]", error.path))
             for section in ("choices.", "variables.", "derived.", "")]
    line = next((each for each in (*exact, lines[-1]) if each), None)
    if error.path.startswith(name):      # the base design's own file: already said
        return error
    where = f"{name}:{line}" if line else name
    return InputError(f"{where}: {error.path}" if error.path else where, error.message, expected=error.expected,
                      did_you_mean=error.did_you_mean)


def mapping(path: str, value: object) -> Mapping[str, Any]:
    """`value` where it is a mapping with text for keys; empty for None."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(path, f"{str(value)[:60]!r} is not a mapping", expected="a mapping of names")
    return value


def texts(path: str, value: object) -> tuple[str, ...]:
    """One text, or a list of texts."""
    if value is None:
        return ()
    found = (value,) if isinstance(value, str) else value
    if not isinstance(found, Sequence) or not all(isinstance(each, str) for each in found):
        raise InputError(path, f"{str(value)[:60]!r} is not a list of expressions", expected="text, or a list of texts")
    return tuple(found)


def space_from(data: object, folder: str = "", beside: Sequence[str] | None = None) -> Space:
    """A Space from plain data; `beside`: other keys that may stand there (None: any). Raises InputError."""
    found = mapping("", data)
    for key in found:
        if beside is not None and key not in (*SPACE_KEYS, *beside):
            raise InputError(str(key), "unknown key", expected="one of " + ", ".join((*SPACE_KEYS, *beside)),
                             did_you_mean=nearest(str(key), (*SPACE_KEYS, *beside)))
    derived = mapping("derived", found.get("derived"))
    for path, text in derived.items():
        if not isinstance(text, str):
            raise InputError(path, f"{text!r} is not an expression", expected="text such as 'a // b'")
    return Space(_base(found.get("base"), folder), mapping("choices", found.get("choices")),
                 texts("constraints", found.get("constraints")), derived,
                 mapping("variables", found.get("variables")))


def _base(given: object, folder: str) -> Design | None:
    if given is None:
        return None
    if isinstance(given, str):
        return load_design(os.path.join(folder, given))
    try:
        return decode_at(Design, given, folder)
    except ConfigError as error:
        raise ConfigError([problem.under("base") for problem in error.problems]) from None


def space_plain(space: Space) -> dict[str, Any]:
    """Everything that a space is, as mappings, lists and scalars: reads back as an equal space."""
    found: dict[str, Any] = {}
    if space.base is not None:
        found["base"] = to_plain(space.base)
    for key, choices in (("choices", space.choices), ("variables", space.variables)):
        if choices:
            found[key] = {path: _choice_plain(choice_of(path, given)) for path, given in choices.items()}
    if space.derived:
        found["derived"] = dict(space.derived)
    if space.where:
        found["constraints"] = list(space.where)
    return found


def _choice_plain(choice: Choice) -> Any:
    names = {"low": "from", "high": "to"}
    found = {names.get(each.name, each.name): _value_plain(getattr(choice, each.name)) for each in fields(Choice)
             if getattr(choice, each.name) != each.default}
    return found["values"] if list(found) == ["values"] else found


def _value_plain(value: Any) -> Any:
    if isinstance(value, Quantity):
        return str(value)
    return [_value_plain(each) for each in value] if isinstance(value, (tuple, list)) else value


def dump_space(space: Space, path: str | os.PathLike[str]) -> None:
    """Write a space file, whole or not at all; relative file fields of the base become relative to its folder."""
    name = os.fspath(path)
    found = space_plain(space)
    if space.base is not None:
        found["base"] = plain_beside(space.base, os.path.dirname(name) or ".")
    temporary = f"{name}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as stream:
            stream.write(to_yaml(found))
        os.replace(temporary, name)
    except OSError as error:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise InputError(name, f"cannot be written ({error.strerror or error})") from None

