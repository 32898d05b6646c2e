"""YAML in and out: the core schema of YAML 1.2 on events, so no tag or deep nest is ever built.

`off` is text, not false; a repeated key or a tag is refused. An alias stands for a copy of the value at its anchor, and
`<<: *anchor` for the keys that a mapping does not have itself; MAX_COPIED bounds all copies. Lines are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import yaml
from msgspec import Struct, field

from astrarium.config.spec import join
from astrarium.errors import InputError
from astrarium.units import Quantity

__all__ = ["MAX_BYTES", "MAX_DEPTH", "Document", "once", "parse_yaml", "read_text", "scalar", "to_yaml"]

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 32
MAX_COPIED = 100_000        # values that aliases copy

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = yaml.SafeDumper
_INT = re.compile(r"[-+]?[0-9]{1,30}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_PATH_IN_LIST = re.compile(r"[\[,]\s*([\w.]*[A-Za-z]\w*\[(?:\d+|\*)\][\w.\[\]]*)\s*[,\]]")
_WORDS: dict[str, Any] = {"": None, "~": None, "null": None, "true": True, "false": False}


class Document(Struct):
    """What a file holds: plain data, and the line (from 1) of each dotted path."""

    data: Any = None
    lines: dict[str, int] = field(default_factory=dict)

    def line(self, path: str) -> int | None:
        """The line of `path` or of its closest known owner."""
        while path and path not in self.lines:
            path = path[:max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON (`object_pairs_hook`) whose keys are there once. Raises ValueError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(name for name in names if names.count(name) > 1)[:40]!r} is there twice")
    return found


def scalar(text: str) -> Any:
    """A plain YAML scalar: null, true, false, a number, else the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if len(text) <= 400 and _FLOAT.fullmatch(text) else text


def read_text(path: str) -> str:
    """A text file of at most MAX_BYTES. Raises InputError naming it."""
    try:
        with open(path, "rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror or error})") from None
    except ValueError as error:
        raise InputError(repr(path), f"is not a file name ({error})") from None
    if len(raw) > MAX_BYTES:
        raise InputError(path, "is too large", expected=f"at most {MAX_BYTES} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(path, f"is not UTF-8 text (byte {error.start})") from None


def parse_yaml(text: str, name: str = "") -> Document:
    """YAML `text` as a Document; `name` is the file for messages. Raises InputError with the line."""
    document = Document()
    try:
        events = yaml.parse(text, Loader=_LOADER)
        document.data = _Builder(document, name).build(events)
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark or error.context_mark
        line = "" if mark is None else "".join(text.split("\n")[mark.line:mark.line + 1])
        path = _PATH_IN_LIST.search(line)
        expected = f"quotes around a path with [ ] in a list: '{path[1]}'" if path else None
        raise _fault(name, mark, f"is not YAML: {error.problem or error.context}", expected) from None
    except yaml.YAMLError as error:
        raise InputError(name, f"is not YAML: {' '.join(str(error).split())[:200]}") from None
    return document


def _fault(name: str, mark: Any, message: str, expected: str | None = None) -> InputError:
    line = "" if mark is None else f"{mark.line + 1}"
    where = f"{name}:{line}" if name and line else f"line {line}" if line else name
    return InputError(where, message, expected=expected)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _height(value: Any) -> int:
    """How deeply lists and mappings are nested in a value."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max((1 + _height(each) for each in inside), default=0)


class _Builder:
    """Events to plain data, with a depth limit; recursion is bounded by MAX_DEPTH. `anchors`: a value and how many it
    has inside."""

    def __init__(self, document: Document, name: str):
        self.lines, self.name = document.lines, name
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.made = self.copied = 0

    def build(self, events: Iterator[Any]) -> Any:
        data, documents = None, 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _fault(self.name, event.start_mark, "a second document starts", "one document in a file")
            elif isinstance(event, yaml.NodeEvent):
                data = self.value(event, events, "", 0)
        return data

    def value(self, event: Any, events: Iterator[Any], path: str, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent):
            self.lines.setdefault(path, _line(event))
            return self.copy(event, depth)
        before = self.made
        found = self.fresh(event, events, path, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = found, self.made - before
        return found

    def copy(self, event: Any, depth: int) -> Any:
        """A copy of the value at an anchor."""
        if event.anchor not in self.anchors:
            raise _fault(self.name, event.start_mark, f"there is no anchor &{event.anchor[:60]} above",
                         "an anchor before its alias")
        found, size = self.anchors[event.anchor]
        self.made, self.copied = self.made + size, self.copied + size
        if self.copied > MAX_COPIED:
            raise _fault(self.name, event.start_mark, "aliases copy too much", f"at most {MAX_COPIED:,} values")
        if depth + _height(found) > MAX_DEPTH:
            raise _fault(self.name, event.start_mark, "is nested too deeply", f"at most {MAX_DEPTH} levels")
        return deepcopy(found)

    def fresh(self, event: Any, events: Iterator[Any], path: str, depth: int) -> Any:
        """A value that is written out."""
        self.made += 1
        if event.tag is not None and event.tag != "!":
            raise _fault(self.name, event.start_mark, f"the tag {event.tag[:60]!r} is not taken", "plain data")
        if depth > MAX_DEPTH:
            raise _fault(self.name, event.start_mark, "is nested too deeply", f"at most {MAX_DEPTH} levels")
        self.lines.setdefault(path, _line(event))
        if isinstance(event, yaml.ScalarEvent):
            return scalar(event.value) if event.implicit[0] else event.value
        if isinstance(event, yaml.SequenceStartEvent):
            return self.sequence(events, path, depth)
        return self.mapping(events, path, depth)

    def sequence(self, events: Iterator[Any], path: str, depth: int) -> list[Any]:
        found: list[Any] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            found.append(self.value(event, events, f"{path}[{len(found)}]", depth + 1))
        return found

    def mapping(self, events: Iterator[Any], path: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        other: list[Any] = []
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise _fault(self.name, event.start_mark, "a key is not text", "a name")
            key = event.value
            if key in found:
                raise _fault(self.name, event.start_mark, f"the key {key[:60]!r} is there twice")
            where = join(path, key)
            self.lines[where] = _line(event)
            value = self.value(next(events), events, where, depth + 1)
            if key == "<<" and event.implicit[0]:
                other += self.merged(event, value)
            else:
                found[key] = value
        for each in other:
            found = {**each, **found}
        return found

    def merged(self, event: Any, value: Any) -> list[Any]:
        """What `<<` names: a mapping, or several, of which the first wins."""
        every = value if isinstance(value, list) else [value]
        if not all(isinstance(each, dict) for each in every):
            raise _fault(self.name, event.start_mark, "<< is not a mapping", "the alias of a mapping, or several")
        return every


class _Dumper(_DUMPER):  # type: ignore[misc]
    """SafeDumper that quotes what this module's reader would not read back as text."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _text(dumper: Any, text: str) -> Any:
    plain = isinstance(scalar(text), str) and text == text.strip()
    style = '"' if not text.isprintable() else None if plain else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _number(dumper: Any, value: float) -> Any:
    text = repr(value)
    return dumper.represent_scalar("tag:yaml.org,2002:float", text if "." in text else text.replace("e", ".0e"))


_Dumper.add_representer(str, _text)
_Dumper.add_multi_representer(Quantity, lambda dumper, value: _text(dumper, str(value)))
_Dumper.add_representer(float, _number)


def to_yaml(plain: Mapping[str, Any]) -> str:
    """Plain data (with quantities) as YAML text, in the order given; reads back equal."""
    text: str = yaml.dump(dict(plain), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31 - 1,
                          default_flow_style=None)
    return text


