"""Fields that a name determines: a technology of the catalog its bandwidth, times how many of it there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from astrarium.config.coerce import coerce
from astrarium.config.spec import FieldSpec, Problem, Variants
from astrarium.units import Quantity

__all__ = ["Derivation", "derived", "settled"]


class Derivation(Struct, frozen=True):
    """How a config class gets fields from a name.

    `name`: the field that holds it, `count`: the field that says how many. `names`: the legal ones. `of`: field ->
    value of one. `fields`: those that it may have, `counted` the ones that grow with the count.
    """

    name: str
    count: str
    names: Variants
    of: Callable[[str], Mapping[str, Quantity]]
    fields: tuple[str, ...]
    counted: tuple[str, ...]


def derived(config: Any) -> Mapping[str, Quantity]:
    """The fields of `config` that its others determine, and their values; none while these are not legal."""
    how: Derivation | None = type(config).derive
    name = None if how is None else getattr(config, how.name)
    if how is None or name is None or name not in how.names:
        return {}
    count = getattr(config, how.count)
    many = count if isinstance(count, int) and count > 0 else 1
    return {field: type(value).of(value * many) if field in how.counted else value
            for field, value in how.of(name).items()}


def settled(value: object, wanted: Quantity, spec: FieldSpec, problems: list[Problem]) -> Quantity:
    """The value of a field that others determine: `wanted`, where none or the same one is given; else after adding to
    `problems`."""
    given = None if value is None else coerce(value, spec.type, spec.knob, spec.name, problems)
    if given is not None and given != wanted:
        problems.append(Problem(spec.name, f"{given} is not what the technology has",
                                f"{wanted}, or none: leave it out"))
    return wanted
