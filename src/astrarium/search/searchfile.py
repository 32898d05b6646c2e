"""Search files: a space with what it is searched for, by whom, and for how long."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from astrarium.config.yamlfile import parse_yaml, read_text
from astrarium.errors import InputError, nearest
from astrarium.search.goal import Case
from astrarium.search.limits import NO_LIMITS, Limits, limits_of
from astrarium.search.space import Space
from astrarium.search.spacefile import located, mapping, space_from, texts

__all__ = ["SEARCH_KEYS", "SearchFile", "load_search"]

SEARCH_KEYS = ("minimize", "maximize", "require", "cases", "agent", "trials", "seed", "limit")


class SearchFile(Struct, frozen=True):
    """What a search file says; what it leaves out is empty or None."""

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


def load_search(path: str | os.PathLike[str]) -> SearchFile:
    """Read a search file: the keys of a space file, and `minimize`, `maximize` (an expression, a list, or name:
    expression), `require`, `cases` (name: {weight, changes}), `agent` (a name, or {agent: name, option: value}),
    `trials`, `seed`, `limit` ("10 s", "8 GB", or a list of both). Raises InputError with the line."""
    name = os.fspath(path)
    document = parse_yaml(read_text(name), name)
    try:
        space = space_from(document.data, os.path.dirname(name), SEARCH_KEYS)
        found = mapping("", document.data)
        agent, options = _agent(found.get("agent"))
        cases = _cases(found.get("cases"))
        space = space.for_cases([path for case in cases for path in case.changes])
        return SearchFile(space, _measures("minimize", found), _measures("maximize", found),
                          texts("require", found.get("require")), cases, agent, options,
                          _whole("trials", found.get("trials"), 1), _whole("seed", found.get("seed"), 0),
                          limits_of(texts("limit", found.get("limit"))))
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
        return value, {}
    options = dict(mapping("agent", value))
    name = options.pop("agent", None)
    if not isinstance(name, str):
        raise InputError("agent.agent", "is missing", expected="the name of an agent")
    return name, options


def _whole(key: str, value: Any, least: int) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(key, f"{value!r} is impossible", expected=f"a whole number, {least} or more")
    return value


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
