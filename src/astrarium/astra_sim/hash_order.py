"""The order in which ASTRA-sim meets node ids that it keeps in a hash set: that of libstdc++'s `std::unordered_set`.

The set is a list in which the ids of a bucket (id modulo buckets) are adjacent. A new id becomes the first of its
bucket, or of the whole list where its bucket is empty. When the buckets are as many as the ids, the list goes, in its
order, into an empty set of more buckets. `native/engine/astra/hash_order.hpp` is the same for the compiled core.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["BUCKETS", "hash_order", "ids_in_order"]

BUCKETS = (13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933, 351061, 712697, 1447153,
           2938679, 5967347, 12117689, 24607243, 49969847, 101473717, 206062531, 418451333, 849749479, 1725587117,
           3504151727)
"""Bucket counts of a set that grows by one id at a time: primes of libstdc++, each at least twice the one before."""


def hash_order(inserted: Sequence[int], ids: Sequence[int], grown: int = 0) -> tuple[list[int], int]:
    """The list after `inserted` came into an empty set, and how often the set has grown.

    `inserted` are indexes of distinct `ids`, in the order of their insertion; the set had grown `grown` times before.
    """
    found: list[int] = []
    taken = 0
    while True:
        room = min(len(inserted), BUCKETS[grown])
        found = _listed([*found, *inserted[taken:room]], ids, BUCKETS[grown])
        taken = max(taken, room)
        if taken == len(inserted):
            return found, grown
        grown += 1


def ids_in_order(ids: Sequence[int]) -> list[int]:
    """Distinct ids in the order of a set that they came into one after the other."""
    return [ids[i] for i in hash_order(range(len(ids)), ids)[0]]


def _listed(inserted: Sequence[int], ids: Sequence[int], buckets: int) -> list[int]:
    of_bucket: dict[int, list[int]] = {}
    for index in inserted:
        of_bucket.setdefault(ids[index] % buckets, []).append(index)
    return [index for bucket in reversed(of_bucket.values()) for index in reversed(bucket)]
