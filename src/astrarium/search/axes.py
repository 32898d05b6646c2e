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

__all__ = ["Axis", "Derived", "Listed", "Point", "Value", "axes_of", "named_paths", "token", "variant_classes"]

HELD = 1 << 14      # derived values that are cached per path

Point = tuple[Any, ...]
"""Per axis the index of its value, -1 if it is not chosen; of a continuum its value."""

Value = tuple[Any, Any, bytes]
"""A derived value: in base units, as its field takes it, as text."""


class Axis(Struct, frozen=True):
    """One knob of a space. `paths`: the design fields that it sets (none: a variable); `domain`: its values, or a
    continuum; `when`: the condition under which it is chosen; `otherwise`: the base's value."""

    name: str
    paths: tuple[str, ...]
    domain: Domain
    fields: tuple[Field, ...]
    when: str | None = None
    otherwise: Any = None

    @property
    def values(self) -> tuple[Any, ...]:
        """The values; empty for a continuum."""
        return self.domain.values

    @property
    def size(self) -> int:
        """The number of values; 0 for a continuum."""
        return len(self.domain.values)

    @property
    def ordered(self) -> bool:
        """Whether neighbouring values are alike."""
        return self.domain.ordered


def named_paths(axes: Sequence[Axis]) -> dict[str, tuple[str, ...]]:
    """Axis name -> the paths that it sets: the argument `knobs` of a `Scope`."""
    return {axis.name: axis.paths for axis in axes}


def variant_classes(choices: Mapping[str, Choice], base: Config | None) -> dict[str, tuple[type[Config], ...]]:
    """Path of a section -> classes that it may turn into, for every choice of a variant."""
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
    """Make the axes of choices and variables, in their order. Raises InputError for a path or value that does not
    exist, and for a path that two axes set."""
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
    """The number in `path` at the place of the first [*] of `pattern`."""
    if "[*]" not in pattern:
        return "*"
    start = pattern.index("[*]") + 1
    return path[start:path.index("]", start)]


def _held(base: Config, path: str) -> Any:
    """The base's value; None if this variant of the base has no such field."""
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
    """Encode a value in base units: equal bytes for equal values."""
    return repr(number).encode()


class Listed(Struct, frozen=True, eq=False):
    """The values of an axis by index (the last one stands for -1, not chosen): in base units, at each of its paths,
    and as text."""

    numbers: tuple[Any, ...]
    put: tuple[tuple[Any, ...], ...]
    texts: tuple[bytes, ...]

    @staticmethod
    def of(axis: Axis) -> Listed:
        """The values of an axis with a list of values."""
        numbers, paths = [plain(value) for value in axis.values], len(axis.paths)
        put = [(value,) * paths for value in (*axis.values, UNSET)]
        return Listed((*numbers, plain(axis.otherwise)), tuple(put), (*map(token, numbers), b"-"))


class Derived(Struct, frozen=True, eq=False, dict=True):
    """One derived path. `function` computes its value in base units from the values of all axes. It depends on `places`
    (numbers of axes) only, so each of their combinations is computed once."""

    path: str
    takes: Field
    function: Callable[[Sequence[Any]], Any]
    places: tuple[int, ...]

    @cached_property
    def _known(self) -> Cache[Value]:
        return Cache(HELD)

    def of(self, point: Sequence[Any], numbers: Sequence[Any]) -> Value:
        """The value at a point; `numbers`: the point's values in base units. Raises InputError if there is none."""
        def made() -> Value:
            number = self.function(numbers)
            return number, self.takes.computed(number), token(number)

        return self._known.get(tuple([point[place] for place in self.places]), made)
