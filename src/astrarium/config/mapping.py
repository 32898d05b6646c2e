"""A frozen mapping from names to values, as config classes hold it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

__all__ = ["NameMap"]

V = TypeVar("V")


class NameMap(Mapping[str, V]):
    """Names and values in the order given; equal to any mapping of the same ones."""

    __slots__ = ("_held",)

    def __init__(self, given: Mapping[str, V] | None = None) -> None:
        self._held = dict(given or {})

    def __getitem__(self, name: str) -> V:
        return self._held[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __hash__(self) -> int:
        return hash(frozenset(self._held.items()))

    def __repr__(self) -> str:
        return repr(self._held)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self._held),)
