"""Tokens that are told apart by what waits for them: collectives of one name that do different things.

ZeRO reduces gradients under one name: all weights over the ranks that share a state, then those that more ranks hold
over the others. It gathers weights under one name too, of blocks that differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from astrarium.trace.synthesise.examples import VALUES, Example
from astrarium.trace.synthesise.tokens import Token
from astrarium.vocab import NodeKind

__all__ = ["told_apart"]

Bool = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]
SIZE = VALUES.index("comm_size")
EQUAL = 1e-6


def told_apart(examples: Sequence[Example], orders: Sequence[I64], tokens: Sequence[Token],
               gathered: set[int]) -> list[Token]:
    """`tokens` and further ones, equal to some of them. Changes `orders` [examples][nodes] and `gathered`, those whose
    collectives gather: these where some but not all are taken on by a collective over other ranks; others where their
    bytes differ within an example, by the compute node that waits for each."""
    out = list(tokens)
    coll = np.array([token.kind == NodeKind.COMM_COLL for token in tokens], np.bool_)
    users = [_users(each, order, coll) for each, order in zip(examples, orders, strict=True)]
    taken = [_taken_on(each, order, tokens, coll) for each, order in zip(examples, orders, strict=True)]
    for token in sorted(gathered):
        new = _split(token, orders, [mask.astype(np.int64) for mask in taken], out)
        gathered |= set(new)
    for token in sorted(set(np.flatnonzero(coll).tolist()) - gathered):
        if any(_uneven(each.values[order == token, SIZE]) for each, order in zip(examples, orders, strict=True)):
            _split(token, orders, users, out)
    return out


def _split(token: int, orders: Sequence[I64], by: Sequence[I64], out: list[Token]) -> list[int]:
    """Numbers of new tokens, one per further value of `by` [examples][nodes] that nodes of a token have, ascending."""
    places = [np.flatnonzero(order == token) for order in orders]
    values = sorted({value for at, each in zip(places, by, strict=True) for value in np.unique(each[at]).tolist()})
    new = list(range(len(out), len(out) + len(values) - 1))
    for value, number in zip(values[1:], new, strict=True):
        for order, at, each in zip(orders, places, by, strict=True):
            order[at[each[at] == value]] = number
        out.append(out[token])
    return new


def _uneven(values: npt.NDArray[np.float64]) -> bool:
    found = values[~np.isnan(values)]
    return bool(found.size and np.ptp(found) > EQUAL * found.max())


def _users(each: Example, order: I64, coll: Bool) -> I64:
    """[nodes] the token of the first node, no collective, that waits for each; -1 where none does."""
    child = np.repeat(np.arange(order.size), np.diff(each.ptr))
    plain = np.flatnonzero(~coll[order[child]])[::-1]
    found = np.full(order.size, -1, np.int64)
    found[each.parent[plain]] = order[child[plain]]
    return found


def _taken_on(each: Example, order: I64, tokens: Sequence[Token], coll: Bool) -> Bool:
    """[nodes] whether a collective over other ranks waits for this one alone."""
    names: dict[str, int] = {}
    role = np.array([names.setdefault(token.role, len(names)) for token in tokens], np.int64)[order]
    child = np.flatnonzero(coll[order] & (np.diff(each.ptr) == 1))
    parent = each.parent[each.ptr[child]]
    found = np.zeros(order.size, np.bool_)
    found[parent[coll[order[parent]] & (role[parent] != role[child])]] = True
    return found
