"""What can be set: every knob of a config class with its type, unit, legal values and help."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from astrarium.config.base import Config
from astrarium.config.calls import sentence_of
from astrarium.config.coerce import describe, members, shown
from astrarium.config.spec import FieldSpec, join, specs
from astrarium.errors import InputError

__all__ = ["FieldInfo", "fields", "numbers"]


class FieldInfo(Struct, frozen=True):
    """One knob. `when` names the variant that has it (`compute.model=roofline`), empty where every one does."""

    path: str
    takes: str
    legal: tuple[str, ...]
    default: Any
    required: bool
    help: str
    when: str = ""


def fields(config: type[Config] | Config, prefix: str = "", when: str = "") -> Iterator[FieldInfo]:
    """Yield every field under a config class, depth first.

    A list is written `dims[]`, an entry of a mapping `links.NAME`. The tag of a variant comes before its fields. Of a
    family inside itself (the workloads of jobs) there is only the tag.

    Raises:
        InputError: `config` is not a config class or an instance of one.
    """
    cls = config if isinstance(config, type) else type(config)
    if not issubclass(cls, Config):
        raise InputError("fields", f"{shown(config)} has no fields", expected="a config class, such as Design")
    return _fields(cls, prefix, when, ())


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """(path, number) of every number that is set under a configuration, quantities in base units."""
    if isinstance(value, Config):
        for spec in specs(type(value)):
            yield from numbers(getattr(value, spec.name), join(path, spec.name))
    elif isinstance(value, tuple):
        for place, each in enumerate(value):
            yield from numbers(each, f"{path}[{place}]")
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from numbers(each, join(path, name))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


def _fields(cls: type[Config], prefix: str, when: str, within: tuple[type[Config], ...]) -> Iterator[FieldInfo]:
    if cls.variants is not None and not cls.tag:
        names = tuple(cls.variants.names())
        tag = join(prefix, cls.tag_key)
        sentence = sentence_of(cls).split("\n")[0]
        yield FieldInfo(tag, "one of " + ", ".join(names), names, None, True, sentence, when)
        for name in names if cls not in within else ():
            yield from _fields(cls.variants.load(name), prefix, f"{tag}={name}", (*within, cls))
        return
    for spec in specs(cls):
        yield from _field(spec, join(prefix, spec.name), when, within)


def _field(spec: FieldSpec, path: str, when: str, within: tuple[type[Config], ...]) -> Iterator[FieldInfo]:
    leaf = True
    for option in members(spec.type):
        inner, where = option, path
        if typing.get_origin(option) is Sequence:
            inner, where = typing.get_args(option)[0], f"{path}[]"
        elif typing.get_origin(option) is Mapping:
            inner, where = typing.get_args(option)[1], f"{path}.NAME"
        if isinstance(inner, type) and issubclass(inner, Config):
            leaf = False
            yield from _fields(inner, where, when, within)
    if leaf:
        takes = describe(spec.type, spec.knob)
        yield FieldInfo(path, takes, _legal(spec), spec.default, spec.required, spec.knob.help, when)


def _legal(spec: FieldSpec) -> tuple[str, ...]:
    for option in members(spec.type):
        if typing.get_origin(option) is typing.Literal:
            return tuple(map(str, typing.get_args(option)))
    return spec.knob.legal()
