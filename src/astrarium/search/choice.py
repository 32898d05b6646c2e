"""What may be chosen for one knob: the field behind its path, and values or a range as that field holds them."""

from __future__ import annotations

import math
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

__all__ = ["MAX_VALUES", "Choice", "Domain", "Field", "choice_of", "field_at", "joined", "jsonable", "parent_of",
           "plain", "spread"]

NO_KNOB = Knob("")
MAX_VALUES = 1_000_000
_KEYS = {"from": "low", "to": "high"}


class Field(Struct, frozen=True):
    """The field behind one path. `tags`: the legal names if the path picks a variant."""

    path: str
    type: Any = None
    knob: Knob = NO_KNOB
    tags: tuple[str, ...] = ()

    @property
    def quantity(self) -> type[Quantity] | None:
        """The class of the field's quantity (bytes, time...); None for a plain number or text."""
        kinds = (each for each in members(self.type) if isinstance(each, type))
        return next((each for each in kinds if issubclass(each, Quantity)), None)

    @property
    def whole(self) -> bool:
        """Whether the field takes whole numbers only."""
        return int in members(self.type) and float not in members(self.type)

    def typed(self, value: Any) -> Any:
        """Convert `value` to what the field holds. Raises InputError if the field refuses it."""
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
        """Convert a number in base units (the value of an expression) to what the field takes."""
        if isinstance(value, float) and self.quantity is not None:
            return self.quantity.of(value)
        if isinstance(value, int) and not isinstance(value, bool) and self.quantity is not None:
            return self.quantity.of(float(value))
        return int(value) if isinstance(value, float) and self.whole and value.is_integer() else value


def parent_of(path: str) -> str:
    """The path of the owner: `network.dims[1].bandwidth` -> `network.dims[1]`; empty for a section."""
    return path[:max(path.rfind("."), path.rfind("["), 0)]


def joined(steps: Sequence[str | int]) -> str:
    """Join steps to a path."""
    path = ""
    for step in steps:
        path = join(path, f"[{step}]" if isinstance(step, int) else step)
    return path


def field_at(base: Config, path: str, variants: Mapping[str, Sequence[type[Config]]]) -> Field:
    """The field at `path`.

    Args:
        base: The design (or another configuration) that has the field.
        path: Dotted path, such as `network.dims[1].bandwidth`.
        variants: Path of an owner -> classes that it may turn into, besides its class in `base`.

    Raises:
        InputError: names the first part of `path` that does not exist.
    """
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


def spread(path: str, base: Config | None) -> tuple[str, ...]:
    """Expand [*]: one path per entry of the base's list. A path without [*] stays as it is. Raises InputError if
    [*] does not mean a list with entries."""
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


def plain(value: Any) -> Any:
    """Convert a value to what expressions compare: a quantity to a number in base units."""
    return float(value) if isinstance(value, Quantity) else value


def jsonable(value: Any) -> Any:
    """Convert data for JSON: quantities and keys to text."""
    if isinstance(value, Quantity):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): jsonable(each) for key, each in value.items()}
    return [jsonable(each) for each in value] if isinstance(value, (list, tuple, range)) else value


class Choice(Struct, frozen=True):
    """The values of a knob: a list, or a range.

    Quantities are text with a unit ("50 GB/s"). A range without `step` and `factor` is a continuum, unless its ends are
    whole numbers.

    Args:
        values: The list; empty for a range.
        low: First value of a range.
        high: Last value of a range, included.
        step: Distance between the values of a range.
        factor: Ratio between the values of a range, above 1.
        log: Whether a continuum is even on a logarithmic scale.
        shared: Whether all entries of a path with [*] have one value; otherwise each entry is a knob.
        when: An expression. Where it is false, the knob is not chosen and the base's value stays.
        ordered: Whether neighbours in `values` are alike. None: true for numbers and quantities.
    """

    values: Sequence[Any] = ()
    low: Any = None
    high: Any = None
    step: Any = None
    factor: float | None = None
    log: bool = False
    shared: bool = False
    when: str | None = None
    ordered: bool | None = None


class Domain(Struct, frozen=True):
    """A choice with typed values: `values`, or (if empty) the continuum from `low` to `high` in base units."""

    values: tuple[Any, ...]
    ordered: bool
    low: float = 0.0
    high: float = 0.0
    log: bool = False


_NAMES = Choice.__struct_fields__
_FILE_KEYS = tuple({"low": "from", "high": "to"}.get(name, name) for name in _NAMES)


def choice_of(path: str, given: object) -> Choice:
    """Make a `Choice` of what is given for a path: a `Choice`, a list, or a mapping (from, to, step, values...). Raises
    InputError for anything else."""
    if isinstance(given, Choice):
        return _checked_choice(path, {name: getattr(given, name) for name in _NAMES})
    if isinstance(given, range):
        return Choice(values=tuple(given))
    if isinstance(given, Mapping):
        named = {_KEYS.get(str(key), str(key)): value for key, value in given.items()}
        for key in named:
            if key not in _NAMES:
                raise InputError(f"{path}.{key}", "unknown key", expected="one of " + ", ".join(_FILE_KEYS),
                                 did_you_mean=nearest(str(key), _FILE_KEYS))
        return _checked_choice(path, named)
    if isinstance(given, (set, frozenset)):
        return Choice(values=tuple(sorted(given, key=lambda each: (str(type(each)), each))))
    if isinstance(given, Sequence) and not isinstance(given, str):
        return Choice(values=tuple(given))
    raise InputError(path, f"{given!r} is not a choice",
                     expected="a list of values, or a mapping with from and to, or values")


def _checked_choice(path: str, named: dict[str, Any]) -> Choice:
    """Make a `Choice` of named entries after a check of their types; null counts as left out."""
    found = {key: value for key, value in named.items() if value is not None}
    kinds: dict[str, tuple[Any, str]] = {
        "log": (bool, "true or false"), "shared": (bool, "true or false"), "ordered": (bool, "true or false"),
        "when": (str, "an expression"), "values": ((list, tuple, range), "a list"),
        "factor": ((int, float), "a number")}
    for key, (kind, words) in kinds.items():
        if key in found and (not isinstance(found[key], kind) or (key == "factor" and isinstance(found[key], bool))):
            raise InputError(f"{path}.{key}", f"{str(found[key])[:60]!r} is not {words}")
    return Choice(**found)


def domain(path: str, choice: Choice, field: Field) -> Domain:
    """The values of `choice`, each as `field` holds it. Raises InputError for a value that the field refuses, for no
    values, and for values with a range."""
    ranged = choice.low is not None or choice.high is not None
    listed = len(choice.values) > 0
    if ranged == listed:
        raise InputError(path, "holds no values" if not ranged else "has both values and a range",
                         expected="values, or from and to")
    if listed:
        return _listed(path, choice, field)
    for name, value in (("from", choice.low), ("to", choice.high)):
        if value is None:
            raise InputError(f"{path}.{name}", "is missing")
    return _ranged(path, choice, field)


def _listed(path: str, choice: Choice, field: Field) -> Domain:
    if len(choice.values) > MAX_VALUES:
        raise InputError(path, f"holds {len(choice.values)} values", expected=f"at most {MAX_VALUES}")
    found: list[Any] = []
    seen: set[Any] = set()
    for index, value in enumerate(choice.values):
        typed = _typed(f"{path}[{index}]" if not field.path else path, value, field)
        try:
            known = (type(typed), typed) in seen
            seen.add((type(typed), typed))
        except TypeError:
            known = typed in found
        if known:
            raise InputError(path, f"holds {value!r} twice", expected="every value once")
        found.append(typed)
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in found)
    if choice.step is not None or choice.factor is not None or choice.log:
        raise InputError(path, "has values and a step, factor or log, which belong to a range")
    return Domain(tuple(found), numbers if choice.ordered is None else choice.ordered)


def _typed(path: str, value: Any, field: Field) -> Any:
    if field.type is not None or field.tags:
        return field.typed(value)
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    raise InputError(path, f"{value!r} is not a value", expected="a number, text, true or false")


def _ends(path: str, choice: Choice, field: Field) -> tuple[Any, Any, Any]:
    """The numbers `from`, `to` and `step` in base units."""
    found = []
    for name, value in (("from", choice.low), ("to", choice.high), ("step", choice.step)):
        number = value
        if value is not None and field.quantity is not None:
            number = float(_quantity(f"{path}.{name}", value, field.quantity))
        if number is not None and (not isinstance(number, (int, float)) or isinstance(number, bool)
                                   or not math.isfinite(number)):
            raise InputError(f"{path}.{name}", f"{value!r} is not a number")
        found.append(number)
    return found[0], found[1], found[2]


def _quantity(path: str, value: Any, kind: type[Quantity]) -> Quantity:
    try:
        return kind(value)
    except InputError as error:
        raise InputError(path, error.message, expected=error.expected, did_you_mean=error.did_you_mean) from None


def _ranged(path: str, choice: Choice, field: Field) -> Domain:
    low, high, step = _ends(path, choice, field)
    if low > high:
        raise InputError(path, f"goes from {choice.low} to {choice.high}", expected="from below to")
    if low == high:
        return Domain(_checked(path, [low], field), True)
    if choice.factor is not None:
        return Domain(_powers(path, choice, field, low, high), True)
    if (step is None and field.whole) or (field.type is None and isinstance(low, int) and isinstance(high, int)
                                        and step is None):
        step = 1
    if step is None:
        if choice.log and low <= 0:
            raise InputError(f"{path}.from", f"{choice.low} has no logarithm", expected="a number above 0")
        for end in (low, high):      # both ends are legal
            field.typed(field.computed(float(end))) if field.type is not None else None
        return Domain((), True, float(low), float(high), choice.log)
    if not step > 0:
        raise InputError(f"{path}.step", f"{choice.step} is impossible", expected="a number above 0")
    count = math.floor((high - low) / step * (1 + 1e-12)) + 1
    return Domain(_checked(path, [low + index * step for index in range(_few(path, count))], field), True)


def _powers(path: str, choice: Choice, field: Field, low: Any, high: Any) -> tuple[Any, ...]:
    factor = choice.factor
    if not isinstance(factor, (int, float)) or not factor > 1 or not low > 0 or choice.step is not None:
        raise InputError(f"{path}.factor", f"{factor} from {choice.low}",
                         expected="a factor above 1, from above 0, no step")
    found = [low]
    while found[-1] * factor <= high * (1 + 1e-12):
        found.append(found[-1] * factor)
        _few(path, len(found))
    return _checked(path, found, field)


def _few(path: str, count: int) -> int:
    if count > MAX_VALUES:
        raise InputError(path, f"holds {count} values", expected=f"at most {MAX_VALUES}")
    return count


def _checked(path: str, numbers: typing.Iterable[Any], field: Field) -> tuple[Any, ...]:
    if field.type is None:
        return tuple(numbers)
    found = []
    for number in numbers:
        if field.whole and isinstance(number, float) and not number.is_integer():
            raise InputError(path, f"{number!r} is not a whole number", expected="whole numbers only")
        found.append(field.typed(field.computed(number)))
    return tuple(found)
