"""Who waits for whom: per site, which earlier tokens a node waits for, and how many occurrences back."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence

import msgspec
import numpy as np

from astrarium.arrays import I64
from astrarium.synthesise.examples import Example
from astrarium.synthesise.tokens import distinct_rows

__all__ = ["Context", "Motif", "Parents", "Waits", "contexts_of", "learn_waits"]

FEW = 8                 # occurrences of one token that are waited for one by one
CONTEXT, CHOICES = 5, 16    # tokens that a node's parents depend on; sets of parents that are kept
Context = tuple[int, ...]
Found = tuple[tuple[int, tuple[int, ...]], ...]         # (token, occurrences back)


class Motif(msgspec.Struct, frozen=True):
    """A parent: `back` of its occurrences (1: the latest); none of them: all since the last node of this site."""

    parent: int
    back: list[int]


class Parents(msgspec.Struct, frozen=True):
    """A set of parents: of nodes of traces that have the tokens `there`, of all that nodes of this context wait for."""

    there: list[int]
    motifs: list[Motif]


class Waits(msgspec.Struct, frozen=True):
    """What a node waits for by the tokens up to it (itself last): sets of parents, the most frequent first."""

    context: list[int]
    sets: list[Parents]

    def at(self, there: Collection[int]) -> list[Motif] | None:
        """The most frequent set in a trace of tokens `there`: of those sets of traces that have the same ones of them,
        else of all; all of its parents are there. None where there is none."""
        every = {token for each in self.sets for token in each.there}
        mine = sorted(every.intersection(there))
        fits = [each for each in self.sets if all(motif.parent in there for motif in each.motifs)]
        return next((each.motifs for each in fits if each.there == mine), fits[0].motifs if fits else None)


def contexts_of(order: I64) -> tuple[list[Context], I64]:
    """The distinct contexts of an order of main nodes, and which each node has [nodes]."""
    shifted = [np.concatenate([np.full(back, -1), order[:-back]])[:order.size] for back in range(CONTEXT - 1, 0, -1)]
    _, first, code = np.unique(distinct_rows([*shifted, order]), return_index=True, return_inverse=True)
    return [tuple(order[max(0, at - CONTEXT + 1):at + 1].tolist()) for at in first.tolist()], code.astype(np.int64)


def learn_waits(examples: Sequence[Example], orders: Sequence[I64], mains: Sequence[I64],
                gathered: Collection[int]) -> list[Waits]:
    """Per context, and per end of it, which sets of parents and distances there are. `orders` [examples][nodes] are
    tokens of one numbering, `mains` the nodes outside buckets, whose tokens are `gathered`."""
    sets: dict[Context, Counter[tuple[Found, int]]] = defaultdict(Counter)
    kinds: dict[frozenset[int], int] = {}       # of traces, by the tokens they have
    for each, order, main in zip(examples, orders, mains, strict=True):
        contexts, code = contexts_of(order[main])
        kind = kinds.setdefault(frozenset(np.flatnonzero(np.bincount(order)).tolist()), len(kinds))
        for at, parents, count in _counted(each, order, main, code, gathered):
            sets[contexts[at]][parents, kind] += count
    for context, counted in list(sets.items()):
        for length in range(1, len(context)):
            sets[context[-length:]].update(counted)
    return [Waits(list(context), _sets(counted, list(kinds))) for context, counted in sets.items()]


def _sets(counted: Counter[tuple[Found, int]], kinds: Sequence[frozenset[int]]) -> list[Parents]:
    """Sets of parents of one context, the most frequent first; `kinds` of traces are their tokens."""
    every = frozenset(token for parents, _ in counted for token, _ in parents)
    found: Counter[tuple[Found, tuple[int, ...]]] = Counter()
    for (parents, kind), count in counted.items():
        found[parents, tuple(sorted(every & kinds[kind]))] += count
    return [Parents(list(there), [Motif(token, list(back)) for token, back in parents]) for (parents, there), _ in
            sorted(found.items(), key=lambda item: (-item[1], item[0]))[:CHOICES]]


def _counted(each: Example, order: I64, main: I64, code: I64,
             gathered: Collection[int]) -> Iterator[tuple[int, Found, int]]:
    """(context, parents, how many main nodes have both), in order of the first such node. Occurrences back are () for
    more than FEW and for buckets."""
    edges, kind, back = _edges(each, order, gathered)
    ptr = np.searchsorted(edges, np.arange(order.size + 1))
    _, first, count = np.unique(distinct_rows([code, _sequences(distinct_rows([kind, back]), ptr)[main]]),
                                return_index=True, return_counts=True)
    for at in np.argsort(first, kind="stable").tolist():
        node = int(main[first[at]])
        found: dict[int, list[int]] = defaultdict(list)
        part = slice(ptr[node], ptr[node + 1])
        for token, far in zip(kind[part].tolist(), back[part].tolist(), strict=True):
            found[token] += [far] if far else []
        yield int(code[first[at]]), tuple((token, tuple(far)) for token, far in found.items()), int(count[at])


def _edges(each: Example, order: I64, gathered: Collection[int]) -> tuple[I64, I64, I64]:
    """(node, token of a parent, occurrences back; 1: the latest, 0: all of them), sorted and distinct."""
    nodes = order.size
    sort = np.argsort(order, kind="stable")
    rank = np.empty(nodes, np.int64)
    rank[sort] = np.arange(nodes)       # by token, then place
    child = np.repeat(np.arange(nodes), np.diff(each.ptr))
    kind = order[each.parent]
    back = np.searchsorted(order[sort] * nodes + sort, kind * nodes + child) - rank[each.parent]
    by = np.lexsort((back, kind, child))
    child, kind, back = child[by], kind[by], back[by]
    first = np.append(True, (child[1:] != child[:-1]) | (kind[1:] != kind[:-1]))[:child.size]
    group = np.cumsum(first) - 1
    whole = (np.bincount(group) > FEW)[group] | np.isin(kind, list(gathered))
    back[whole] = 0
    kept = first | ~whole
    return child[kept], kind[kept], back[kept]


def _sequences(values: I64, ptr: I64) -> I64:
    """[nodes] a number per distinct `values[ptr[i]:ptr[i + 1]]`."""
    code, known, place = np.zeros(ptr.size - 1, np.int64), 1, 0
    alive = np.flatnonzero(np.diff(ptr))
    while alive.size:
        _, number = np.unique(distinct_rows([code[alive], values[ptr[alive] + place]]), return_inverse=True)
        code[alive] = number + known
        known, place = known + int(number.max()) + 1, place + 1
        alive = alive[ptr[alive + 1] - ptr[alive] > place]
    return code
