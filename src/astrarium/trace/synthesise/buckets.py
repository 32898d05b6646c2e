"""Collectives that wait for many nodes and take what has gathered: buckets of gradients.

Each unit of work (a layer's backward pass, told by its last node) adds a payload; once at least `threshold` bytes have
gathered, a collective (or several, of at least `threshold` each) takes them; what is left goes at the end. So DDP (Li
et al., VLDB 2020, section 3.2.3), FSDP and Megatron-LM reduce gradients.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from astrarium.errors import InputError
from astrarium.trace.synthesise.examples import VALUES, Example
from astrarium.trace.synthesise.laws import Count, Law, fit_count, fit_law, forms_of
from astrarium.trace.synthesise.layout import SHARED
from astrarium.trace.synthesise.order import Split, decide, decided
from astrarium.vocab import NodeKind

__all__ = ["Bucket", "Filled", "Unit", "fill", "learn_buckets", "learned_as_buckets", "site_codes"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
MANY = 3                # parents, above which a collective gathers
MOST_PIECES = 4096      # that one bucket is cut to
SIZE = VALUES.index("comm_size")


class Unit(msgspec.Struct, frozen=True):
    """A node of token `closing` that comes after one of token `before` ends a unit; its last `window` occurrences
    count; each adds `payload` bytes."""

    before: int
    closing: int
    window: Count
    payload: Law


class Bucket(msgspec.Struct, frozen=True):
    """Collectives of one token: the units that fill it, the tokens it waits for, and how full it gets (None: it takes
    everything at the end). `chained`: each waits for the one before, of
    whatever bucket. `present` decides whether a trace has any."""

    token: int
    producers: list[int]
    units: list[Unit]
    threshold: Law | None
    chained: bool
    present: list[Split]


@dataclass(frozen=True, eq=False)
class Filled:
    """Collectives of one bucket in one trace: after main node `after`, waiting for main nodes since `since`; `piece`
    numbers those of one event; `rest`: what was left, not a full bucket."""

    after: I64
    since: I64
    piece: I64
    size: F64
    rest: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Event:
    """What one example shows: units since the event before, all bytes, in how many pieces; the last event or not."""

    row: int
    counts: Mapping[int, int]
    closing: int
    size: float
    pieces: int
    last: bool


def site_codes(order: I64, base: int) -> I64:
    """[nodes] the token before (-1 at the start) and the token as one number: before * base + token."""
    return np.asarray(np.concatenate([[-1], order[:-1]])[:order.size] * base + order, np.int64)


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


def learn_buckets(examples: Sequence[Example], coded: Sequence[I64], kinds: set[int], x: F64,
                  sizes: F64) -> list[Bucket]:
    """A Bucket per token of `kinds`, of those that end at one place the first one first; x and sizes [examples,
    conditions], for counts and for sizes."""
    found = [bucket for token in sorted(kinds) if (bucket := _bucket(examples, coded, kinds, token, x, sizes))]
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


def _bucket(examples: Sequence[Example], coded: Sequence[I64], kinds: set[int], token: int, x: F64,
            sizes: F64) -> Bucket | None:
    base = 1 + max(int(order.max(initial=0)) for order in coded)
    shown: list[tuple[int, list[list[int]], list[int], F64, I64]] = []
    producers: set[int] = set()
    closing: set[int] = set()
    chained: Counter[bool] = Counter()
    for row, (each, order) in enumerate(zip(examples, coded, strict=True)):
        at = np.flatnonzero(order == token)
        if not at.size:
            continue
        main = [[p for p in each.parent[each.ptr[node]:each.ptr[node + 1]].tolist() if order[p] not in kinds]
                for node in at.tolist()]
        every = np.flatnonzero(np.isin(order, list(kinds)))
        for node, earlier in zip(at.tolist(), (np.searchsorted(every, at) - 1).tolist(), strict=True):
            if earlier >= 0:
                chained[int(every[earlier]) in each.parent[each.ptr[node]:each.ptr[node + 1]].tolist()] += 1
        producers |= {int(order[p]) for waits in main for p in waits}
        plain = np.flatnonzero(~np.isin(order, list(kinds)))
        close = np.append(plain, -1)[np.searchsorted(plain, at) - 1].tolist()       # the main node before each
        sites = np.full(order.size, -1, np.int64)
        sites[plain] = site_codes(order[plain], base)
        closing |= {int(sites[node]) for node, waits in zip(close, main, strict=True) if waits}
        shown.append((row, main, close, each.values[at, SIZE], sites))
    windows: dict[int, dict[int, int]] = defaultdict(dict)
    events = [event for row, main, close, size, sites in shown
              for event in _events(row, main, close, size, sites, closing, windows)]
    if not events:
        return None
    payload = _payloads(events, sizes)
    units = [Unit(each // base, each % base, _window(windows[each], x), payload[each]) for each in sorted(payload)]
    there = np.isin(np.arange(len(examples)), [row for row, *_ in shown]).astype(np.int64)
    return Bucket(token, sorted(producers), units, _threshold(events, payload, sizes), chained[True] >= chained[False],
                  decide(x, there, 2))


def _events(row: int, main: Sequence[Sequence[int]], closed: Sequence[int], size: F64, sites: I64, closing: set[int],
            windows: dict[int, dict[int, int]]) -> list[_Event]:
    begin = [number for number, waits in enumerate(main) if waits]
    if not begin or begin[0] != 0:
        return []
    first = min(min(waits) for waits in main if waits)
    end = max(closed)
    places = [(at, int(sites[at])) for at in range(first, end + 1) if int(sites[at]) in closing]
    for each, count in Counter(kind for _, kind in places).items():
        windows[each][row] = count
    kinds, ends = [kind for _, kind in places], [at for at, _ in places]
    out, before = [], 0
    for number, start in enumerate(begin):
        stop = begin[number + 1] if number + 1 < len(begin) else len(main)
        close = closed[start]
        after = max(before, bisect_right(ends, close))
        counts = Counter(kinds[before:after])
        out.append(_Event(row, dict(counts), int(sites[close]), float(size[start:stop].sum()), stop - start,
                          number + 1 == len(begin)))
        before = after
    return out


def _window(found: Mapping[int, int], x: F64) -> Count:
    rows = sorted(found)
    return fit_count(x[rows], np.array([float(found[row]) for row in rows]), forms_of(x))


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
                    if rest > 1e-3 * event.size:
                        rows.append((event.row, rest / event.counts[kind]))
            best = max(best, (len(rows), kind, rows), key=lambda item: item[:2])
        count, kind, rows = best
        if count < 1:
            share = [(event.row, event.size / max(1, sum(event.counts.values()))) for event in events if event.size > 0]
            for each in every:
                if each not in known and share:
                    known[each] = fit_law(x[[row for row, _ in share]], np.array([y for _, y in share]))
            break
        known[kind] = fit_law(x[[row for row, _ in rows]], np.array([y for _, y in rows]))
    return known


def _threshold(events: Sequence[_Event], payload: Mapping[int, Law], x: F64) -> Law | None:
    """Between what closed a bucket and what did not yet: one number where one fits all examples, else a law."""
    value = {kind: law.at(x) for kind, law in payload.items()}
    low: dict[int, float] = defaultdict(float)
    high: dict[int, float] = defaultdict(lambda: np.inf)
    for event in events:
        without = event.size - value[event.closing][event.row] if event.closing in value else 0.0
        low[event.row] = max(low[event.row], without, event.size / (event.pieces + 1))
        if not event.last or event.pieces > 1:
            high[event.row] = min(high[event.row], event.size / event.pieces)
    least, most = max(low.values()), min(high.values(), default=np.inf)
    if not np.isfinite(most):
        return None
    if least <= most * (1 + 1e-6):
        return Law([float(np.sqrt(max(least, most / 2) * most))], [[0.0] * x.shape[1]], False, [0.0] * 10)
    rows = [row for row, top in high.items() if np.isfinite(top)]
    return fit_law(x[rows], np.array([np.sqrt(max(low[row], high[row] / 4) * high[row]) for row in rows]))


def fill(bucket: Bucket, order: I64, x: F64, sizes: F64) -> Filled:
    """The collectives of a bucket in an order of main nodes, for conditions [1, conditions]."""
    places: list[tuple[int, float]] = []
    base = 1 + max(int(order.max(initial=0)), *(max(unit.before, unit.closing) for unit in bucket.units))
    sites = site_codes(order, base)
    begin, units = 0, bucket.units if decided(bucket.present, x)[1] >= 0.5 else []
    for unit in units:
        at = np.flatnonzero(sites == unit.before * base + unit.closing)
        window = int(unit.window.at(x)[0])
        used = at[at.size - min(window, at.size):]
        earlier = at[:at.size - used.size]
        if used.size:
            begin = max(begin, int(earlier[-1]) + 1 if earlier.size else 0)
        payload = float(unit.payload.at(sizes)[0])
        places += [(int(each), payload) for each in used.tolist()]
    places.sort()
    return _events_of(places, begin, np.inf if bucket.threshold is None else float(bucket.threshold.at(sizes)[0]))


def _events_of(places: Sequence[tuple[int, float]], begin: int, limit: float) -> Filled:
    """What units at `places`, with their bytes, fill."""
    rows: list[tuple[float, ...]] = []
    total, since = 0.0, begin
    for number, (at, payload) in enumerate(places):
        total += payload
        if total >= limit or number + 1 == len(places):
            pieces = max(1, int(total // limit)) if limit > 0 else 1
            if pieces > MOST_PIECES:
                raise InputError("synthesise", f"{total:.4g} bytes that gather would be sent as {pieces:,} collectives",
                                 expected="a model learned from traces in which collectives of one name fill alike")
            rows += [(at, since, piece, total / pieces, float(total < limit)) for piece in range(pieces)]
            total, since = 0.0, at + 1
    columns = np.array(rows, np.float64).reshape(-1, 5)
    after, start, piece = (columns[:, i].astype(np.int64) for i in range(3))
    return Filled(after, start, piece, columns[:, 3], columns[:, 4] > 0)
