"""The cache: bounded, by content, for several threads."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from astrarium.cache import Cache, frozen


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
