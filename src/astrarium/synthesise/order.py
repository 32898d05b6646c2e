"""The model of orders: a Markov chain that remembers everything since the start of a program.

Programs (see `fold`) are short, so all that was seen fits in a prefix tree. Where a tree forks, a decision tree over
the conditions says which way (Breiman et al., Classification and Regression Trees, 1984); where conditions do not say,
ways are drawn as often as they were taken.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct, field

from astrarium.arrays import F64, I64
from astrarium.synthesise.fold import END, Program
from astrarium.synthesise.laws import Form, form_values, forms_of

__all__ = ["Orders", "Split", "decide", "decided", "learn_orders", "walk"]

DEPTH = 6
PURE = 1e-12
LATE = ("least_minus", "beyond")        # forms that are looked at where no other tells ways apart
LONGEST = 1 << 10       # symbols before a fork that are looked at


class Split(msgspec.Struct, frozen=True):
    """One node of a decision tree: below the threshold go to node `below`, else to `above`; a leaf (no form) has the
    share of each way."""

    share: list[float]
    form: Form | None = None
    threshold: float = 0.0
    below: int = 0
    above: int = 0


class Orders(msgspec.Struct, frozen=True):
    """The prefix tree. Node n is followed by symbols `follow[n]`, which lead to nodes `to[n]`; `fork` [forks] says
    which, for the nodes listed in `at`."""

    follow: list[list[int]]
    to: list[list[int]]
    at: list[int]
    fork: list[list[Split]]


class _Node(Struct):
    """Where programs with one beginning go on: `ways` symbol -> node, `rows` program -> symbol; `before`: the node
    before, and the symbol that leads from there."""

    before: tuple[int, int]
    ways: dict[int, int] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)


def learn_orders(programs: Sequence[Program], x: F64) -> Orders:
    """The tree of all programs; x [programs, conditions]."""
    nodes = [_Node((-1, END))]
    for row, program in enumerate(programs):
        at = 0
        for symbol in (*program, END):
            if symbol not in nodes[at].ways:
                nodes[at].ways[symbol] = len(nodes)
                nodes.append(_Node((at, symbol)))
            nodes[at].rows[row] = symbol
            at = nodes[at].ways[symbol]
    forms = forms_of(x)
    forks: dict[int, list[Split]] = {}
    for _ in range(2):      # at first as if alone; then conditions that decide elsewhere go before others
        forms = _proven(forms, nodes, forks)
        values = form_values(x, forms)
        forks = {number: _tree(values, forms, each.rows, list(each.ways))
                 for number, each in enumerate(nodes) if len(each.ways) > 1}
    forks = _pooled(nodes, forks, values, forms)
    return Orders([list(each.ways) for each in nodes], [list(each.ways.values()) for each in nodes], list(forks),
                  list(forks.values()))


def _proven(forms: Sequence[Form], nodes: Sequence[_Node], forks: Mapping[int, list[Split]]) -> list[Form]:
    """Forms in the order of how many programs they decide about, simple ones first."""
    said: Counter[Form] = Counter()
    for number, splits in forks.items():
        for each in splits:
            if each.form is not None:
                said[each.form] += len(nodes[number].rows)
    return sorted(forms, key=lambda form: (form.kind in LATE, -said[form]))


def _tree(values: F64, forms: Sequence[Form], rows: Mapping[int, int], ways: Sequence[int]) -> list[Split]:
    """The decision tree of programs `rows`, each with the symbol that follows, one of `ways`."""
    places = {symbol: i for i, symbol in enumerate(ways)}
    splits: list[Split] = []
    _grow(splits, values, forms, np.array(list(rows), np.int64),
          np.array([places[symbol] for symbol in rows.values()], np.int64), len(ways), DEPTH)
    return splits


def _pooled(nodes: Sequence[_Node], forks: Mapping[int, list[Split]], values: F64,
            forms: Sequence[Form]) -> dict[int, list[Split]]:
    """Forks after the same symbols decide alike, as few symbols as there is one tree for that is pure and no larger
    than theirs together: of few programs alone, many conditions tell the ways apart."""
    out = dict(forks)
    todo = list(forks)
    length = 1
    tails: list[Program] = [(each.before[1],) for each in nodes]
    above = [each.before[0] for each in nodes]
    known: dict[tuple[Program, tuple[int, ...]], list[Split] | None] = {}
    while todo and length < LONGEST:
        alike: dict[Program, list[int]] = defaultdict(list)
        for number, tail in enumerate(tails):
            alike[tail].append(number)
        left = []
        for number in todo:
            ways = tuple(nodes[number].ways)
            key = tails[number], ways
            if key not in known:
                known[key] = _shared([nodes[each] for each in alike[key[0]]], [forks[each] for each in alike[key[0]]
                                     if each in forks], ways, values, forms)
            if (found := known[key]) is not None:
                out[number] = found
            elif len(alike[key[0]]) > 1:
                left.append(number)
        todo, length = left, 2 * length
        tails, above = _longer(tails, above)
    return out


def _longer(tails: Sequence[Program], above: Sequence[int]) -> tuple[list[Program], list[int]]:
    """Twice as many symbols before each node, and the node before those."""
    return ([tails[top] + tail if top >= 0 else tail for tail, top in zip(tails, above, strict=True)],
            [above[top] if top >= 0 else -1 for top in above])


def _shared(nodes: Sequence[_Node], forks: Sequence[list[Split]], ways: tuple[int, ...], values: F64,
            forms: Sequence[Form]) -> list[Split] | None:
    """One tree for all of `nodes`, of those programs that go one of `ways`; None where there is none that is pure, or
    it is larger than those of `forks`."""
    rows: dict[int, int] = {}
    for node in nodes:
        for row, symbol in node.rows.items():
            if symbol in ways and rows.setdefault(row, symbol) != symbol:
                return None
    tree = _tree(values, forms, rows, ways)
    pure = all(each.form is not None or max(each.share) > 1 - PURE for each in tree)
    return tree if pure and len(tree) <= sum(len(each) for each in forks) else None


def decide(x: F64, choice: I64, ways: int) -> list[Split]:
    """The decision tree of choices [rows] among `ways` by conditions x [rows, conditions]."""
    forms, splits = forms_of(x), list[Split]()
    _grow(splits, form_values(x, forms), forms, np.arange(len(x)), choice, ways, DEPTH)
    return splits


def _grow(out: list[Split], values: F64, forms: Sequence[Form], rows: I64, choice: I64, ways: int, depth: int) -> int:
    """Adds the tree of these rows to `out`; its root's index."""
    share = np.bincount(choice, minlength=ways) / choice.size
    mine = len(out)
    out.append(Split(share.tolist()))
    if depth == 0 or share.max() > 1 - PURE:
        return mine
    simple = sum(each.kind not in LATE for each in forms)
    best = _best(values[rows, :simple], choice, ways)
    if best is None or best[0] > PURE:
        other = _best(values[rows, simple:], choice, ways)
        if other is not None and (best is None or other[0] < best[0] - 1e-9):
            best = other[0], other[1] + simple, other[2]
    if best is None or best[0] >= _impurity(share[None, :] * choice.size)[0] - 1e-9:
        return mine
    _, column, threshold = best
    low = values[rows, column] < threshold
    below = _grow(out, values, forms, rows[low], choice[low], ways, depth - 1)
    above = _grow(out, values, forms, rows[~low], choice[~low], ways, depth - 1)
    out[mine] = Split(share.tolist(), forms[column], threshold, below, above)
    return mine


def _impurity(counts: F64) -> F64:
    """Gini impurity times the number of rows, of counts [..., ways]."""
    total = counts.sum(axis=-1)
    return np.asarray(total - (counts ** 2).sum(axis=-1) / np.maximum(total, 1), np.float64)


def _best(values: F64, choice: I64, ways: int) -> tuple[float, int, float] | None:
    """(impurity, column, threshold) of the best split, the first of equals."""
    if not values.shape[1]:
        return None
    order = np.argsort(values, axis=0, kind="stable")
    ranked = np.take_along_axis(values, order, axis=0)
    one_hot = np.eye(ways)[choice]
    score = np.full((len(choice) - 1, values.shape[1]), np.inf)
    left = np.cumsum(one_hot[order], axis=0)[:-1]
    right = one_hot.sum(axis=0) - left
    gap = ranked[1:] - ranked[:-1] > 1e-9 * np.maximum(1, np.abs(ranked[1:]))
    score[gap] = (_impurity(left) + _impurity(right))[gap]
    if not np.isfinite(score).any():
        return None
    column = int(np.argmin(np.round(score.min(axis=0), 9)))
    row = int(np.argmin(score[:, column]))
    return float(score[row, column]), column, float((ranked[row, column] + ranked[row + 1, column]) / 2)


def walk(orders: Orders, x: F64, rng: np.random.Generator) -> Program:
    """A program for conditions x [1, conditions]."""
    forks = dict(zip(orders.at, orders.fork, strict=True))
    out: list[int] = []
    at = 0
    while orders.follow[at]:
        way = 0
        if at in forks:
            share = decided(forks[at], x)
            way = int(np.argmax(share)) if max(share) > 1 - PURE else int(rng.choice(len(share), p=np.array(share)))
        symbol = orders.follow[at][way]
        if symbol == END:
            break
        out.append(symbol)
        at = orders.to[at][way]
    return tuple(out)


def decided(splits: Sequence[Split], x: F64) -> list[float]:
    """The share of each way at conditions x [1, conditions]."""
    at = 0
    while (form := splits[at].form) is not None:
        at = splits[at].below if form_values(x, [form])[0, 0] < splits[at].threshold else splits[at].above
    return splits[at].share
