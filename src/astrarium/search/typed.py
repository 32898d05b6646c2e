"""What a dotted path of a design takes: its type, its limits, and values turned into what the field holds."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from astrarium.config import Config, Knob, get, parse_path
from astrarium.config.base import ConfigError
from astrarium.config.coerce import coerce, members
from astrarium.config.spec import FieldSpec, Problem, join, specs
from astrarium.errors import InputError, nearest
from astrarium.units import Quantity

__all__ = ["Field", "field_at", "joined", "parent_of"]


NO_KNOB = Knob("")


class Field(Struct, frozen=True):
    """The field behind one path. `tags`: the legal names where the path picks a variant."""

    path: str
    type: Any = None
    knob: Knob = NO_KNOB
    tags: tuple[str, ...] = ()

    @property
    def quantity(self) -> type[Quantity] | None:
        """The dimension that it has."""
        kinds = (each for each in members(self.type) if isinstance(each, type))
        return next((each for each in kinds if issubclass(each, Quantity)), None)

    @property
    def whole(self) -> bool:
        """Whether it takes whole numbers and no others."""
        return int in members(self.type) and float not in members(self.type)

    def typed(self, value: Any) -> Any:
        """`value` as the field holds it. Raises InputError."""
        if self.tags:
            if value not in self.tags:
                raise InputError(self.path, f"{value!r} is not known", expected="one of " + ", ".join(self.tags),
                                 did_you_mean=nearest(str(value), self.tags))
            return value
        problems: list[Problem] = []
        found = coerce(value, self.type, self.knob, self.path, problems)
        if problems:
            raise ConfigError(problems)
        return found

    def computed(self, value: Any) -> Any:
        """A number in base units (what an expression gives) as the field takes it."""
        if isinstance(value, float) and self.quantity is not None:
            return self.quantity.of(value)
        if isinstance(value, int) and not isinstance(value, bool) and self.quantity is not None:
            return self.quantity.of(float(value))
        return int(value) if isinstance(value, float) and self.whole and value.is_integer() else value


def parent_of(path: str) -> str:
    """`network.dims[1].bandwidth` -> `network.dims[1]`; empty for a section."""
    return path[:max(path.rfind("."), path.rfind("["), 0)]


def joined(steps: Sequence[str | int]) -> str:
    """Steps as a path."""
    path = ""
    for step in steps:
        path = join(path, f"[{step}]" if isinstance(step, int) else step)
    return path


def field_at(base: Config, path: str, variants: Mapping[str, Sequence[type[Config]]]) -> Field:
    """The field at `path`. `variants`: classes that the owner at a path may turn into, beside the base's. Raises
    InputError naming the part that does not exist."""
    *owners, last = parse_path(path)
    parent = joined(owners)
    owner = get(base, parent) if owners else base
    if isinstance(last, int):
        get(base, path)
        inner = field_at(base, parent, variants)
        sequence = next(each for each in members(inner.type) if typing.get_origin(each) is Sequence)
        return Field(path, typing.get_args(sequence)[0], inner.knob)
    if isinstance(owner, Config):
        if owner.tag_key and last == owner.tag_key and owner.variants is not None:
            return Field(path, str, tags=tuple(owner.variants.names()))
        for kind in (type(owner), *variants.get(parent, ())):
            spec = _named(kind, last)
            if spec is not None:
                return Field(path, spec.type, spec.knob)
    get(base, path)      # says what is wrong
    raise InputError(path, "is not a field")


def _named(kind: type[Config], name: str) -> FieldSpec | None:
    return next((spec for spec in specs(kind) if spec.name == name), None)
