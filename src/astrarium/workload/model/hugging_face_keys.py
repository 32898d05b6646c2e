"""Reading the keys of a config.json: typed, with the file and key in every message, and refusing features without a
model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from astrarium.config.coerce import shown
from astrarium.errors import InputError, UnsupportedError, nearest

__all__ = ["ACTIVATIONS", "Fields", "Keys", "Reader", "Readers"]

ACTIVATIONS: Mapping[str, str] = {
    "silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_new": "gelu", "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu", "relu": "relu",
}


class Keys(Struct, frozen=True):
    """The content of one config.json; `name` is the file's."""

    plain: Mapping[str, Any]
    name: str
    seen: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    assumed: dict[str, Any] = field(default_factory=dict)

    def has(self, key: str) -> bool:
        """Whether `key` is there and not null."""
        self.seen.add(key)
        return self.plain.get(key) is not None

    def inner(self, key: str) -> Keys:
        """The mapping behind `key`, with the same notes."""
        value = self._value(key, dict, "a mapping", None)
        return Keys(value, f"{self.name}: {key}", notes=self.notes, assumed=self.assumed)

    def listed(self, key: str) -> tuple[Any, ...]:
        """A list; empty where the key is missing or null."""
        return tuple(self._value(key, list, "a list", [])) if self.has(key) else ()

    def reach(self, key: str, default: int | None = None) -> int:
        """How far positions reach, which says nothing about the length of samples; that goes into the notes."""
        found = self.whole(key, default)
        self.notes.append(f"{key} {found:,} is how far positions reach, not how long samples are: training takes its "
                          "workload.seq, inference its prompt")
        return found

    def unused(self, *names: str) -> None:
        """Keys that add nothing to those that were read."""
        self.seen.update(names)

    def _value(self, key: str, kind: type, words: str, default: Any) -> Any:
        value = self.plain.get(key)
        self.seen.add(key)
        if value is None and default is not None and default not in (False, 0, []):
            self.assumed[key] = default
        if value is None:
            if default is None:
                raise InputError(f"{self.name}: {key}", "is missing", expected=words,
                                 did_you_mean=nearest(key, self.plain))
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise InputError(f"{self.name}: {key}", f"{shown(value)} is impossible", expected=words)
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number; without `default` the key must be there."""
        value: int = self._value(key, int, "a whole number", default)
        if not 0 <= value < 2**62:
            raise InputError(f"{self.name}: {key}", f"{shown(value)} is impossible", expected="a whole number")
        return value

    def maybe(self, key: str) -> int | None:
        """A whole number, or None where the key is missing or null."""
        return self.whole(key) if self.has(key) else None

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        value: bool = self._value(key, bool, "true or false", default)
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Text; without `default` the key must be there."""
        value: str = self._value(key, str, "text", default)
        return value

    def activation(self, key: str, default: str | None = None) -> Any:
        """An activation function by our name."""
        found = self.text(key, default)
        if found not in ACTIVATIONS:
            raise UnsupportedError(f"{self.name}: {key}", f"{found[:60]!r} has no model here",
                                   expected="one of " + ", ".join(ACTIVATIONS),
                                   did_you_mean=nearest(found, ACTIVATIONS))
        return ACTIVATIONS[found]

    def only(self, key: str, *legal: object) -> None:
        """Refuse `key` unless it is missing or one of `legal`: no family here has what another value asks for."""
        value = self.plain.get(key, legal[0])
        self.seen.add(key)
        if not any(value == each and type(value) is type(each) for each in legal):
            raise UnsupportedError(f"{self.name}: {key}", f"{shown(value)} has no model here",
                                   expected=" or ".join(map(str, legal)))


Fields = dict[str, Any]                 # of a family's class
Reader = Callable[[Keys], Fields]
Readers = Mapping[str, Reader]          # by `model_type`
