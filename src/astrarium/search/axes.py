"""From choices to axes: one per knob, each with what it sets, its values, and when it is chosen at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from astrarium.config import Config, get, parse_path
from astrarium.errors import InputError
from astrarium.search.choice import Choice, Domain, choice_of, domain
from astrarium.search.typed import Field, field_at, parent_of

__all__ = ["Axis", "axes_of", "spread", "variant_classes"]


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


def spread(path: str, base: Config | None) -> tuple[str, ...]:
    """`network.dims[*].npus` as one path per entry of the base's list; a path without [*] as itself."""
    if "[*]" not in path:
        return (path,)
    head, _, tail = path.partition("[*]")
    if base is None:
        raise InputError(path, "has [*], and there is no base design whose list it could mean")
    owner = get(base, head)
    if not isinstance(owner, tuple):
        raise InputError(head, "is not a list, so [*] has no meaning")
    found: list[str] = []
    for index in range(len(owner)):
        found.extend(spread(f"{head}[{index}]{tail}", base))
    if not found:
        raise InputError(path, "has no effect: the base's list is empty", expected=f"entries in {head} of the base")
    return tuple(found)


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


