"""Put many values into a design quickly: only changed sections are made again, and only new values are checked.

Values, checks and errors are those of `config.replace_all`; earlier sections are cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct, field

from astrarium.cache import Cache
from astrarium.config import Config, parse_path, replace_all, to_plain
from astrarium.config.base import ConfigError, decode_into, unknown_key
from astrarium.config.coerce import coerce
from astrarium.config.derive import derived, settled
from astrarium.config.mapping import NameMap
from astrarium.config.named import excluded
from astrarium.config.spec import FieldSpec, Problem, specs
from astrarium.errors import InputError

__all__ = ["UNSET", "Updater"]

C = TypeVar("C", bound=Config)
HELD = 4096


class _Unset:
    """The mark of a path that keeps the value of the base."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = _Unset()


class _Section(Struct, eq=False):
    """One section, one list or one mapping of names, of the base with the slots of the values that are put into it."""

    base: Any
    leaves: dict[str | int, int] = field(default_factory=dict)
    parts: dict[str | int, _Section] = field(default_factory=dict)
    slots: tuple[int, ...] = ()
    cache: Cache[Any] = field(default_factory=lambda: Cache(HELD))
    fields: dict[str | int, FieldSpec] = field(default_factory=dict)
    spec: FieldSpec | None = None       # the field that holds this part

    def finish(self, spec: FieldSpec | None = None) -> tuple[int, ...]:
        """Collect the slots of this section and of those in it."""
        own, self.spec = list(self.leaves.values()), spec
        if isinstance(self.base, Config):
            self.fields = {each.name: each for each in specs(type(self.base))}
        for step, part in self.parts.items():
            own.extend(part.finish(self.fields.get(step)))
        self.slots = tuple(own)
        return self.slots

    def remembered(self, values: Sequence[Any]) -> Any:
        """This section with the values of its slots, from the cache if it was made before."""
        key = tuple([values[slot] for slot in self.slots])
        try:
            hash(key)
        except TypeError:      # a value that cannot be a key
            return self.made(values)
        return self.cache.get(key, lambda: self.made(values))

    def made(self, values: Sequence[Any]) -> Any:
        """Make this section with the values of its slots."""
        new: dict[str | int, Any] = {step: part.remembered(values) for step, part in self.parts.items()}
        for step, slot in self.leaves.items():
            if values[slot] is not UNSET:
                new[step] = values[slot]
        if isinstance(self.base, tuple):
            return self._listed(tuple([new.get(index, each) for index, each in enumerate(self.base)]))
        if isinstance(self.base, NameMap):
            return self._listed(NameMap({name: new.get(name, each) for name, each in self.base.items()}))
        tag = new.pop(self.base.tag_key, self.base.tag) if self.base.tag_key else ""
        if tag != self.base.tag:
            return _turned(self.base, tag, new)
        return self._exchanged(new)

    def _listed(self, values: tuple[Any, ...] | NameMap[Any]) -> Any:
        """Check a list or a mapping as the constructor of its owner does."""
        problems: list[Problem] = []
        found = values if self.spec is None else _coerced(values, self.spec, problems)
        if problems:
            raise ConfigError(problems)
        return found

    def _exchanged(self, new: dict[str | int, Any]) -> Config:
        """The section with `new` fields, checked as its constructor does; inner sections and unchanged fields have been
        checked before."""
        made: Config = copy(self.base)
        problems: list[Problem] = []
        for name in (*derived(made), *excluded(type(made), new)):
            msgspec.structs.force_setattr(made, name, None)
        for step, value in new.items():
            if step not in self.fields:     # a field of another variant
                raise InputError(str(step), unknown_key(type(made), step))
            spec = self.fields[step]
            msgspec.structs.force_setattr(made, spec.name,
                                          value if step in self.parts else _coerced(value, spec, problems))
        for name, value in derived(made).items():
            wanted = settled(getattr(made, name), value, self.fields[name], problems)
            msgspec.structs.force_setattr(made, name, wanted)
        for rule in () if problems else made.rules:
            problems.extend(rule(made))
        if problems:
            raise ConfigError(problems)
        return made


def _inner(base: Any, step: str | int) -> Any:
    """The part of a section, a list or a mapping of names at `step`."""
    return getattr(base, str(step)) if isinstance(base, Config) else base[step]


def _coerced(value: Any, spec: FieldSpec, problems: list[Problem]) -> Any:
    """Convert `value` to what the field holds; add to `problems`."""
    return coerce(value, spec.type, spec.knob, spec.name, problems)


def _turned(base: Config, tag: str, new: dict[str | int, Any]) -> Config:
    """Another variant in place of `base`, with the fields that were set."""
    kept = {name: value for name, value in to_plain(base).items() if name not in excluded(type(base), new)}
    plain: dict[str, Any] = {**kept, **{str(step): value for step, value in new.items()}, base.tag_key: tag}
    family = next(kind for kind in reversed(type(base).__mro__)
                  if issubclass(kind, Config) and kind.variants is not None)
    problems: list[Problem] = []
    found: Config = decode_into(family, plain, "", problems)
    if problems:
        raise ConfigError(problems)
    return found


class Updater(Generic[C]):
    """Makes designs of `base` with values at fixed paths; `apply` takes one value per path, or UNSET."""

    def __init__(self, base: C, paths: Sequence[str]):
        """Raises InputError if one path is within another, or set twice."""
        self.base, self.paths = base, tuple(paths)
        self._whole = any(path in type(base).implies for path in paths)       # then other sections change, too
        self._root = _Section(base)
        taken: set[tuple[str | int, ...]] = set()
        for slot, path in enumerate(paths):
            steps = parse_path(path)
            part = self._root
            for depth, step in enumerate(steps[:-1]):
                if steps[:depth + 1] in taken:
                    raise InputError(path, "is part of another path that is set", expected="one of the two")
                part = part.parts.setdefault(step, _Section(_inner(part.base, step)))
            if steps in taken or steps[-1] in part.parts:
                raise InputError(path, "is set twice, or in parts", expected="one value")
            taken.add(steps)
            part.leaves[steps[-1]] = slot
        self._root.finish()

    def apply(self, values: Sequence[Any]) -> C:
        """The design with these values. Raises InputError as `replace_all` does."""
        if self._whole:
            return replace_all(self.base, self.changes(values))
        try:
            found: C = self._root.made(values)
        except InputError:
            return replace_all(self.base, self.changes(values))
        return found

    def changes(self, values: Sequence[Any]) -> dict[str, Any]:
        """Path -> value, without UNSET."""
        return {path: value for path, value in zip(self.paths, values) if value is not UNSET}
