"""The cache: bounded, by content, for several threads."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from astrarium.cache import HEAVY, Budget, Cache, frozen, weight


def test_what_was_asked_for_longest_ago_goes() -> None:
    made: list[str] = []
    cache: Cache[str] = Cache(2)
    for key in ("a", "b", "a", "c", "a", "b"):
        assert cache.get(key, lambda key=key: made.append(key) or key.upper()) == key.upper()
    assert made == ["a", "b", "c", "b"]
    assert len(cache) == 2


def test_none_is_a_value_and_an_error_is_not() -> None:
    cache: Cache[None] = Cache(2)
    assert cache.get((1, "a"), lambda: None) is None
    assert cache.get((1, "a"), lambda: pytest.fail("it was held")) is None
    with pytest.raises(KeyError):
        cache.get("other", lambda: {}["missing"])
    assert len(cache) == 1


def test_another_process_gets_an_empty_one() -> None:
    cache: Cache[object] = Cache(1)
    cache.get("local", lambda: lambda: None)        # what cannot be sent
    sent = pickle.loads(pickle.dumps(cache))
    assert len(sent) == 0
    assert [sent.get(key, lambda key=key: key) for key in "ab"] == ["a", "b"]
    assert len(sent) == 1


def test_arrays_are_frozen_in_a_copy() -> None:
    given = np.arange(3)
    found = frozen(given)
    given[0] = 7
    assert found.tolist() == [0, 1, 2]
    assert not found.flags.writeable
    assert frozen(found) is found


def test_threads_get_one_value() -> None:
    cache: Cache[object] = Cache(4)
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: cache.get("same", object), range(200)))) == 1


def megabytes(count: float) -> np.ndarray:      # type: ignore[type-arg]
    return np.zeros(int(count * 1e6), np.uint8)


def test_caches_share_a_budget_of_bytes() -> None:
    """What was asked for longest ago goes, whichever cache holds it, until an eighth of the budget is free."""
    budget, made = Budget(80_000_000), list[str]()
    one, two = Cache[object](budget), Cache[object](budget)

    def get(cache: Cache[object], key: str) -> None:
        cache.get(key, lambda: (made.append(key), megabytes(3)))
    for number in range(26):
        get(one, f"{number}")
    get(two, "0")
    assert (len(one), len(two), len(made)) == (22, 1, 27)
    for number in range(4, 26):
        get(one, f"{number}")
    assert len(made) == 27
    get(one, "3")
    assert len(made) == 28
    assert 72_000_000 < budget.bytes < 72_010_000
    for number in range(100):
        get(two, f"more {number}")
        assert budget.bytes <= 80_000_000
    assert len(one) == 0


def test_the_last_large_values_stay() -> None:
    """A workload and its programs, which together are larger than the budget, are not made again for each design."""
    budget, made = Budget(50_000_000), list[str]()
    cache = Cache[object](budget)
    for _ in range(3):
        for key, size in (("work", 40), ("programs", 30), *((f"small {number}", 0.1) for number in range(20))):
            cache.get(key, lambda key=key, size=size: (made.append(key), megabytes(size)))      # type: ignore[misc]
    assert made.count("work") == made.count("programs") == 1
    assert budget.bytes > 70_000_000
    cache.get("next", lambda: megabytes(50 / HEAVY + 1))        # large, too
    assert budget.bytes < 50_000_000


def test_an_array_of_several_values_counts_once() -> None:
    budget = Budget(80_000_000)
    cache, shared = Cache[object](budget), megabytes(30)
    cache.get("a", lambda: shared[:10_000])
    cache.get("b", lambda: (shared, shared[:30_000].reshape(-1, 5)))
    assert 30_000_000 < budget.bytes < 30_010_000
    cache.get("c", lambda: megabytes(40))
    assert len(cache) == 3
    cache.get("d", lambda: megabytes(20))       # "a" goes, and frees nothing; so "b" goes, too
    assert len(cache) == 2
    assert 60_000_000 < budget.bytes < 60_010_000


def test_a_value_under_two_keys_is_weighed_under_both() -> None:
    budget, value = Budget(8_000_000), (megabytes(3),)
    cache = Cache[object](budget)
    for key in ("a", "b"):
        cache.get(key, lambda: value)
    assert 3_000_000 < budget.bytes < 3_010_000
    cache.get("c", lambda: megabytes(4.9))
    cache.get("d", lambda: megabytes(1))        # "a" and "b" go
    assert (len(cache), budget.bytes // 10_000) == (2, 590)


def test_weights() -> None:
    own, arrays = weight([np.zeros(1000), "x" * 1000, {"a": np.zeros(10)}, (np.zeros(1000),) * 2])
    assert sorted(arrays.values()) == [8000, 8000]
    assert 1000 < own < 3000
    many, _ = weight([np.zeros(100) for _ in range(10_000)])
    assert many == pytest.approx(10_000 * (800 + 112 + 8), rel=0.01)


def test_a_budget_goes_to_another_process_without_values() -> None:
    budget = Budget(1000)
    caches = Cache[object](budget), Cache[object](budget)
    caches[0].get("a", lambda: lambda: None)
    one, two = pickle.loads(pickle.dumps(caches))
    one.get("a", lambda: "x")
    assert (len(one), len(two)) == (1, 0)
    two.get("a", lambda: bytes(5000))
    assert (len(one), len(two)) == (0, 1)       # they share a budget there, too


def test_one_object_under_one_key_counts_once() -> None:
    """Two threads may make the same object at once."""
    budget, shared = Budget(80_000_000), (megabytes(3),)
    cache = Cache[object](budget)
    assert cache.get("key", lambda: cache.get("key", lambda: shared) and shared) is shared
    assert budget.bytes < 3_001_000
