"""What can be set: every knob of a config class with its type, unit, legal values and help."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from astrarium.config.base import Config
from astrarium.config.coerce import describe, members
from astrarium.config.spec import FieldSpec, join, specs

__all__ = ["FieldInfo", "fields"]


@dataclass(frozen=True)
class FieldInfo:
    """One knob. `when` names the variant that has it (`compute.model=roofline`), empty where every one does."""

    path: str
    takes: str
    legal: tuple[str, ...]
    default: Any
    required: bool
    help: str
    when: str = ""


def fields(cls: type[Config], prefix: str = "", when: str = "") -> Iterator[FieldInfo]:
    """Every field under `cls`, depth first; a list is written `dims[]`, a variant's tag comes before its fields."""
    if cls.variants is not None and not cls.tag:
        names = tuple(cls.variants.names())
        tag = join(prefix, cls.tag_key)
        yield FieldInfo(tag, "one of " + ", ".join(names), names, None, True, (cls.__doc__ or "").split("\n")[0], when)
        for name in names:
            yield from fields(cls.variants.load(name), prefix, f"{tag}={name}")
        return
    for spec in specs(cls):
        yield from _field(spec, join(prefix, spec.name), when)


def _field(spec: FieldSpec, path: str, when: str) -> Iterator[FieldInfo]:
    leaf = True
    for option in members(spec.type):
        inner = typing.get_args(option)[0] if typing.get_origin(option) is Sequence else option
        if isinstance(inner, type) and issubclass(inner, Config):
            leaf = False
            yield from fields(inner, path if inner is option else f"{path}[]", when)
    if leaf:
        takes = describe(spec.type, spec.knob)
        yield FieldInfo(path, takes, _legal(spec), spec.default, spec.required, spec.knob.help, when)


def _legal(spec: FieldSpec) -> tuple[str, ...]:
    for option in members(spec.type):
        if typing.get_origin(option) is typing.Literal:
            return tuple(map(str, typing.get_args(option)))
    return spec.knob.legal()
