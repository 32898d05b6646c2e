"""A design space (COSMIC's Parameter Set): a base design, choices on dotted paths, derived values and constraints."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct, field
from msgspec.structs import fields, force_setattr

from astrarium.config import to_plain
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.search.axes import Axis, Derived, Listed, Point, Value, axes_of, named_paths, token
from astrarium.search.choice import Choice, choice_of, field_at
from astrarium.search.constraints import Component, Projector, Rule, components_of, levels_of, model_rules
from astrarium.search.expression import compiled, names_in
from astrarium.search.scope import Scope
from astrarium.search.update import Updater
from astrarium.units import Quantity

__all__ = ["Space", "most_trials", "space_plain"]


class Space(Struct, frozen=True, eq=False, dict=True):
    """The designs among which a search chooses.

    The rules of the base's workload (its `conditions`) are constraints as well.

    Args:
        base: The design that the choices change; None for a space of variables only.
        choices: Path -> values: a list, a `Choice`, or a mapping (from, to, step...). `[*]` is every entry of a list.
        where: Constraints: expressions that are true for every design of the space.
        derived: Path -> the expression that computes its value from the chosen ones.
        variables: Name -> values, as in `choices`, for names that are not paths.
        changed: Paths that cases change; workload rules on them are not constraints (see `for_cases`).

    Raises:
        InputError: for an unknown path, an illegal value, and constraints that no design meets.
    """

    base: Design | None
    choices: Mapping[str, Any] = field(default_factory=dict)
    where: str | Sequence[str] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    changed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.base is not None and not isinstance(self.base, Design):
            raise InputError("base", f"{type(self.base).__name__} is not a design", expected="a Design")
        if isinstance(self.where, str):
            force_setattr(self, "where", (self.where,))
        _ = self.components, self._derived, self._updater

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Every knob, in the order written."""
        found = axes_of(self.choices, self.variables, self.base)
        if not found:
            raise InputError("choices", "is empty", expected="at least one knob")
        return found

    @cached_property
    def scope(self) -> Scope:
        """Resolves the names in expressions."""
        return Scope(self.base, named_paths(self.axes), self.derived)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The resolved constraints, and the rules of the workload that exclude further designs."""
        own = tuple(Rule(text, self.scope.node(text, f"constraints[{index}]"), f"constraints[{index}]")
                    for index, text in enumerate(self.where))
        return own + model_rules(self.base, self.axes, self.scope, own, self.changed)

    def for_cases(self, paths: Sequence[str]) -> Space:
        """This space for cases that change these paths of the base."""
        changed = tuple(dict.fromkeys((*self.changed, *paths)))
        if changed == self.changed or len(self.rules) == len(self.where):
            return self
        return Space(self.base, self.choices, self.where, self.derived, self.variables, changed)

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """The independent parts of the space; continua are in none of them."""
        return components_of(self.axes, self.rules, levels_of(self.axes, self.scope))

    @cached_property
    def continua(self) -> tuple[int, ...]:
        """Numbers of the axes without a list of values."""
        return tuple(index for index, axis in enumerate(self.axes) if not axis.size)

    @cached_property
    def count(self) -> int:
        """The exact number of feasible combinations, without continua."""
        return math.prod(component.diagram.count for component in self.components)

    @property
    def nominal(self) -> int:
        """The number of combinations without constraints: the product of the numbers of values."""
        return math.prod(axis.size for axis in self.axes if axis.size)

    def __reduce__(self) -> tuple[Any, ...]:
        return Space, (self.base, dict(self.choices), tuple(self.where), dict(self.derived), dict(self.variables),
                       self.changed)

    def __repr__(self) -> str:
        return f"Space({len(self.axes)} knobs, {self.count} feasible of {self.nominal})"

    def point(self, number: int) -> Point:
        """The feasible point with this number; continua are at their middle. Raises InputError unless 0 <= number <
        count."""
        if not 0 <= number < self.count:
            raise InputError("point", f"there is no number {number}", expected=f"0 to {self.count - 1}")
        found: list[Any] = [None] * len(self.axes)
        for component in reversed(self.components):
            number, own = divmod(number, component.diagram.count)
            for place, value in zip(component.places, component.diagram.choice(own)):
                found[place] = value
        for place in self.continua:
            found[place] = self._between(place, 0.5)
        return tuple(found)

    def number(self, point: Point) -> int:
        """The number of a point; -1 if it is not feasible. Continua do not count."""
        total = 0
        for component in self.components:
            own = component.diagram.number([point[place] for place in component.places])
            if own < 0:
                return -1
            total = total * component.diagram.count + own
        return total

    def points(self) -> Iterator[Point]:
        """Yield every feasible point, by number."""
        return (self.point(number) for number in range(self.count))

    def sample(self, rng: random.Random) -> Point:
        """Draw a feasible point, each with equal probability (continua: even on their scale)."""
        point = self.point(rng.randrange(self.count))
        if not self.continua:
            return point
        found = list(point)
        for place in self.continua:
            found[place] = self._between(place, rng.random())
        return tuple(found)

    def _between(self, place: int, share: float) -> float:
        domain = self.axes[place].domain
        if domain.log:
            return min(domain.high, math.exp(math.log(domain.low) + share * math.log(domain.high / domain.low)))
        return min(domain.high, domain.low + share * (domain.high - domain.low))

    @cached_property
    def projector(self) -> Projector:
        """Finds the feasible point nearest to a wish."""
        return Projector(self.axes, self.components)

    @cached_property
    def _derived(self) -> tuple[Derived, ...]:
        """Every derived path."""
        slots = {axis.name: index for index, axis in enumerate(self.axes)}
        taken = {path for axis in self.axes for path in axis.paths}
        found = []
        for path in self.scope.derived:
            if self.base is None:
                raise InputError(path, "is derived, and there is no base design that has it")
            if path in taken:
                raise InputError(path, "is derived and chosen", expected="one of the two")
            node = self.scope.meaning(path)[0]
            places = tuple(sorted(slots[name] for name in names_in(node)))
            found.append(Derived(path, field_at(self.base, path, {}), compiled(node, slots), places))
        return tuple(found)

    def _follows(self, point: Point) -> list[Value]:
        """The derived values at a point, in the order of `_derived`."""
        numbers = self.numbers(point) if self._derived else []
        return [each.of(point, numbers) for each in self._derived]

    @cached_property
    def _updater(self) -> Updater[Design] | None:
        if self.base is None:
            return None
        return Updater(self.base, self.paths)

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path of the design that a point sets, in the order of `assignment`."""
        return (*(path for axis in self.axes for path in axis.paths), *(each.path for each in self._derived))

    @cached_property
    def _listed(self) -> tuple[Listed | None, ...]:
        """The values of each axis; None for a continuum."""
        return tuple(Listed.of(axis) if axis.size else None for axis in self.axes)

    def numbers(self, point: Point) -> list[Any]:
        """The value of each axis in base units; the base's value if the axis is not chosen."""
        return [index if row is None else row.numbers[index] for row, index in zip(self._listed, point)]

    def assignment(self, point: Point) -> tuple[Any, ...]:
        """The values that a point puts into the base, one per path of `paths`; UNSET for one that is not chosen."""
        found: list[Any] = []
        for axis, row, index in zip(self.axes, self._listed, point):
            found.extend([each.typed(each.computed(index)) for each in axis.fields] if row is None else row.put[index])
        found.extend(typed for _, typed, _ in self._follows(point))
        return tuple(found)

    def fingerprint(self, point: Point) -> bytes:
        """Encode the values that a point puts into the base: equal bytes for equal designs."""
        found = [token(index) if row is None else row.texts[index]
                 for axis, row, index in zip(self.axes, self._listed, point) if axis.paths]
        found.extend(text for _, _, text in self._follows(point))
        return b"|".join(found)

    def design(self, point: Point) -> Design:
        """The design at a point. Raises InputError if the configuration refuses it."""
        if self._updater is None:
            raise InputError("base", "there is none, so a point has no design")
        return self._updater.apply(self.assignment(point))

    def values(self, point: Point) -> dict[str, Any]:
        """Knob -> value and derived path -> value, as the fields hold them; without knobs that are not chosen."""
        found = {axis.name: _typed_value(axis, index) for axis, index in zip(self.axes, point)
                 if index != -1 or not axis.size}
        return found | {each.path: typed for each, (_, typed, _) in zip(self._derived, self._follows(point))}

    def point_of(self, values: Mapping[str, Any]) -> Point:
        """The point with these values (knob -> value, as in a file or typed); a knob that is left out is not chosen.
        Raises InputError for an unknown knob or value."""
        known = {axis.name for axis in self.axes} | set(self.scope.derived)
        for name in values:
            if name not in known:
                raise InputError(name, "is not a knob of this space", expected="one of " + ", ".join(sorted(known)))
        return tuple(_place(axis, values) for axis in self.axes)


def _typed_value(axis: Axis, index: Any) -> Any:
    if axis.size:
        return axis.domain.values[index]
    return axis.fields[0].typed(axis.fields[0].computed(index)) if axis.fields else index


def _place(axis: Axis, values: Mapping[str, Any]) -> Any:
    if axis.name not in values:
        if axis.when is None:
            raise InputError(axis.name, "is missing", expected="a value")
        return -1
    value = values[axis.name]
    typed = axis.fields[0].typed(value) if axis.fields else value
    if not axis.size:
        return float(typed)
    for index, known in enumerate(axis.values):
        if known == typed and isinstance(known, bool) == isinstance(typed, bool):
            return index
    raise InputError(axis.name, f"{value!r} is not one of its values")


def most_trials(space: Space, trials: int, agent: object) -> int:
    """How many of some trials an agent (its options) makes at most: one that repeats no design ends with the space."""
    return trials if space.continua or getattr(agent, "repeats", True) else min(trials, space.count)


def space_plain(space: Space) -> dict[str, Any]:
    """Convert a space to mappings, lists and scalars, which `searchfile.space_from` reads back as an equal space."""
    found: dict[str, Any] = {}
    if space.base is not None:
        found["base"] = to_plain(space.base)
    for key, choices in (("choices", space.choices), ("variables", space.variables)):
        if choices:
            found[key] = {path: _choice_plain(choice_of(path, given)) for path, given in choices.items()}
    if space.derived:
        found["derived"] = dict(space.derived)
    if space.where:
        found["constraints"] = list(space.where)
    return found


def _choice_plain(choice: Choice) -> Any:
    names = {"low": "from", "high": "to"}
    found = {names.get(each.name, each.name): _value_plain(getattr(choice, each.name)) for each in fields(Choice)
             if getattr(choice, each.name) != each.default}
    return found["values"] if list(found) == ["values"] else found


def _value_plain(value: Any) -> Any:
    if isinstance(value, Quantity):
        return str(value)
    return [_value_plain(each) for each in value] if isinstance(value, (tuple, list)) else value
