"""Names in the place of a config class: text, or a mapping with the key `like` and what differs from the named one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from astrarium.config.spec import Problem, join
from astrarium.errors import InputError

__all__ = ["LIKE", "Named", "Shorthand", "excluded", "is_named", "merged", "name_in", "spelled_out"]

LIKE = "like"
T = TypeVar("T")
Plain = Mapping[str, Any]


def merged(plain: Plain, beside: Plain) -> dict[str, Any]:
    """`plain` with the keys of `beside` in its place; a mapping is merged key by key, anything else replaced."""
    found = dict(plain)
    for key, value in beside.items():
        both = isinstance(value, Mapping) and isinstance(found.get(key), Mapping) and LIKE not in value
        found[key] = merged(found[key], value) if both else value
    return found


class Shorthand(Struct, frozen=True):
    """How text replaces a config class: the name of something known, or a file."""

    plain: Callable[[str], Plain]       # the plain data that the text names; raises InputError
    takes: str      # what may be written, in words
    is_file: Callable[[str], bool] = lambda text: False     # whether the text is a path (relative to the design file)
    merge: Callable[[Plain, Plain], Plain] = merged     # (the named one's data, the keys beside `like`) -> both


def is_named(cls: type[Any], given: object) -> bool:
    """Whether `given` is a name in the place of a `cls`: text, or a mapping with `like`."""
    if getattr(cls, "shorthand", None) is None:
        return False
    return isinstance(given, str) or (isinstance(given, Mapping) and LIKE in given)


def name_in(given: Any) -> Any:
    """The name that `given` holds."""
    return given if isinstance(given, str) else given[LIKE]


def spelled_out(cls: type[Any], given: Any, path: str, problems: list[Problem]) -> Plain | None:
    """The plain data that `given` (`is_named`) names; None after a problem."""
    name, shorthand = name_in(given), cls.shorthand
    where = path if isinstance(given, str) else join(path, LIKE)
    if not isinstance(name, str):
        problems.append(Problem(where, f"{str(name)[:60]!r} is not a name", shorthand.takes))
        return None
    try:
        plain = shorthand.plain(name)
    except InputError as error:
        message = f"{error.path}: {error.message}" if error.path else error.message
        expected = f"{error.expected or shorthand.takes}, or a mapping ({cls.__name__})"
        problems.append(Problem(where, message, expected if given is name else error.expected, error.did_you_mean))
        return None
    beside = {} if isinstance(given, str) else {key: value for key, value in given.items() if key != LIKE}
    gone = excluded(cls, beside)
    found: Plain = shorthand.merge({key: value for key, value in plain.items() if key not in gone}, beside)
    return found


def excluded(cls: type[Any], new: Mapping[Any, Any]) -> set[str]:
    """The fields that setting those of `new` unsets (`Config.either`)."""
    if not cls.either:
        return set()
    names = {name for name, value in new.items() if value is not None}
    return {other for group in cls.either if not names.isdisjoint(group) for other in group} - new.keys()


if TYPE_CHECKING:

    class Named(Generic[T]):
        """A field that takes a T or text that names one, and reads as a T."""

        def __get__(self, obj: object, owner: object = None) -> T: ...
        def __set__(self, obj: object, value: str | T) -> None: ...
else:

    class Named:
        def __class_getitem__(cls, item):
            return item
