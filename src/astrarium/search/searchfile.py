"""Space files and search files (YAML): a space, what it is searched for, by which agent, for how long."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from astrarium import registry
from astrarium.config import replace_all
from astrarium.config.base import ConfigError
from astrarium.config.files import decode_at, plain_beside
from astrarium.config.whole import write_whole
from astrarium.config.yamlfile import Document, parse_yaml, read_text, to_yaml
from astrarium.design import Design
from astrarium.errors import InputError, nearest
from astrarium.search.agents.names import split_name
from astrarium.search.goal import Case
from astrarium.search.limits import NO_LIMITS, Limits, limits_of
from astrarium.search.space import Space, space_plain
from astrarium.search.subject import kind_of, load_base

__all__ = ["SEARCH_KEYS", "SPACE_KEYS", "SearchFile", "dump_space", "load_search", "load_space", "located", "mapping",
           "of_goal", "space_from", "texts"]

SPACE_KEYS = ("base", "choices", "variables", "derived", "constraints")
SEARCH_KEYS = ("minimize", "maximize", "require", "cases", "agent", "trials", "seed", "limit", "cap", "fidelity")


def load_space(path: str | os.PathLike[str]) -> Space:
    """Read a space file.

    Relative paths in it (`base`, file fields) start at its folder. Keys of a search file (`minimize`, `agent`...) are
    ignored; `load_search` reads them.

    Args:
        path: The file (YAML).

    Raises:
        InputError: with file and line, for whatever is wrong with the space.
    """
    name = os.fspath(path)
    document = parse_yaml(read_text(name), name)
    try:
        return space_from(document.data, os.path.dirname(name))
    except InputError as error:
        raise located(error, document, name) from None


def located(error: InputError, document: Document, name: str) -> InputError:
    """Put the file and line in front of the path of an error."""
    lines = [document.line(f"{section}{error.path}") for section in ("choices.", "variables.", "derived.", "base.", "")]
    exact = [document.lines.get(f"{section}{path}") for path in (error.path, re.sub(r"\[\d+\]", "[*]", error.path))
             for section in ("choices.", "variables.", "derived.", "")]
    line = next((each for each in (*exact, _use(document, error.path, (*SPACE_KEYS, *SEARCH_KEYS)), lines[-1])
                 if each), None)
    if error.path.startswith(name):      # the base design's own file: already said
        return error
    where = f"{name}:{line}" if line else name
    return InputError(f"{where}: {error.path}" if error.path else where, error.message, expected=error.expected,
                      did_you_mean=error.did_you_mean)


def of_goal(error: InputError, path: str | os.PathLike[str]) -> InputError:
    """The error with the line of the search file whose objective or requirement it is about; else as it is."""
    name = os.fspath(path)
    document = parse_yaml(read_text(name), name)
    line = document.lines.get(error.path) or _use(document, error.path, ("minimize", "maximize", "require"))
    return located(error, document, name) if line else error


def _use(document: Document, name: str, keys: Sequence[str]) -> int | None:
    """The line of the first expression under these keys in which a name occurs; None if there is none."""
    data = document.data if isinstance(document.data, Mapping) else {}
    word = re.compile(rf"(?<![\w.]){re.escape(name)}(?![\w.\[])")
    for key in keys if name else ():
        given = data.get(key)
        entries = [(f"{key}.{each}", text) for each, text in given.items()] if isinstance(given, Mapping) else \
            [(f"{key}[{place}]", text) for place, text in enumerate(given)] if isinstance(given, Sequence) and \
            not isinstance(given, str) else [(key, given)]
        for path, text in entries:
            if isinstance(text, str) and word.search(text):
                return document.line(path)
    return None


def mapping(path: str, value: object) -> Mapping[str, Any]:
    """Return `value` if it is a mapping, an empty one for None. Raises InputError otherwise."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(path, f"{str(value)[:60]!r} is not a mapping", expected="a mapping of names")
    return value


def texts(path: str, value: object) -> tuple[str, ...]:
    """Convert one text, or a list of texts, to a tuple; empty for None. Raises InputError for anything else."""
    if value is None:
        return ()
    found = (value,) if isinstance(value, str) else value
    if not isinstance(found, Sequence) or not all(isinstance(each, str) for each in found):
        raise InputError(path, f"{str(value)[:60]!r} is not a list of expressions", expected="text, or a list of texts")
    return tuple(found)


def space_from(data: object, folder: str = "", beside: Sequence[str] | None = None,
               changes: Mapping[str, object] = MappingProxyType({})) -> Space:
    """Make a Space of plain data; relative files start at `folder`. `beside`: other keys that `data` may have (None:
    any). `changes`: path -> value, of the base. Raises InputError."""
    found = mapping("", data)
    for key in found:
        if beside is not None and key not in (*SPACE_KEYS, *beside):
            raise InputError(str(key), "unknown key", expected="one of " + ", ".join((*SPACE_KEYS, *beside)),
                             did_you_mean=nearest(str(key), (*SPACE_KEYS, *beside)))
    derived = mapping("derived", found.get("derived"))
    for path, text in derived.items():
        if not isinstance(text, str):
            raise InputError(path, f"{text!r} is not an expression", expected="text such as 'a // b'")
    base = _base(found.get("base"), folder)
    if changes and base is None:
        raise InputError(next(iter(changes)), "the space has no base to change", expected="a space with a base")
    base = replace_all(base, changes) if base is not None and changes else base
    return Space(base, mapping("choices", found.get("choices")), texts("constraints", found.get("constraints")),
                 derived, mapping("variables", found.get("variables")))


def _base(given: object, folder: str) -> Design | None:
    if given is None:
        return None
    if isinstance(given, str):
        return load_base(os.path.join(folder, given))
    try:
        return decode_at(kind_of(given), given, folder)
    except ConfigError as error:
        raise ConfigError([problem.under("base") for problem in error.problems]) from None


def dump_space(space: Space, path: str | os.PathLike[str]) -> None:
    """Write a space file, whole or not at all. Relative file fields of the base become relative to the file's folder.

    Args:
        space: The space.
        path: The file (YAML).

    Raises:
        InputError: if the file cannot be written.
    """
    name = os.fspath(path)
    found = space_plain(space)
    if space.base is not None:
        found["base"] = plain_beside(space.base, os.path.dirname(name) or ".")
    with write_whole(name) as stream:
        stream.write(to_yaml(found).encode())


class SearchFile(Struct, frozen=True):
    """The content of a search file; empty or None for keys that it leaves out. `base`: the file that holds the base,
    where it is not in this one."""

    space: Space
    minimize: Any = ()
    maximize: Any = ()
    require: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    agent: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    trials: int | None = None
    seed: int | None = None
    limit: Limits = NO_LIMITS
    cap: float | None = None
    fidelity: tuple[str, ...] = ()
    base: str | None = None


def load_search(path: str | os.PathLike[str], changes: Mapping[str, object] = MappingProxyType({})) -> SearchFile:
    """Read a search file: the keys of a space file, and `minimize`, `maximize` (an expression, a list, or name:
    expression), `require`, `cases` (name: {weight, changes}), `agent` (a name, or {agent: name, option: value}),
    `trials`, `seed`, `limit` ("10 s", "8 GB", or a list of both), `cap`, `fidelity` (network models, the cheapest
    first). `changes` (path -> value) are of the base. Raises InputError with the line."""
    name = os.fspath(path)
    document = parse_yaml(read_text(name), name)
    try:
        space = space_from(document.data, os.path.dirname(name), SEARCH_KEYS, changes)
        found = mapping("", document.data)
        agent, options = _agent(found.get("agent"))
        cases = _cases(found.get("cases"))
        base = found.get("base")
        space = space.for_cases([path for case in cases for path in case.changes])
        return SearchFile(space, _measures("minimize", found), _measures("maximize", found),
                          texts("require", found.get("require")), cases, agent, options,
                          _whole("trials", found.get("trials"), 1), _whole("seed", found.get("seed"), 0),
                          limits_of(texts("limit", found.get("limit"))), _cap(found.get("cap")),
                          texts("fidelity", found.get("fidelity")),
                          os.path.join(os.path.dirname(name), base) if isinstance(base, str) else None)
    except InputError as error:
        raise located(error, document, name) from None


def _measures(key: str, found: Mapping[str, Any]) -> Any:
    value = found.get(key)
    if value is None:
        return ()
    if isinstance(value, Mapping):
        for name, text in value.items():
            if not isinstance(text, str):
                raise InputError(f"{key}.{name}", f"{text!r} is not an expression", expected="text such as makespan")
        return dict(value)
    return texts(key, value)


def _agent(value: Any) -> tuple[str | None, dict[str, Any]]:
    if value is None or isinstance(value, str):
        return _inside(value), {}
    options = dict(mapping("agent", value))
    name = options.pop("agent", None)
    if not isinstance(name, str):
        meant = (nearest(each, registry.names("agent")) for each in options.values() if isinstance(each, str))
        known = next(filter(None, meant), "random")
        raise InputError("agent.agent", "is missing", expected=f"the name of an agent: `agent: {known}`, or `agent: "
                         f"{{agent: {known}, ...}}` with its options")
    return _inside(name), options


def _inside(name: str | None) -> str | None:
    """The name of an agent of a file. Raises InputError for one outside this process: a file is data."""
    kind = "" if name is None else split_name(name)[0]
    if kind in registry.names("agent") and getattr(registry.load("agent", kind), "outside", False):
        raise InputError("agent", f"{kind} is outside this process, which a file may not choose",
                         expected="--agent of the command line")
    return name


def _whole(key: str, value: Any, least: int) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(key, f"{value!r} is impossible", expected=f"a whole number, {least} or more")
    return value


def _cap(value: Any) -> float | None:
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value < 1:
        raise InputError("cap", f"{value!r} is impossible", expected="a number from 1 on")
    return float(value)


def _cases(value: Any) -> tuple[Case, ...]:
    found = []
    for name, given in mapping("cases", value).items():
        entry, keys = mapping(f"cases.{name}", given), ("weight", "changes")
        for key in entry:
            if key not in keys:
                raise InputError(f"cases.{name}.{key}", "unknown key", expected="one of " + ", ".join(keys),
                                 did_you_mean=nearest(str(key), keys))
        weight = entry.get("weight", 1.0)
        if not isinstance(weight, (int, float)) or isinstance(weight, bool):
            raise InputError(f"cases.{name}.weight", f"{weight!r} is not a number", expected="a number above 0")
        found.append(Case(str(name), float(weight), mapping(f"cases.{name}.changes", entry.get("changes"))))
    return tuple(found)
