"""The part of a run in which the load is whole, and whether the servers kept up with it."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64, I64

__all__ = ["Window", "falls_behind", "fewest_steady", "steady_window"]

WARM, LEAST = 2, 2  # times what requests last (its 90th percentile): warm-up, and the least steady state
QUARTER = 0.25      # of the time in which requests arrive
CERTAIN, DEFICIT = 3.0, 0.05    # standard deviations, and share, by which first tokens fall short of arrivals
SURE = 2.0          # standard deviations of arrivals at random
LONGER = 1.2        # latency of later requests over that of earlier ones
BETWEEN = ((0.4, 0.6), (0.8, 1.0))      # parts of the time in which requests arrive, compared


class Window(Struct, frozen=True):
    """From `start` to `end`, in ps."""

    start: int
    end: int

    @property
    def seconds(self) -> float:
        """How long it is."""
        return (self.end - self.start) / 1e12

    def share_of(self, begin: I64, end: I64) -> F64:
        """Which share of each time from `begin` to `end` is in the window [.]."""
        inside = np.minimum(end, self.end) - np.maximum(begin, self.start)
        found: F64 = np.maximum(inside, 0) / np.maximum(end - begin, 1)
        return found

    def has(self, moments: I64) -> npt.NDArray[np.bool_]:
        """Which moments (ps) are in it: after `start`, up to `end`."""
        return (moments > self.start) & (moments <= self.end)


def steady_window(begin: I64, end: I64) -> Window | None:
    """The time in which the load is whole, of requests (or conversations) that last from `begin` to `end`: from WARM
    times the 90th percentile of what one lasts after the first began (those that came first are answered then, and so
    are those that ran beside few others) to as long before the last began. None if LEAST times as long is not left, or
    none begins in it.

    Before it servers fill up (warm-up), after it they empty: a request that comes then is answered beside ever fewer.
    """
    first, last, lasts = int(begin.min()), int(begin.max()), int(np.quantile(end - begin, 0.9))
    found = Window(first + WARM * lasts, last - lasts)
    long = found.end > found.start and found.end - found.start >= LEAST * lasts
    return found if long and found.has(begin).any() else None


def fewest_steady(begin: I64, end: I64) -> int:
    """How many requests (or conversations) a stream like this must have at least for a steady state."""
    span, lasts = int(begin.max() - begin.min()), int(np.quantile(end - begin, 0.9))
    return math.ceil(len(begin) * (WARM + LEAST + 1) * lasts / max(span, lasts, 1))


def _answering(arrival: I64, finish: I64) -> Window | None:
    """From when a request that came first would be answered to the last arrival; None if that is less than a quarter of
    the time in which requests arrive."""
    first, last = int(arrival.min()), int(arrival.max())
    start = first + int(np.quantile(finish - arrival, 0.9))
    return Window(start, last) if last > first and last - start >= QUARTER * (last - first) else None


def falls_behind(arrival: I64, first: I64, finish: I64) -> bool:
    """Whether requests pile up: once the first are answered fewer get their first token than arrive, or towards the end
    of the arrivals there are more in the system than in their middle and later ones take longer; both by more than
    arrivals at random explain. Too few requests, or a rate that changes, show nothing.
    """
    window = _answering(arrival, finish)
    if window is not None:
        came, begun = (int(np.count_nonzero(window.has(each))) for each in (arrival, first))
        if came - begun > max(CERTAIN * came**0.5, DEFICIT * came):
            return True
    latency = finish - arrival
    begin, span = int(arrival.min()), int(arrival.max() - arrival.min())
    parts = [(arrival >= begin + low * span) & (arrival <= begin + high * span) for low, high in BETWEEN]
    if span <= 0 or not all(part.any() for part in parts):
        return False
    ordered = np.sort(arrival)
    inside = np.searchsorted(ordered, arrival, side="right") - np.searchsorted(np.sort(finish), arrival, side="right")
    earlier, later = (float(inside[part].mean()) for part in parts)
    came = int(np.count_nonzero((arrival > begin + 0.5 * span) & (arrival <= begin + 0.9 * span)))
    slower = float(latency[parts[1]].mean()) > LONGER * float(latency[parts[0]].mean())
    return slower and later - earlier > SURE * came**0.5
