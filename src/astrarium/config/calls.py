"""Config classes as Python sees them: what is wrong with a call, the signature, and what `help` prints."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from astrarium.config.coerce import describe, members
from astrarium.config.spec import FieldSpec, Problem, Variants, join, specs
from astrarium.errors import nearest

if TYPE_CHECKING:
    import inspect

__all__ = ["help_of", "misuse", "sentence_of", "signature_of"]


def misuse(cls: type[msgspec.Struct], values: Sequence[object], names: Iterable[str]) -> list[Problem]:
    """What is wrong with `cls(*values, **names)` before any value is looked at: names and their number."""
    known, given, order = {spec.name: spec for spec in specs(cls)}, tuple(names), cls.__match_args__
    problems = []
    if len(values) > len(order):
        most = f"at most {len(order)}: {', '.join(order)}" if order else f"each by its name: {', '.join(known)}"
        problems.append(Problem(cls.__name__, f"{len(values)} value{'s' * (len(values) > 1)} without a name", most))
    for name in order[:len(values)]:
        if name in given:
            problems.append(Problem(join(cls.__name__, name), "is given twice, by its place and by its name"))
    for name in (name for name in given if name not in known):
        problems.append(Problem(cls.__name__, f"unknown field {name!r}", "one of " + ", ".join(known),
                                nearest(name, known)))
    for spec in known.values():
        if spec.required and spec.name not in given and spec.name not in order[:len(values)]:
            problems.append(Problem(join(cls.__name__, spec.name), "is missing", describe(spec.type, spec.knob)))
    return problems


def signature_of(cls: type[msgspec.Struct]) -> inspect.Signature:
    """The constructor's, without annotations: `help_of` says what each field takes."""
    import inspect

    order = cls.__match_args__
    found = []
    for spec in sorted(specs(cls), key=lambda spec: order.index(spec.name) if spec.name in order else len(order)):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if spec.name in order else inspect.Parameter.KEYWORD_ONLY
        value = inspect.Parameter.empty if spec.required else spec.default
        found.append(inspect.Parameter(spec.name, kind, default=value))
    return inspect.Signature(found)


def sentence_of(cls: type[msgspec.Struct]) -> str:
    """The class's own doc string."""
    return cls.__dict__.get("__doc__") or ""


def help_of(cls: type[msgspec.Struct], text: str) -> str:
    """`text` (the class's own), then every field: what it takes, its default, what it is."""
    variants = cast("Variants | None", getattr(cls, "variants", None))
    if variants is not None and not getattr(cls, "tag", ""):
        return f"{text}\n\nAbstract; in a file `{getattr(cls, 'tag_key', '')}` is one of {', '.join(variants.names())}."
    lines = [line for spec in specs(cls) for line in _field(spec)]
    return f"{text}\n\nFields:\n" + "\n".join(lines) if lines else text


def _field(spec: FieldSpec) -> Iterator[str]:
    default = "required" if spec.required else "may be left out" if spec.default in (None, ()) else \
        f"default {spec.default}"
    yield f"    {spec.name}: {_takes(spec)}; {default}"
    if spec.knob.help:
        yield f"        {spec.knob.help}"


def _takes(spec: FieldSpec) -> str:
    """As `describe`, with config classes by their names."""
    words = []
    for option in members(spec.type):
        item = typing.get_args(option)[0] if typing.get_origin(option) is Sequence else option
        made = isinstance(item, type) and issubclass(item, msgspec.Struct)
        text = cast(Any, item).__name__ if made else describe(option, spec.knob)
        words.append(f"a list of {text}" if made and item is not option else text)
    return " or ".join(word for word in dict.fromkeys(words) if word != "null")
