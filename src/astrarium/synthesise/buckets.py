"""Collectives that wait for many nodes and take what has gathered: buckets of gradients.

Each unit of work (a layer's backward pass, told by its last node) adds a payload; once at least `threshold` bytes have
gathered, a collective (or several, of at least `threshold` each) takes them; what is left goes where a backward pass
ends, told by two nodes that come one after the other, and at the end. So DDP (Li et al., VLDB 2020, section 3.2.3),
FSDP and Megatron-LM reduce gradients.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64, I64
from astrarium.errors import InputError
from astrarium.synthesise.laws import Count, Law
from astrarium.synthesise.order import Split, decided

__all__ = ["Bucket", "Filled", "Then", "Unit", "fill", "pair_codes", "site_codes"]

MOST_PIECES = 4096      # that one bucket is cut to


class Unit(msgspec.Struct, frozen=True):
    """A node of token `closing` that comes after one of token `before` ends a unit; its last `window` occurrences
    count (None: all of them); each adds `payload` bytes."""

    before: int
    closing: int
    window: Count | None
    payload: Law


class Then(msgspec.Struct, frozen=True):
    """A collective of token `token` takes on what each of a bucket has gathered: `share` of its bytes."""

    token: int
    share: Law


class Bucket(msgspec.Struct, frozen=True):
    """Collectives of one token: the units that fill it, the tokens it waits for, and how full it gets (None: it takes
    everything where it ends). `chained`: each waits for the one before, of whatever bucket. `ends`: (token, the one
    after it; -1: none) of main nodes between which what is left is taken. `present` decides whether a trace has any."""

    token: int
    producers: list[int]
    units: list[Unit]
    threshold: Law | None
    chained: bool
    present: list[Split]
    ends: list[list[int]]
    then: Then | None


class Filled(Struct, frozen=True, eq=False):
    """Collectives of one bucket in one trace: `token`, after main node `after`, waiting for main nodes since `since`;
    `piece` numbers those of one event; `rest`: what was left, not a full bucket."""

    token: I64
    after: I64
    since: I64
    piece: I64
    size: F64
    rest: npt.NDArray[np.bool_]


def site_codes(order: I64, base: int) -> I64:
    """[nodes] the token before (-1 at the start) and the token as one number: before * base + token."""
    return np.asarray(np.concatenate([[-1], order[:-1]])[:order.size] * base + order, np.int64)


def pair_codes(order: I64, base: int) -> I64:
    """[nodes] the token and the one after it (-1 at the end) as one number: token * base + after + 1, below base."""
    return np.asarray(order * base + np.concatenate([order[1:], [-1]])[:order.size] + 1, np.int64)


def fill(bucket: Bucket, order: I64, x: F64, sizes: F64) -> Filled:
    """The collectives of a bucket in an order of main nodes, for conditions [1, conditions]."""
    places: list[tuple[int, float]] = []
    named = [each for unit in bucket.units for each in (unit.before, unit.closing)]
    base = 2 + max(int(order.max(initial=0)), *named, *(each for pair in bucket.ends for each in pair))
    sites = site_codes(order, base)
    begin, units = 0, bucket.units if decided(bucket.present, x)[1] >= 0.5 else []
    for unit in units:
        at = np.flatnonzero(sites == unit.before * base + unit.closing)
        window = at.size if unit.window is None else min(int(unit.window.at(x)[0]), at.size)
        used, earlier = at[at.size - window:], at[:at.size - window]
        if used.size:
            begin = max(begin, int(earlier[-1]) + 1 if earlier.size else 0)
        payload = float(unit.payload.at(sizes)[0])
        places += [(int(each), payload) for each in used.tolist()]
    places.sort()
    ends = np.flatnonzero(np.isin(pair_codes(order, base), [token * base + after + 1 for token, after in bucket.ends]))
    limit = np.inf if bucket.threshold is None else float(bucket.threshold.at(sizes)[0])
    return _lined(bucket, _events_of(places, begin, ends, limit), sizes)


def _events_of(places: Sequence[tuple[int, float]], begin: int, ends: I64, limit: float) -> list[tuple[float, ...]]:
    """What units at `places`, with their bytes, fill: (after, since, pieces, bytes of each, whether it is a rest)."""
    out: list[tuple[float, ...]] = []
    where = [at for at, _ in places]
    stop = np.append(ends, where[-1:])[np.searchsorted(ends, where)].tolist()
    total, since = 0.0, begin
    for number, (at, payload) in enumerate(places):
        total += payload
        last = number + 1 == len(places)
        end = stop[number] if last or stop[number] < places[number + 1][0] else -1
        if total < limit and end < 0 and not last:
            continue
        pieces = max(1, int(total // limit)) if limit > 0 else 1
        if pieces > MOST_PIECES:
            raise InputError("synthesise", f"{total:.4g} bytes that gather would be sent as {pieces:,} collectives",
                             expected="a model learned from traces in which collectives of one name fill alike")
        after = at if total >= limit else max(at, end)
        out.append((after, since, pieces, total / pieces, float(total < limit)))
        total, since = 0.0, after + 1
    return out


def _lined(bucket: Bucket, events: Sequence[tuple[float, ...]], sizes: F64) -> Filled:
    """Each event as collectives one after the other: as many as it has pieces, each with what takes it on."""
    rows: list[tuple[float, ...]] = []
    kinds = [(bucket.token, 1.0)]
    if bucket.then is not None:
        kinds.append((bucket.then.token, float(bucket.then.share.at(sizes)[0])))
    for after, since, pieces, size, rest in events:
        rows += [(token, after, since, piece * len(kinds) + turn, size * share, rest)
                 for piece in range(int(pieces)) for turn, (token, share) in enumerate(kinds)]
    columns = np.array(rows, np.float64).reshape(-1, 6)
    whole = columns[:, :4].astype(np.int64)
    return Filled(whole[:, 0], whole[:, 1], whole[:, 2], whole[:, 3], columns[:, 4], columns[:, 5] > 0)
