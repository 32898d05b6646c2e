"""A bounded cache by content. Functions that use one take it as an argument; results never depend on what it holds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Cache", "frozen"]

A = TypeVar("A", bound="npt.NDArray[Any]")
V = TypeVar("V")


class Cache(Generic[V]):
    """At most `most` values, each under a key that holds all that the value is made of.

    When it is full, the value that was asked for longest ago is dropped. Several threads may use it at once.
    """

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        self._held: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value of `key`; `make()` makes it if it is not held.

        Where two threads ask at once both may make it; both get the value that was stored first.
        """
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        made = make()
        with self._lock:
            found = self._held.setdefault(key, made)
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return found

    def __reduce__(self) -> tuple[type[Cache[V]], tuple[int]]:
        """A copy in another process begins empty."""
        return Cache, (self._most,)

    def __len__(self) -> int:
        return len(self._held)


def frozen(array: A) -> A:
    """The array where nobody can write to it, else a copy of it to which nobody can."""
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array
