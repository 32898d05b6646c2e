"""What a config class says about its fields: one `Knob` each, for the checks, `astrarium show`, docs and search."""

from __future__ import annotations

import functools
import typing
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

__all__ = ["FieldSpec", "Knob", "Problem", "Variants", "default", "join", "specs"]


class Variants(Protocol):
    """The named concrete classes behind an abstract config class (a kind of the registry)."""

    def names(self) -> Sequence[str]: ...
    def load(self, name: str) -> Any: ...
    def __contains__(self, name: object) -> bool: ...


class Knob(Struct, frozen=True):
    """Annotation of a config field: a help sentence and what is legal beyond the type."""

    help: str
    ge: float | None = None
    gt: float | None = None
    lt: float | None = None
    choices: Variants | tuple[str, ...] = ()
    file: bool = False  # a path, relative to the design file
    early: bool = False  # a file that the checks of the design read

    def legal(self) -> tuple[str, ...]:
        """Names that the field takes; empty where it is not a choice among names."""
        return self.choices if isinstance(self.choices, tuple) else tuple(self.choices.names())


class Problem(Struct, frozen=True):
    """One thing wrong with a value; `path` is relative to the section whose rule reports it."""

    path: str
    message: str
    expected: str | None = None
    did_you_mean: str | None = None

    def under(self, parent: str) -> Problem:
        """This problem with a path that starts at the owner of `parent`."""
        return Problem(join(parent, self.path), self.message, self.expected, self.did_you_mean)


class FieldSpec(Struct, frozen=True):
    """One field of a config class."""

    name: str
    type: Any
    knob: Knob
    required: bool
    default: Any


def default(value: object) -> Any:
    """A field's default as it may be typed (`default("0 ns")`); Any, for a type checker sees the field's descriptor."""
    return value


def join(parent: str, child: str) -> str:
    """`network` + `dims` -> `network.dims`; `dims` + `[1]` -> `dims[1]`."""
    return parent + child if not parent or not child or child.startswith("[") else f"{parent}.{child}"


@functools.cache
def specs(cls: type[msgspec.Struct]) -> tuple[FieldSpec, ...]:
    """The fields of `cls` in order."""
    hints = typing.get_type_hints(cls, include_extras=True)
    found = []
    for info in msgspec.structs.fields(cls):
        hint, knob = hints[info.name], Knob("")
        if typing.get_origin(hint) is typing.Annotated:
            knob = next((extra for extra in hint.__metadata__ if isinstance(extra, Knob)), knob)
            hint = hint.__origin__
        required = info.default is msgspec.NODEFAULT and info.default_factory is msgspec.NODEFAULT
        value = info.default if info.default_factory is msgspec.NODEFAULT else info.default_factory()
        found.append(FieldSpec(info.name, hint, knob, required, None if required else value))
    return tuple(found)
