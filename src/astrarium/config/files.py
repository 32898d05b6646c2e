"""Config files: a class from YAML text and back, with the file and line in every message."""

from __future__ import annotations

import contextlib
import os
import typing
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from astrarium.config.base import Config, ConfigError, concrete, decode, to_plain
from astrarium.config.coerce import members
from astrarium.config.named import LIKE, is_named, spelled_out
from astrarium.config.paths import put, replace_all
from astrarium.config.spec import Problem, specs
from astrarium.config.whole import write_whole
from astrarium.config.yamlfile import Document, parse_yaml, read_text, to_yaml
from astrarium.errors import InputError

__all__ = ["decode_at", "dump", "dumps", "load", "loads", "plain_beside", "plain_with_files",
           "with_files"]

C = TypeVar("C", bound=Config)
NONE: Mapping[str, object] = MappingProxyType({})


def loads(cls: type[C], text: str, name: str = "") -> C:
    """YAML text as a `cls`; `name` (a file name) is used in messages. File fields stay as written."""
    return _decoded(cls, text, name, lambda file: file, NONE)


def _decoded(cls: type[C], text: str, name: str, change: Callable[[str], str], changes: Mapping[str, object]) -> C:
    """The text alone as a `cls`, or where it is none the text with `changes` in it."""
    document = parse_yaml(text, name)
    plain = _shorthands(cls, document.data, change)
    if changes:
        with contextlib.suppress(InputError):
            return decode(cls, plain)
        plain = put(plain, changes)
    try:
        return decode(cls, plain)
    except ConfigError as error:
        raise ConfigError([_located(problem, document, name) for problem in error.problems]) from None


def _located(problem: Problem, document: Document, name: str) -> Problem:
    line = document.line(problem.path)
    where = f"{name}:{line}" if name and line else name or (f"line {line}" if line else "")
    text = ": ".join(part for part in (where, problem.path) if part)
    return Problem(text, problem.message, problem.expected, problem.did_you_mean)


def load(cls: type[C], path: str | os.PathLike[str], changes: Mapping[str, object] = NONE) -> C:
    """A YAML file as a `cls`, with `changes` (path -> value) made, which may give what the file lacks or mend what is
    wrong in it. Relative file fields are taken from the file's own folder, those of `changes` from the current one.
    Raises InputError."""
    name = os.fspath(path)
    beside = _beside(os.path.dirname(name))
    found: C = _files(_decoded(cls, read_text(name), name, beside, changes), beside, late=True)
    return replace_all(found, changes) if changes else found


def decode_at(cls: type[C], plain: object, folder: str) -> C:
    """Plain data as a `cls`, its relative file fields taken from `folder`. Raises ConfigError."""
    found: C = _files(decode(cls, _shorthands(cls, plain, _beside(folder))), _beside(folder), late=True)
    return found


def _beside(folder: str) -> Callable[[str], str]:
    return lambda file: os.path.normpath(os.path.join(folder, file))


def dumps(config: Config, *, defaults: bool = False) -> str:
    """`config` as YAML with units; reads back equal. `defaults` also prints fields that have their default."""
    return to_yaml(to_plain(config, defaults=defaults))


def dump(config: Config, path: str | os.PathLike[str], *, defaults: bool = False) -> None:
    """Write `config` to a file, whole or not at all; relative file fields become relative to its folder."""
    name = os.fspath(path)
    folder = os.path.dirname(name) or "."
    text = to_yaml(plain_beside(config, folder, defaults=defaults))
    with write_whole(name) as stream:
        stream.write(text.encode())


def _shorthands(cls: type[Config], plain: Any, change: Callable[[str], str], every: bool = False) -> Any:
    """`plain` with `change` applied to every relative path that replaces a config class, or that checks read; with
    `every`, to all paths that checks read, and to no other."""
    if isinstance(plain, str):
        is_file = not every and cls.shorthand is not None and cls.shorthand.is_file(plain) and not os.path.isabs(plain)
        return change(plain) if is_file else plain
    if not isinstance(plain, Mapping):
        return plain
    changed, whole = dict(plain), plain
    if is_named(cls, plain):
        changed[LIKE] = _shorthands(cls, plain[LIKE], change, every)
        whole = spelled_out(cls, changed, "", []) or plain
    kind = concrete(cls, whole, "", [])
    if kind is None:
        return changed
    for spec in specs(kind):
        file = plain.get(spec.name)
        if spec.knob.early and isinstance(file, str) and (every or not os.path.isabs(file)):
            changed[spec.name] = change(file)
        for option in members(spec.type) if spec.name in plain else ():
            changed[spec.name] = _inside(option, changed[spec.name], change, every)
    return changed


def _inside(option: Any, plain: Any, change: Callable[[str], str], every: bool) -> Any:
    """Apply `_shorthands` to a field whose type is `option`: a config class or a list of one."""
    if typing.get_origin(option) is Sequence and isinstance(plain, list):
        return [_inside(typing.get_args(option)[0], each, change, every) for each in plain]
    is_config = isinstance(option, type) and issubclass(option, Config)
    return _shorthands(option, plain, change, every) if is_config else plain


def plain_beside(config: Config, folder: str, *, defaults: bool = False) -> dict[str, Any]:
    """`config` as plain data, its relative file fields as a file in `folder` would name them: what `load` undoes."""
    def name(file: str) -> str:
        return os.path.relpath(file, folder)
    plain = to_plain(_files(config, name, late=True), defaults=defaults)
    found: dict[str, Any] = _shorthands(type(config), plain, name)
    return found


def with_files(config: C, change: Callable[[str], str]) -> C:
    """`config` with `change` applied to every file field, relative or not, but for files that checks read: these are
    where they are, and `plain_with_files` changes them in plain data."""
    found: C = _files(config, change, every=True, late=True)
    return found


def plain_with_files(cls: type[Config], plain: Any, change: Callable[[str], str]) -> Any:
    """Plain data of a `cls` with `change` applied to every file that its checks read, relative or not."""
    return _shorthands(cls, plain, change, every=True)


def _files(config: Config, change: Callable[[str], str], every: bool = False, late: bool = False) -> Any:
    """`config` with `change` applied to every relative file field (`every`: to absolute ones, too; `late`: not to those
    that checks have read)."""
    changed: dict[str, Any] = {}
    for spec in specs(type(config)):
        value = getattr(config, spec.name)
        if isinstance(value, Config):
            new: Any = _files(value, change, every, late)
        elif isinstance(value, tuple):
            new = tuple(_files(each, change, every, late) if isinstance(each, Config) else each for each in value)
        elif (spec.knob.file and isinstance(value, str) and value and (every or not os.path.isabs(value))
              and not (late and spec.knob.early)):
            new = change(value)
        else:
            continue
        if new != value:
            changed[spec.name] = new
    return msgspec.structs.replace(config, **changed) if changed else config
