"""Learning buckets: what fills them, how full they get, and where what is left is taken."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64, I64
from astrarium.synthesise.buckets import Bucket, Then, Unit, pair_codes, site_codes
from astrarium.synthesise.examples import VALUES, Example
from astrarium.synthesise.laws import Count, Law, fit_count, fit_law, fit_limit, forms_of
from astrarium.synthesise.layout import SHARED
from astrarium.synthesise.order import decide
from astrarium.vocab import NodeKind

__all__ = ["learn_buckets", "learned_as_buckets"]

Pair = tuple[int, int]
MANY = 3                # parents, above which a collective gathers
SIZE = VALUES.index("comm_size")
NEAR = 1e-6
NOTHING = 1e-3          # of the bytes of a bucket


class _Event(Struct, frozen=True):
    """What one example shows: units since the event before, all bytes, in how many pieces; where it is among main
    nodes, and the pair of tokens there; the last event or not."""

    row: int
    counts: Mapping[int, int]
    closing: int
    size: float
    pieces: int
    at: int
    pair: int
    last: bool


class _Shown(Struct, frozen=True, eq=False):
    """Collectives of a token in one example, by places among main nodes: what each waits for (`waits`; none: further
    pieces), the one before each (`close`), and bytes; and of the main nodes `sites` and `pairs`."""

    row: int
    waits: Sequence[Sequence[int]]
    close: I64
    size: F64
    sites: I64
    pairs: I64

    @property
    def begin(self) -> list[int]:
        """The first collective of every event."""
        return [number for number, waits in enumerate(self.waits) if waits]

    def places(self, closing: set[int]) -> I64:
        """Where units end, from the first node that is waited for to the last collective."""
        first = min((min(waits) for waits in self.waits if waits), default=0)
        found = first + np.flatnonzero(np.isin(self.sites[first:int(self.close.max()) + 1], sorted(closing)))
        return np.asarray(found, np.int64)


def learned_as_buckets(examples: Sequence[Example], coded: Sequence[I64], tokens: int) -> set[int]:
    """Tokens of collectives within a stage that somewhere wait for more than MANY nodes."""
    found: set[int] = set()
    for each, order in zip(examples, coded, strict=True):
        many = np.zeros(tokens, np.bool_)
        many[order[np.diff(each.ptr) > MANY]] = True
        there, first = np.unique(each.token, return_index=True)
        found |= {token for own, token in zip(there.tolist(), order[first].tolist(), strict=True) if many[token]
                  and each.tokens[own].kind == NodeKind.COMM_COLL and each.tokens[own].role not in SHARED}
    return found


def learn_buckets(examples: Sequence[Example], coded: Sequence[I64], kinds: set[int], after: Mapping[int, int], x: F64,
                  sizes: F64) -> list[Bucket]:
    """A Bucket per token of `kinds`, but for those of `after` that take on what another one has gathered; of those
    that end at one place the first one first. x and sizes [examples, conditions], for counts and for sizes."""
    own = sorted(kinds - set(after))
    found = [bucket for token in own if (bucket := _bucket(examples, coded, kinds, after, token, x, sizes))]
    limits = {each.token: np.inf if each.threshold is None else each.threshold.at(sizes) for each in found}
    before: Counter[tuple[int, int]] = Counter()        # which of two ends earlier, where both end with what is left
    for row, (example, order) in enumerate(zip(examples, coded, strict=True)):
        ends = {token: int(np.flatnonzero(order == token)[-1]) for token in limits if (order == token).any()}
        left = {token: at for token, at in ends.items()
                if example.values[at, SIZE] < np.broadcast_to(limits[token], len(examples))[row]}
        before.update((a, b) for a in left for b in left if left[a] < left[b])
    first = {each.token: sum(before[each.token, other] > before[other, each.token] for other in kinds)
             for each in found}
    return sorted(found, key=lambda each: -first[each.token])


def _bucket(examples: Sequence[Example], coded: Sequence[I64], kinds: set[int], after: Mapping[int, int], token: int,
            x: F64, sizes: F64) -> Bucket | None:
    base = 2 + max(int(order.max(initial=0)) for order in coded)
    producers: set[int] = set()
    chained: Counter[bool] = Counter()
    shown = [found for row, (each, order) in enumerate(zip(examples, coded, strict=True))
             if (found := _shown(row, each, order, kinds, token, base, producers, chained))]
    closing = {int(each.sites[each.close[number]]) for each in shown for number in each.begin}
    windows: dict[int, dict[int, tuple[int, bool]]] = defaultdict(dict)
    for each in shown:
        places = each.sites[each.places(closing)]
        for kind in np.unique(places).tolist():
            count = int((places == kind).sum())
            windows[kind][each.row] = count, count == int((each.sites == kind).sum())
    events = [event for each in shown for event in _events(each, closing)]
    if not events:
        return None
    payload = _payloads(events, sizes)
    units = [Unit(each // base, each % base, _window(windows[each], x), payload[each]) for each in sorted(payload)]
    there = np.isin(np.arange(len(examples)), [each.row for each in shown]).astype(np.int64)
    ends = _ends(shown, closing, events, payload, sizes)
    return Bucket(token, sorted(producers), units, _threshold(events, ends, payload, sizes),
                  chained[True] >= chained[False], decide(x, there, 2),
                  [[each // base, each % base - 1] for each in sorted(ends)],
                  _then(examples, coded, token, after, sizes))


def _shown(row: int, each: Example, order: I64, kinds: set[int], token: int, base: int, producers: set[int],
           chained: Counter[bool]) -> _Shown | None:
    """None where there are none. Adds to `producers` the tokens waited for, and counts how many collectives wait for
    the one before of whatever bucket."""
    at = np.flatnonzero(order == token)
    if not at.size:
        return None
    gathers = np.isin(order, sorted(kinds))
    plain, every = np.flatnonzero(~gathers), np.flatnonzero(gathers)
    place = np.cumsum(~gathers) - 1
    waits = []
    for node, earlier in zip(at.tolist(), (np.searchsorted(every, at) - 1).tolist(), strict=True):
        parents = each.parent[each.ptr[node]:each.ptr[node + 1]]
        waits.append(place[parents[~gathers[parents]]].tolist())
        if earlier >= 0:
            chained[bool((parents == every[earlier]).any())] += 1
    main = order[plain]
    producers.update(int(main[node]) for found in waits for node in found)
    return _Shown(row, waits, np.maximum(place[at], 0), each.values[at, SIZE], site_codes(main, base),
                  pair_codes(main, base))


def _events(each: _Shown, closing: set[int]) -> Iterator[_Event]:
    begin = each.begin
    if not begin or begin[0] != 0:
        return
    ends = each.places(closing).tolist()
    kinds, before = each.sites[ends].tolist(), 0
    for number, start in enumerate(begin):
        stop = begin[number + 1] if number + 1 < len(begin) else len(each.waits)
        close = int(each.close[start])
        after = max(before, bisect_right(ends, close))
        yield _Event(each.row, dict(Counter(kinds[before:after])), int(each.sites[close]),
                     float(each.size[start:stop].sum()), stop - start, close, int(each.pairs[close]),
                     number + 1 == len(begin))
        before = after


def _window(found: Mapping[int, tuple[int, bool]], x: F64) -> Count | None:
    """How many of the last occurrences of a site count; None: all of them, in all examples."""
    if all(every for _, every in found.values()):
        return None
    rows = sorted(found)
    return fit_count(x[rows], np.array([float(found[row][0]) for row in rows]), forms_of(x))


def _payloads(events: Sequence[_Event], x: F64) -> dict[int, Law]:
    """Laws of payloads: first of units that fill buckets alone, then of those beside known ones."""
    known: dict[int, Law] = {}
    every = sorted({kind for event in events for kind in event.counts})
    while len(known) < len(every):
        value = {kind: law.at(x) for kind, law in known.items()}
        best: tuple[int, int, list[tuple[int, float]]] = (-1, -1, [])
        for kind in every:
            if kind in known:
                continue
            rows = []
            for event in events:
                if kind in event.counts and set(event.counts) <= {kind, *known}:
                    rest = event.size - sum(n * value[k][event.row] for k, n in event.counts.items() if k != kind)
                    rows.append((event.row, rest / event.counts[kind] if rest > NOTHING * event.size else 0.0))
            best = max(best, (len(rows), kind, rows), key=lambda item: item[:2])
        count, kind, rows = best
        if count < 1:
            share = [(event.row, event.size / max(1, sum(event.counts.values()))) for event in events if event.size > 0]
            for each in every:
                if each not in known and share:
                    known[each] = fit_law(x[[row for row, _ in share]], np.array([y for _, y in share]))
            break
        known[kind] = _payload(rows, x)
    return known


def _payload(rows: Sequence[tuple[int, float]], x: F64) -> Law:
    """Learn bytes from (example, bytes) of the examples that add any; nothing if most add none."""
    some = [(row, rest) for row, rest in rows if rest > 0]
    if 2 * len(some) <= len(rows):
        return Law([0.0], [[0.0] * x.shape[1]], False, [0.0] * 10)
    return fit_law(x[[row for row, _ in some]], np.array([rest for _, rest in some]))


def _lows(events: Sequence[_Event], value: Mapping[int, F64]) -> dict[int, float]:
    """Row -> the most that had gathered there and was not taken, or not cut further."""
    low: dict[int, float] = defaultdict(float)
    for event in events:
        without = event.size - value[event.closing][event.row] if event.closing in value else 0.0
        low[event.row] = max(low[event.row], without, event.size / (event.pieces + 1))
    return low


def _ends(shown: Sequence[_Shown], closing: set[int], events: Sequence[_Event], payload: Mapping[int, Law],
          x: F64) -> set[int]:
    """Pairs of main nodes between which what is left is taken: wherever something is left there; and once it was less
    than what elsewhere was not yet enough."""
    low = _lows(events, {kind: law.at(x) for kind, law in payload.items()})
    least = max(low.values(), default=0.0) * (1 - NEAR)
    at: dict[int, list[int]] = defaultdict(list)
    for event in events:
        at[event.row].append(event.at)
    never: set[int] = set()
    for each in shown:
        if each.row not in at:
            continue
        there = np.array(at[each.row], np.int64)
        places = np.zeros(each.sites.size, np.int64)
        places[each.places(closing)] = 1
        units, first = np.cumsum(places), int(np.flatnonzero(places)[0]) if places.any() else 0
        nodes = np.arange(first, int(there[-1]) + 1)
        taken = np.append(0, units[there])[np.searchsorted(there, nodes)]      # units before the last event before
        left = nodes[(units[nodes] > taken) & ~np.isin(nodes, there)]
        never.update(np.unique(each.pairs[left]).tolist())
    return {event.pair for event in events if event.size / event.pieces < least} - never


def _threshold(events: Sequence[_Event], ends: set[int], payload: Mapping[int, Law], x: F64) -> Law | None:
    """Between what closed a bucket and what did not yet: a limit that fits all examples where there is one, else a law;
    None where nothing closed one."""
    low = _lows(events, {kind: law.at(x) for kind, law in payload.items()})
    high: dict[int, float] = defaultdict(lambda: np.inf)
    for event in events:
        if event.pieces > 1 or not (event.last or event.pair in ends):
            high[event.row] = min(high[event.row], event.size / event.pieces)
    rows = sorted(low)
    limit = fit_limit(x[rows], np.array([low[row] for row in rows]), np.array([high[row] for row in rows]))
    told = [row for row in rows if np.isfinite(high[row])]
    if limit is not None or not told:
        return limit
    return fit_law(x[told], np.array([np.sqrt(max(low[row], high[row] / 4) * high[row]) for row in told]))


def _then(examples: Sequence[Example], coded: Sequence[I64], token: int, after: Mapping[int, int],
          x: F64) -> Then | None:
    """The token that takes on what each collective of `token` has gathered, and its share of the bytes."""
    taker = next((each for each, of in sorted(after.items()) if of == token), None)
    if taker is None:
        return None
    rows, share = [], []
    for row, (each, order) in enumerate(zip(examples, coded, strict=True)):
        whole, part = (np.nansum(each.values[order == kind, SIZE]) for kind in (token, taker))
        if whole > 0 and part > 0:
            rows.append(row)
            share.append(float(part / whole))
    return Then(taker, fit_law(x[rows], np.array(share))) if rows else None
