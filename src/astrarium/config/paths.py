"""Dotted paths: `network.dims[1].bandwidth` names a field in a file, on the command line and in a search space."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from astrarium.config.base import Config, ConfigError, decode, decode_into, one_of, to_plain, unknown_key
from astrarium.config.mapping import NameMap
from astrarium.config.named import LIKE, excluded, is_named
from astrarium.config.spec import Problem, join, specs
from astrarium.config.yamlfile import parse_yaml
from astrarium.errors import InputError, nearest

__all__ = ["assignment", "assignments", "get", "parse_path", "put", "replace", "replace_all"]

C = TypeVar("C", bound=Config)
Step = str | int

_STEP = re.compile(r"\.?([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]{1,9})\]")


def parse_path(path: str) -> tuple[Step, ...]:
    """`dims[1].bandwidth` -> ("dims", 1, "bandwidth"). Raises InputError where it is not a path."""
    steps: list[Step] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None or (match[1] and (path[position] == ".") != bool(steps)):
            break
        steps.append(match[1] if match[1] else int(match[2]))
        position = match.end()
    if not steps or position < len(path):
        raise InputError(path[:200], "is not a path", expected="names and indexes such as network.dims[1].bandwidth")
    return tuple(steps)


def _step(owner: Any, step: Step, seen: str) -> Any:
    """The value at `step` of `owner`, whose path is `seen`."""
    where = join(seen, f"[{step}]" if isinstance(step, int) else step)
    if isinstance(step, int):
        if not isinstance(owner, tuple):
            raise InputError(where, f"{seen or 'the design'} is not a list")
        if step >= len(owner):
            there = f"0 to {len(owner) - 1}" if owner else "a list with entries"
            raise InputError(where, f"there is no entry {step}", expected=there)
        return owner[step]
    if isinstance(owner, NameMap):
        if step not in owner:
            raise InputError(where, f"there is no entry {step!r}", expected="one of " + ", ".join(owner) if owner else
                             "a mapping with entries", did_you_mean=nearest(step, owner))
        return owner[step]
    if owner is None:
        raise InputError(where, f"{seen} is not set", expected=f"it as a whole, such as {seen}={{...}}")
    if not isinstance(owner, Config):
        raise InputError(where, f"{seen} has no fields")
    if owner.tag_key and step == owner.tag_key:
        return owner.tag
    names = [spec.name for spec in specs(type(owner))]
    if step not in names:
        legal = ([owner.tag_key] if owner.tag_key else []) + names
        guess = nearest(step, legal)
        raise InputError(where, unknown_key(type(owner), step), expected=one_of(legal, guess), did_you_mean=guess)
    return getattr(owner, step)


def get(config: Config, path: str) -> Any:
    """Return the value at `path`, such as `network.dims[1].bandwidth`.

    Raises:
        InputError: A part of the path does not exist; the error names it.
    """
    value: Any = config
    seen = ""
    for step in parse_path(path):
        value = _step(value, step, seen)
        seen = join(seen, f"[{step}]" if isinstance(step, int) else step)
    return value


def replace(config: C, path: str, value: object) -> C:
    """Return `config` with the value at `path` replaced, checked as a whole. See `replace_all`."""
    return replace_all(config, {path: value})


def replace_all(config: C, changes: Mapping[str, object]) -> C:
    """Return `config` with all `changes` made, then checked once, together.

    Args:
        config: A design or a section; it is not changed.
        changes: Path of a field -> value, a whole before its parts, a key that picks a variant
            (`network.dims[0].shape`) before the variant's fields; those that were set are kept. A name that implies
            settings (`stack`) is applied first, to fields with their default value.

    Raises:
        InputError: A path does not exist, or the result is not legal.
    """
    config = _implied(config, {name: changes[name] for name in type(config).implies if name in changes})
    changes = {path: value for path, value in changes.items() if path not in type(config).implies}
    plain: Any = to_plain(config, defaults=True)
    picks = {steps for steps in map(parse_path, changes) if _picks(config, steps)}
    wholes = {*map(parse_path, changes), *(steps[:-1] for steps in picks)}
    fields: dict[tuple[Step, ...], dict[Step, object]] = {}
    for path, value in changes.items():
        *owners, last = parse_path(path)
        fields.setdefault(tuple(owners), {})[last] = value
    for path, value in sorted(changes.items(), key=lambda each: (len(parse_path(each[0])),
                                                                  parse_path(each[0]) not in picks)):
        *owners, last = parse_path(path)
        target: Any = plain
        for step in owners:
            target = _part(target, step)
        if not isinstance(target, dict) and not (isinstance(last, int) and last < len(target or ())):
            get(config, path)
            raise InputError(path, "is a part of what another change replaces by something without it")
        try:
            get(config, path)
        except InputError:
            if not any(tuple(owners[:count + 1]) in wholes for count in range(len(owners))):
                raise
            target[last] = value        # a part of a new whole, or of another variant
            continue
        owner: Any = config
        for step in owners:
            owner = _step(owner, step, "")
        if isinstance(owner, Config) and owner.tag_key and last == owner.tag_key and value != owner.tag:
            kept = to_plain(owner)
            for name in [name for name in target if name not in kept]:
                del target[name]
        new = _written_out(_step(owner, last, ""), value, path)
        target[last] = to_plain(new, defaults=True) if isinstance(new, Config) else new
        for name in excluded(type(owner), fields[tuple(owners)]) if isinstance(owner, Config) else ():
            target.pop(name, None)
    return decode(type(config), plain)


def _picks(config: Config, steps: tuple[Step, ...]) -> bool:
    """Whether a path picks a variant, as `compute.model` does."""
    owner: Any = config
    for step in steps[:-1]:
        if isinstance(owner, Config):
            owner = getattr(owner, str(step), None)
        elif isinstance(owner, tuple):
            owner = owner[step] if isinstance(step, int) and step < len(owner) else None
    return isinstance(owner, Config) and bool(owner.tag_key) and owner.tag_key == steps[-1]


def _implied(config: C, names: Mapping[str, object]) -> C:
    """`config` with `names` and the settings that they imply. Raises InputError where other names have left settings
    behind, which cannot be told from its own."""
    new = {name: value for name, value in names.items() if value != getattr(config, name)}
    if new and config.explicit:
        name, value = next(iter(new.items()))
        raise InputError(name, f"is {getattr(config, name)}, whose settings are in the design and would stay",
                         expected=f"{name}: {value} in the file, or a design without {name}")
    return decode(type(config), {**to_plain(config), **new}) if new else config


def put(plain: Any, changes: Mapping[str, object]) -> Any:
    """Plain data with `changes` (path -> value) written into it, a whole before its parts: what is not there is made,
    and a name that replaces a mapping becomes `like` in it. Raises InputError for an entry of a list that is not
    there."""
    for path, value in sorted(changes.items(), key=lambda change: len(parse_path(change[0]))):
        plain = _put(plain, parse_path(path), value, "")
    return plain


def _put(plain: Any, steps: tuple[Step, ...], value: object, seen: str) -> Any:
    if not steps:
        return value
    step, *rest = steps
    where = join(seen, f"[{step}]" if isinstance(step, int) else step)
    if isinstance(step, int):
        entries = list(plain) if isinstance(plain, list) else []
        if step >= len(entries):
            raise InputError(where, f"there is no entry {step}",
                             expected=f"0 to {len(entries) - 1}" if entries else f"{seen} as a list of entries")
        entries[step] = _put(entries[step], tuple(rest), value, where)
        return entries
    inner = dict(plain) if isinstance(plain, Mapping) else {LIKE: plain} if isinstance(plain, str) else {}
    inner[step] = _put(inner.get(step), tuple(rest), value, where)
    return inner


def _part(plain: Any, step: Step) -> Any:
    """The entry at `step` of plain data; None if there is none."""
    if isinstance(step, int):
        return plain[step] if isinstance(plain, list) and step < len(plain) else None
    return plain.get(step) if isinstance(plain, dict) else None


def _written_out(old: Any, value: object, path: str) -> object:
    """`value`, or the config that it names in the place of `old`: parts of it can then be changed too."""
    kind = next((each for each in type(old).__mro__ if "shorthand" in each.__dict__), None)
    if kind is None or not is_named(kind, value):
        return value
    problems: list[Problem] = []
    found: object = decode_into(kind, cast("str | Mapping[str, Any]", value), path, problems)
    if problems:
        raise ConfigError(problems)
    return found


def assignment(text: str) -> tuple[str, Any]:
    """`path=value` as typed on a command line; the value is read as YAML (`[ring, direct]`, `50 GB/s`, `null`)."""
    path, sign, value = text.partition("=")
    if not sign or not path.strip():
        raise InputError(text[:200], "is not an assignment", expected="path=value")
    parse_path(path.strip())
    return path.strip(), parse_yaml(value, f"--set {path.strip()}").data


def assignments(texts: Sequence[str]) -> dict[str, Any]:
    """Path -> value of every text. Raises InputError for a path that is there twice."""
    found: dict[str, Any] = {}
    for text in texts:
        path, value = assignment(text)
        if path in found:
            raise InputError(f"--set {path}", "is there twice", expected="one value")
        found[path] = value
    return found
