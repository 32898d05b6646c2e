"""Tokens that are told apart by what waits for them: collectives of one name that do different things.

ZeRO reduces gradients under one name: all weights over the ranks that share a state, then those that more ranks hold
over the others. It gathers weights under one name too, of blocks that differ, and of weights that other ranks share.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I64, Bool
from astrarium.synthesise.examples import VALUES, Example
from astrarium.synthesise.layout import SHARED
from astrarium.synthesise.tokens import Token, distinct_rows
from astrarium.vocab import NodeKind

__all__ = ["Apart", "told_apart"]

SIZE = VALUES.index("comm_size")
EQUAL = 1e-6


class Apart(Struct, frozen=True, eq=False):
    """Tokens that are told apart: all of them, those whose collectives gather, and of these `after`: those that take
    on, one each, what another one has gathered -> that one."""

    tokens: list[Token]
    gathered: set[int]
    after: dict[int, int]


def told_apart(examples: Sequence[Example], orders: Sequence[I64], tokens: Sequence[Token],
               gathered: set[int]) -> Apart:
    """`tokens` and further ones, equal to some of them. Changes `orders` [examples][nodes].

    Collectives that gather (`gathered`) are told apart by the one over other ranks that takes on what each has
    gathered, and that one from others of its name. Others where their bytes differ within an example, by the node that
    waits for each, by how many that node is the first to wait for, and by which of those each is.
    """
    out = list(tokens)
    coll = np.array([token.kind == NodeKind.COMM_COLL for token in tokens], np.bool_)
    if not coll.any():
        return Apart(out, set(), {})
    plain = [order.copy() for order in orders]
    taken = [_taken_on(each, order, tokens, coll, gathered) for each, order in zip(examples, plain, strict=True)]
    first = {token: _split(token, orders, [by for by, _ in taken], out) for token in sorted(gathered)}
    takers = {token for order, (_, mask) in zip(plain, taken, strict=True) for token in np.unique(order[mask]).tolist()}
    last = {token: _split(token, orders, [mask.astype(np.int64) for _, mask in taken], out) for token in sorted(takers)}
    every = gathered.union(*first.values(), takers, *last.values())
    for token in sorted(set(np.flatnonzero(coll).tolist()) - every):
        if any(_uneven(each.values[order == token, SIZE]) for each, order in zip(examples, orders, strict=True)):
            _split(token, orders, _users(examples, plain, token), out)
    return Apart(out, every, _pairs(examples, orders, [mask for _, mask in taken]))


def _pairs(examples: Sequence[Example], orders: Sequence[I64], masks: Sequence[Bool]) -> dict[int, int]:
    """Token of a collective that takes on -> of what it takes on."""
    found: dict[int, int] = {}
    for each, order, mask in zip(examples, orders, masks, strict=True):
        node = np.flatnonzero(mask)
        found.update(zip(order[node].tolist(), order[each.parent[each.ptr[node]]].tolist(), strict=True))
    return found


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


def _users(examples: Sequence[Example], orders: Sequence[I64], token: int) -> list[I64]:
    """[examples][nodes] of the nodes of `token` a number for the token of the first node of another one that waits for
    each, for how many that node is the first of, and for which of those each is; 0 for what none waits for."""
    keys = []
    for each, order in zip(examples, orders, strict=True):
        child = np.repeat(np.arange(order.size), np.diff(each.ptr))
        edge = np.flatnonzero((order[each.parent] == token) & (order[child] != token))[::-1]
        user = np.full(order.size, -1, np.int64)
        user[each.parent[edge]] = child[edge]       # the first one is written last
        mine = np.flatnonzero(user >= 0)
        by = mine[np.argsort(user[mine], kind="stable")]
        _, begin, count = np.unique(user[by], return_index=True, return_counts=True)
        key = np.full((order.size, 3), -1, np.int64)
        key[by] = np.stack([order[user[by]], np.repeat(count, count), np.arange(by.size) - np.repeat(begin, count)], 1)
        keys.append(key)
    code = distinct_rows(list(np.concatenate([np.full((1, 3), -1, np.int64), *keys]).T))[1:]
    return np.split(code, np.cumsum([each.shape[0] for each in keys])[:-1])


def _taken_on(each: Example, order: I64, tokens: Sequence[Token], coll: Bool,
              gathered: set[int]) -> tuple[I64, Bool]:
    """[nodes] the token, plus 1, of the collective over other ranks of one stage that waits for this one, which
    gathers, alone (0: none does); and whether this is such a one."""
    names: dict[str, int] = {}
    role = np.array([names.setdefault(token.role, len(names)) for token in tokens], np.int64)[order]
    within = np.array([token.role not in SHARED for token in tokens], np.bool_)[order]
    child = np.flatnonzero(coll[order] & within & (np.diff(each.ptr) == 1))
    parent = each.parent[each.ptr[child]]
    good = np.isin(order[parent], sorted(gathered)) & (role[parent] != role[child])
    good &= ~np.isin(parent, child[good])       # of a third one in a row it is the second that gathers
    taken, takes = np.zeros(order.size, np.int64), np.zeros(order.size, np.bool_)
    taken[parent[good]] = order[child[good]] + 1
    takes[child[good]] = True
    return taken, takes
