"""Bounded caches by content. Functions that use one take it as an argument; results never depend on what it holds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from sys import getsizeof, maxsize
from threading import Lock
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Budget", "Cache", "frozen", "weight"]

A = TypeVar("A", bound="npt.NDArray[Any]")
V = TypeVar("V")

HEAVY = 16      # an entry of more than this part of a budget is heavy
STAY = 2        # heavy entries that stay, however large
ARRAY = 112     # bytes of an array but for its data
FUNCTION = 1 << 16      # bytes that a function with variables around it counts for (names of nodes, tensors on demand)
SMALL = 4096    # bytes of arrays below which shared ownership is not checked
_NOTHING: Any = object()    # in the place of a value
PLAIN = frozenset[type]({bool, int, float, type(None)})     # kinds of values too small to count
MANY = 32       # entries of a list that are looked at, where they are numbers, text or arrays


class Budget:
    """At most `most` bytes in several caches together: what was asked for longest ago is dropped, whichever cache holds
    it. Only the two large values that were asked for last stay in any case (a workload, and what is lowered from it).

    An array that several values hold counts once. Several threads may use it at once.
    """

    def __init__(self, most: int) -> None:
        self.most, self.bytes, self.lock = most, 0, Lock()
        self.held: OrderedDict[Hashable, Any] = OrderedDict()
        self._weights: dict[Hashable, tuple[int, Mapping[int, int]]] = {}
        self._holders: dict[int, int] = {}      # id of an array -> values that hold it
        self._values: set[int] = set()          # ids of the values: one within another has its weight already

    def add(self, key: Hashable, made: V) -> V:
        """Hold a value; the one that is held already, where there is one."""
        own, arrays = weight(made, self._values)
        with self.lock:
            before = len(self.held)
            found: V = self.held.setdefault(key, made)
            if len(self.held) == before:
                return found
            self._weights[key] = own, arrays
            self._values.add(id(made))
            self.bytes += own
            for array, size in arrays.items():
                self._holders[array] = self._holders.get(array, 0) + 1
                self.bytes += size if self._holders[array] == 1 else 0
            dropped = [self._drop(key) for key in self._oldest()] if self.bytes > self.most else []
        del dropped     # what it holds is freed once the lock is open
        return made

    def _oldest(self) -> Iterable[Hashable]:
        """The keys to drop: until an eighth is free, so that this is rare."""
        heavy = [key for key in reversed(self.held) if self._size(key) > self.most // HEAVY]
        stay = {next(reversed(self.held)), *heavy[:STAY]}
        for key in list(self.held):
            if self.bytes <= self.most - self.most // 8:
                return
            if key not in stay:
                yield key

    def _size(self, key: Hashable) -> int:
        own, arrays = self._weights[key]
        return own + sum(arrays.values())

    def _drop(self, key: Hashable) -> object:
        own, arrays = self._weights.pop(key)
        self.bytes -= own
        for array, size in arrays.items():
            self._holders[array] -= 1
            if not self._holders[array]:
                del self._holders[array]
                self.bytes -= size
        found = self.held.pop(key)
        self._values.discard(id(found))
        return found

    def __reduce__(self) -> tuple[type[Budget], tuple[int]]:
        """A copy in another process begins empty."""
        return Budget, (self.most,)


class Cache(Generic[V]):
    """Values, each under a key that holds all that the value is made of: at most a number, or (a Budget) at most a
    number bytes together with other caches of that budget.

    When it is full, the value that was asked for longest ago is dropped. Several threads may use it at once.
    """

    def __init__(self, most: int | Budget) -> None:
        self._budget = most if isinstance(most, Budget) else None
        self._most = maxsize if isinstance(most, Budget) else most
        self._lock = Lock() if self._budget is None else self._budget.lock
        self._held: OrderedDict[Hashable, V] = OrderedDict() if self._budget is None else self._budget.held

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value of `key`; `make()` makes it if it is not held.

        Where two threads ask at once both may make it; both get the value that was stored first.
        """
        if self._budget is not None:
            key = (self, key)
        with self._lock:
            held: V = self._held.get(key, _NOTHING)
            if held is not _NOTHING:
                self._held.move_to_end(key)
                return held
        made = make()
        if self._budget is not None:
            return self._budget.add(key, made)
        with self._lock:
            found = self._held.setdefault(key, made)
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return found

    def __reduce__(self) -> tuple[type[Cache[V]], tuple[int | Budget]]:
        """A copy in another process begins empty."""
        return Cache, (self._most if self._budget is None else self._budget,)

    def __len__(self) -> int:
        if self._budget is None:
            return len(self._held)
        with self._lock:
            return sum(key[0] is self for key in self._held if isinstance(key, tuple))


def weight(value: object, known: Collection[int] = ()) -> tuple[int, Mapping[int, int]]:
    """(bytes of the objects that a value is made of, id -> bytes of each of its large arrays), without those in it
    whose ids are `known`. Long lists of numbers, text or arrays are sampled; functions count as `FUNCTION`."""
    own, arrays, seen, left = 0, dict[int, int](), set[int](), list[Any]([value])
    while left:
        each = left.pop()
        kind: Any = type(each)
        parts = _parts(kind)
        if parts is None or id(each) in seen or (id(each) in known and each is not value):
            continue
        seen.add(id(each))
        if parts is not _array:
            own += getsizeof(each, 0)
            left.extend([part for part in parts(each) if type(part) not in PLAIN])
        elif each.nbytes < SMALL:
            own += each.nbytes + ARRAY
        else:
            own += ARRAY
            while type(each.base) is type(each):
                each = each.base
            arrays[id(each)] = each.nbytes
    return own, arrays


Parts = Callable[[Any], Iterable[Any]]


@lru_cache(maxsize=1 << 10)
def _parts(kind: Any) -> Parts | None:
    """From an object of a kind (a class) to those that it holds; None of kinds that are too small to count, or not the
    value's own."""
    if issubclass(kind, (type, ModuleType, Enum, Cache, Budget, *PLAIN)):
        return None
    if kind.__name__ == "ndarray":
        return _array
    if issubclass(kind, (str, bytes)):
        return _nothing
    if issubclass(kind, (tuple, list)):
        return _entries
    if issubclass(kind, (set, frozenset)):
        return iter
    if issubclass(kind, dict):
        return lambda each: (*each, *each.values())
    if issubclass(kind, FunctionType):
        return lambda each: (_Weighs(FUNCTION),) if each.__closure__ else ()
    fields = kind.__struct_fields__ if issubclass(kind, Struct) else ()
    of: Parts = attrgetter(*fields) if len(fields) > 1 else lambda each: [getattr(each, name) for name in fields]
    return (lambda each: (*of(each), *each.__dict__.values())) if kind.__dictoffset__ else of


def _array(_: Any) -> Iterable[Any]:
    return ()


def _nothing(_: Any) -> Iterable[Any]:
    return ()


def _entries(value: Sequence[Any]) -> Iterable[Any]:
    """The entries of a list; of a long one of numbers, text or arrays one object that weighs as much as all."""
    kind: Any = type(value[0]) if len(value) > MANY else tuple
    inner = _parts(kind)
    if not (inner is None or inner is _array or inner is _nothing):
        return value
    some = value[::len(value) // MANY]
    sizes = [getattr(each, "nbytes", 0) + ARRAY if inner is _array else getsizeof(each, 0) for each in some]
    return (_Weighs(sum(sizes) * len(value) // len(some)),)


class _Weighs(Struct, frozen=True):
    """In the place of many objects: their bytes."""

    size: int

    def __sizeof__(self) -> int:
        return self.size


def frozen(array: A) -> A:
    """The array if it is read-only, else a read-only copy."""
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array
