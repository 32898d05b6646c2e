"""The numbers of a study of clusters: a file in which each has a mark and a source.

A number (or text with a unit, or a list of them) is a mapping `{value, mark, source}`; without mark or source it is
refused. Names of things (a title, a shape, what family a model is of) stand by themselves. A cluster that is `like`
another one has that one's numbers where it has none of its own.
"""

from __future__ import annotations

import fnmatch
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from astrarium import InputError
from astrarium.config import parse_path
from astrarium.config.yamlfile import Document, parse_yaml, read_text
from astrarium.errors import nearest
from astrarium.plugins import Bandwidth, Bytes, FlopRate, Time
from astrarium.units import Quantity

__all__ = ["MARKS", "Book", "Parameter", "load_book"]

MARKS = {"R": "read in a public source", "V": "computed from numbers that were read",
         "M": "recalled, not found in any source", "A": "assumed"}
UNITS: tuple[type[Quantity], ...] = (FlopRate, Bandwidth, Bytes, Time)
NUMBERED = ("cases", "clusters", "collective", "money", "published", "ratios", "sweeps")
LIKE = "like"
NUMBER = (int, float)
SENSITIVITY: Mapping[str, Any] = {"name": str, "set": Mapping, "scale": Mapping}
QUESTION: Mapping[str, Any] = {"ratio": str, "scale": str, "from": NUMBER, "to": NUMBER}
EXPECTED: Mapping[Any, str] = {str: "text", Mapping: "path: number", NUMBER: "a number above 0"}
FIRST = re.compile(r"(\w+)(?:[:;](.*))?$", re.DOTALL)     # the name of a source, and the remark behind it
HAS_NUMBER = re.compile(r"^\s*[-+.\d]")


class Parameter(Struct, frozen=True):
    """One number of the file, with how well it is founded and where it is from."""

    value: Any
    mark: str
    source: str


class Book(Struct, frozen=True):
    """All parameters by path (`clusters.A0.peak`), what else the file says, and its name.

    `labels`: names of things by path. `sensitivities` and `questions`: as the file has them.
    """

    name: str
    parameters: Mapping[str, Parameter]
    labels: Mapping[str, Any]
    sources: Mapping[str, str]
    sensitivities: Sequence[Mapping[str, Any]] = ()
    questions: Sequence[Mapping[str, Any]] = ()

    def value(self, path: str) -> Any:
        """One value. Raises InputError for a path that the file does not have."""
        if path not in self.parameters:
            raise InputError(path, f"is not in {self.name}", expected="a parameter of the file",
                             did_you_mean=nearest(path, tuple(self.parameters)))
        return self.parameters[path].value

    def source(self, path: str) -> str:
        """The source of one parameter, spelled out."""
        text = self.parameters[path].source
        found = FIRST.match(text)
        if found is None or found[1] not in self.sources:
            return text
        return self.sources[found[1]] + (f" ({found[2].strip()})" if found[2] else "")

    def names(self, section: str) -> tuple[str, ...]:
        """Names directly below a section, in the order of the file."""
        found = [path.split(".")[1] for path in (*self.labels, *self.parameters) if path.startswith(section + ".")]
        return tuple(dict.fromkeys(found))

    def plain(self, prefix: str) -> dict[str, Any]:
        """Values and labels below a path, as nested mappings and lists; a cluster's with those that it is like."""
        found: dict[str, Any] = {}
        for path, value in self._below(prefix).items():
            _put(found, parse_path(path), value)
        return found

    def _below(self, prefix: str) -> dict[str, Any]:
        start = prefix + "."
        own = {path[len(start):]: value for path, value in self.labels.items() if path.startswith(start)}
        own |= {path[len(start):]: each.value for path, each in self.parameters.items() if path.startswith(start)}
        if LIKE not in own:
            return own
        section, _, _ = prefix.rpartition(".")
        return self._below(f"{section}.{own.pop(LIKE)}") | own

    def changed(self, values: Mapping[str, Any]) -> Book:
        """The book with other values. A path with * or ? selects all parameters of this pattern; another one may be
        new. Raises InputError for a pattern without any."""
        made = dict(self.parameters)
        for pattern, value in values.items():
            for path in self._meant(pattern):
                made[path] = Parameter(value, "A", "the study's own question")
        return replace(self, parameters=made)

    def scaled(self, factors: Mapping[str, float]) -> Book:
        """The book with values times a factor; that of a cluster which has it from another becomes its own."""
        made = dict(self.parameters)
        for pattern, factor in factors.items():
            for path in self._meant(pattern):
                made[path] = Parameter(_times(path, self._effective(path), factor), "A", "the study's own question")
        return replace(self, parameters=made)

    def _effective(self, path: str) -> Any:
        section, _, inner = path.partition(".")
        name, _, rest = inner.partition(".")
        found = self._below(f"{section}.{name}")
        if rest not in found:
            raise InputError(path, f"is not in {self.name}", expected="a parameter of the file",
                             did_you_mean=nearest(rest, tuple(found)))
        return found[rest]

    def _meant(self, pattern: str) -> list[str]:
        if not any(sign in pattern for sign in "*?"):
            return [pattern]
        expression = pattern.replace("[", "[[]")
        found = [path for path in self.parameters if fnmatch.fnmatchcase(path, expression)]
        if not found:
            raise InputError(pattern, "matches no parameter", expected=f"a pattern of paths of {self.name}")
        return found


def _times(path: str, value: Any, factor: float) -> Any:
    if isinstance(value, (int, float)):
        return value * factor
    for unit in UNITS:
        try:
            return unit.of(float(value if isinstance(value, unit) else unit(value)) * factor)
        except (InputError, TypeError):
            continue
    raise InputError(path, f"{value!r} is no number with a unit", expected="a number that can be scaled")


def _put(found: dict[str, Any], steps: Sequence[str | int], value: Any) -> None:
    """A value at its place in nested mappings and lists."""
    place: Any = found
    for step, after in zip(steps, [*steps[1:], None]):
        if isinstance(step, int):
            place.extend([None] * (step + 1 - len(place)))
        if after is None:
            place[step] = value
        elif isinstance(step, int):
            place[step] = place[step] if place[step] is not None else [] if isinstance(after, int) else {}
        else:
            place.setdefault(step, [] if isinstance(after, int) else {})
        place = place[step]


def load_book(path: str | os.PathLike[str]) -> Book:
    """Read a file of parameters. Raises InputError with the line for a number without a mark or a source, for a source
    that is left empty, and for a mark that is none."""
    name = os.fspath(path)
    document = parse_yaml(read_text(name), name)
    data: Any = document.data
    if not isinstance(data, Mapping):
        raise InputError(name, "is no file of parameters", expected="sources, cases, clusters")
    known = (*NUMBERED, "sources", "sensitivities", "questions")
    for key in data:
        if key not in known:
            raise InputError(f"{name}: {key}", "unknown key", expected="one of " + ", ".join(known),
                             did_you_mean=nearest(str(key), known))
    parameters, labels = dict[str, Parameter](), dict[str, Any]()
    for section in NUMBERED:
        for place, leaf in _leaves(section, data.get(section, {}), _File(name, document)):
            if isinstance(leaf, Parameter):
                parameters[place] = leaf
            else:
                labels[place] = leaf
    _check_likes(name, {path.split(".")[1]: value for path, value in labels.items()
                        if path.startswith("clusters.") and path.endswith("." + LIKE)}, parameters)
    return Book(name, parameters, labels, _sources(name, data.get("sources", {})),
                _entries(name, "sensitivities", data.get("sensitivities", ()), SENSITIVITY),
                _entries(name, "questions", data.get("questions", ()), QUESTION))


def _sources(name: str, given: Any) -> Mapping[str, str]:
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for text in given.values()):
        raise InputError(f"{name}: sources", f"{given!r:.60} does not name sources", expected="name: where to find it")
    return dict(given)


def _entries(name: str, section: str, given: Any, keys: Mapping[str, type[Any] | tuple[type[Any], ...]]
             ) -> tuple[Mapping[str, Any], ...]:
    """The entries of a list, each with these keys alone, of these types; numbers are above 0."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InputError(f"{name}: {section}", f"{given!r:.60} is no list", expected="a list of " + ", ".join(keys))
    for place, entry in enumerate(given):
        path = f"{name}: {section}[{place}]"
        if not isinstance(entry, Mapping):
            raise InputError(path, f"{entry!r:.60} is no mapping", expected="a mapping with " + ", ".join(keys))
        for key, value in entry.items():
            if key not in keys:
                raise InputError(f"{path}.{key}", "unknown key", expected="one of " + ", ".join(keys),
                                 did_you_mean=nearest(str(key), keys))
            if not isinstance(value, keys[key]) or (keys[key] == NUMBER and not 0 < value < math.inf):
                raise InputError(f"{path}.{key}", f"{value!r:.60} is impossible", expected=EXPECTED[keys[key]])
        for key in keys:
            if key not in entry and keys[key] is not Mapping:
                raise InputError(f"{path}.{key}", "is missing", expected=EXPECTED[keys[key]])
    return tuple(given)


def _check_likes(name: str, likes: Mapping[str, Any], parameters: Mapping[str, Parameter]) -> None:
    """Refuse clusters that are like one that is not there, or like each other."""
    known = {path.split(".")[1] for path in parameters if path.startswith("clusters.")}
    for cluster in likes:
        seen, other = {cluster}, likes[cluster]
        while other in likes and other not in seen:
            seen.add(other)
            other = likes[other]
        if other in seen:
            raise InputError(f"{name}: clusters.{cluster}.{LIKE}", f"{cluster} and {other} are like each other",
                             expected="a cluster with its own numbers")
        if other not in known:
            raise InputError(f"{name}: clusters.{cluster}.{LIKE}", f"{other!r} is not in the file",
                             expected="one of " + ", ".join(sorted(known)), did_you_mean=nearest(str(other), known))


class _File(Struct, frozen=True):
    """A file and its lines, for messages."""

    name: str
    document: Document


def _leaves(path: str, value: Any, file: _File) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and "value" in value:
        yield path, _parameter(path, value, file)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}", inner, file)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for number, inner in enumerate(value):
            yield from _leaves(f"{path}[{number}]", inner, file)
    elif isinstance(value, str) and (path.endswith(".title") or not HAS_NUMBER.match(value)):
        yield path, value
    else:
        raise _fault(path, file, f"{value!r} has no source", "a mapping with value, mark and source")


def _parameter(path: str, value: Mapping[str, Any], file: _File) -> Parameter:
    for key in value:
        if key not in ("value", "mark", "source"):
            raise _fault(f"{path}.{key}", file, "unknown key", "value, mark and source")
    mark, source = value.get("mark"), value.get("source")
    if mark not in MARKS:
        raise _fault(path, file, f"mark {mark!r} is none", "one of " + ", ".join(MARKS))
    if not isinstance(source, str) or not source.strip():
        raise _fault(path, file, "has no source", "where the number is from, or why it is assumed")
    return Parameter(value["value"], str(mark), source)


def _fault(path: str, file: _File, message: str, expected: str) -> InputError:
    line = file.document.line(path)
    return InputError(f"{file.name}:{line}: {path}" if line else f"{file.name}: {path}", message, expected=expected)
