"""Axes of a space, one per knob; and the values that a point of the space puts into a design."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from astrarium.cache import Cache
from astrarium.config import Config, get, parse_path
from astrarium.errors import InputError
from astrarium.search.choice import Choice, Domain, Field, choice_of, domain, field_at, parent_of, plain, spread
from astrarium.search.update import UNSET

__all__ = ["Axis", "Derived", "Listed", "Point", "Value", "axes_of", "token", "variant_classes"]

Point = tuple[Any, ...]
"""Per axis the index of its value; -1 where it is not chosen; a float where it is a continuum."""
HELD = 1 << 14
Value = tuple[Any, Any, bytes]
"""A derived value in base units, as its field `takes` it, and as text."""


class Axis(Struct, frozen=True):
    """One knob of a space. `paths`: what it sets (none: a variable). `values`, or a continuum."""

    name: str
    paths: tuple[str, ...]
    domain: Domain
    fields: tuple[Field, ...]
    when: str | None = None
    otherwise: Any = None

    @property
    def values(self) -> tuple[Any, ...]:
        """What there is to choose from; empty where it is a continuum."""
        return self.domain.values

    @property
    def size(self) -> int:
        """How many values there are; 0: a continuum."""
        return len(self.domain.values)

    @property
    def ordered(self) -> bool:
        """Whether neighbouring values are alike."""
        return self.domain.ordered


def named_paths(axes: Sequence[Axis]) -> dict[str, tuple[str, ...]]:
    """Axis name -> the paths that it sets, as a `Scope` takes them."""
    return {axis.name: axis.paths for axis in axes}


def variant_classes(choices: Mapping[str, Choice], base: Config | None) -> dict[str, tuple[type[Config], ...]]:
    """Classes that a part of the base may turn into, by its path: where a choice picks a variant."""
    found: dict[str, tuple[type[Config], ...]] = {}
    for pattern, choice in choices.items():
        if base is None:
            break
        for path in spread(pattern, base):
            owner = get(base, parent_of(path)) if "." in path or "[" in path else base
            if isinstance(owner, Config) and owner.tag_key and path.endswith(f".{owner.tag_key}"):
                names = [name for name in choice.values if isinstance(name, str) and owner.variants is not None
                         and name in owner.variants]
                found[parent_of(path)] = tuple(owner.variants.load(name) for name in names) if owner.variants else ()
    return found


def axes_of(choices: Mapping[str, Any], variables: Mapping[str, Any], base: Config | None) -> tuple[Axis, ...]:
    """Every axis, in the order written. Raises InputError for a path or value that does not exist."""
    named = {path: choice_of(path, given) for path, given in choices.items()}
    kinds = variant_classes(named, base)
    found: list[Axis] = []
    for pattern, choice in named.items():
        if base is None:
            raise InputError(pattern, "is a path, and there is no base design", expected="a base, or variables")
        parse_path(pattern.replace("[*]", "[0]"))
        found.extend(_chosen(pattern, choice, base, kinds))
    for name, given in variables.items():
        if parse_path(name) != (name,):
            raise InputError(name, "is not a name for a variable", expected="letters, digits and _")
        choice = choice_of(name, given)
        found.append(Axis(name, (), domain(name, choice, Field("")), (), choice.when))
    _distinct(found)
    return tuple(found)


def _chosen(pattern: str, choice: Choice, base: Config, kinds: Mapping[str, Sequence[type[Config]]]) -> list[Axis]:
    paths = spread(pattern, base)
    fields = [field_at(base, path, kinds) for path in paths]
    domains = [domain(path, choice, field) for path, field in zip(paths, fields)]
    if choice.shared:
        return [Axis(pattern, paths, domains[0], tuple(fields), choice.when, _held(base, paths[0]))]
    when = choice.when
    return [Axis(path, (path,), domains[index], (fields[index],),
                 when and when.replace("[*]", f"[{_index(pattern, path)}]"), _held(base, path))
            for index, path in enumerate(paths)]


def _index(pattern: str, path: str) -> str:
    """The number that stands for the first [*]."""
    if "[*]" not in pattern:
        return "*"
    start = pattern.index("[*]") + 1
    return path[start:path.index("]", start)]


def _held(base: Config, path: str) -> Any:
    """The base's value; None where this variant of the base has no such field."""
    try:
        return get(base, path)
    except InputError:
        return None


def _distinct(axes: Sequence[Axis]) -> None:
    owner: dict[str, str] = {}
    for axis in axes:
        for path in axis.paths or (axis.name,):
            if path in owner:
                raise InputError(axis.name, f"sets {path}, which {owner[path]} sets too", expected="one of the two")
            owner[path] = axis.name


def token(number: Any) -> bytes:
    """A value in base units as text: equal where the values are."""
    return repr(number).encode()


class Listed(Struct, frozen=True, eq=False):
    """The values of an axis by index (the last one stands for -1, not chosen): in base units, at each of its paths,
    and as text."""

    numbers: tuple[Any, ...]
    put: tuple[tuple[Any, ...], ...]
    texts: tuple[bytes, ...]

    @staticmethod
    def of(axis: Axis) -> Listed:
        """Those of an axis that is no continuum."""
        numbers, paths = [plain(value) for value in axis.values], len(axis.paths)
        put = [(value,) * paths for value in (*axis.values, UNSET)]
        return Listed((*numbers, plain(axis.otherwise)), tuple(put), (*map(token, numbers), b"-"))


class Derived(Struct, frozen=True, eq=False, dict=True):
    """One derived path. `function` computes its value in base units from those of all axes; it depends on `places`
    (numbers of axes) alone, so that it is computed once for each of their combinations."""

    path: str
    takes: Field
    function: Callable[[Sequence[Any]], Any]
    places: tuple[int, ...]

    @cached_property
    def _known(self) -> Cache[Value]:
        return Cache(HELD)

    def of(self, point: Sequence[Any], numbers: Sequence[Any]) -> Value:
        """The value at a point; `numbers`: its axes in base units. Raises InputError where it cannot be computed."""
        def made() -> Value:
            number = self.function(numbers)
            return number, self.takes.computed(number), token(number)

        return self._known.get(tuple([point[place] for place in self.places]), made)
