"""A stream of requests: distributions of latencies, queue and cache over time, some requests from arrival to answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from astrarium.arrays import F64
from astrarium.errors import InputError
from astrarium.report.plot.colours import PALETTE
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.serving import Served
from astrarium.units import format_time

__all__ = ["KV_CACHE", "LATENCY", "QUEUE", "REQUESTS", "kv_cache", "latency", "queue", "requests"]

NAMES = {"ttft": "first token (TTFT)", "tpot": "further token, mean (TPOT)", "itl": "between two tokens (ITL)",
         "latency": "last token"}
POINTS, ROWS = 200, 24      # of a curve; requests of the timeline


def latency(served: Served) -> Plot:
    """Which share of the requests (ITL: of the tokens) has each latency or less: TTFT, TPOT, ITL, and to the last
    token.

    Args:
        served: a stream that was served; of its steady state, where it has one.

    Raises:
        InputError: where no request was answered.
    """
    name, time, share = list[str](), list[float](), list[float]()
    half = []
    for each, (values, counts) in served.latencies(served.window).items():
        at, part = _shares(np.asarray(values, np.float64) / 1000, counts)
        good = at > 0
        name += [NAMES[each]] * int(good.sum())
        time += at[good].tolist()
        share += part[good].tolist()
        half.append(f"{each.upper() if each != 'latency' else 'the last token'} "
                    f"{format_time(float(np.interp(0.5, part, at)))}")
    if not time:
        raise InputError("latency", "no request was answered", expected="a stream with answers")
    columns = {"colour": Column("of", name), "x": Column("latency", time, "time"), "y": Column("share", share, "share")}
    limit = Layer("rule", {"y": Column("", [0.99], "share")}, colour="limit", dash=True)
    where = "the steady state" if served.window else "the whole run"
    return Plot("Latencies", f"Half of {where} within: {', '.join(half)}. Dashed: 99 %.",
                (Layer("line", columns), limit), Axis("latency", "time", log=True),
                Axis("share within", "share", high=1.0), {each: PALETTE[place] for place, each in enumerate(
                    dict.fromkeys(name))}, zoom=True)


def _shares(values: F64, counts: npt.NDArray[np.int32] | None) -> tuple[F64, F64]:
    """(values, ascending; share of all that are not above each), at most POINTS of them."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(np.ones(len(values)) if counts is None else counts[order])
    share = total / total[-1]
    places = np.unique(np.minimum(np.searchsorted(share, np.linspace(0, 1, POINTS)), len(values) - 1))
    return values[order][places], share[places]


def queue(served: Served) -> Plot:
    """Requests that run and that wait, over the time since the first arrival.

    Args:
        served: a stream that was served.

    Raises:
        InputError: where the stream was too short for samples.
    """
    time, samples = _samples(served, "queue")
    columns = {"colour": Column("requests", ["running"] * len(time) + ["waiting"] * len(time)),
               "x": Column("time", [*time, *time], "time"),
               "y": Column("count", [*samples[:, 2].tolist(), *samples[:, 1].tolist()], "count")}
    said = (f"At most {int(samples[:, 2].max()):,} run at once and {int(samples[:, 1].max()):,} wait; "
            f"{len(time):,} of {len(served.samples if served.samples is not None else ()):,} samples are drawn.")
    return Plot("Requests over time", said, (Layer("line", columns, step=True),), Axis("time", "time"),
                Axis("requests", "count"), {"running": PALETTE[0], "waiting": PALETTE[1]}, zoom=True)


def kv_cache(served: Served) -> Plot:
    """The share of the blocks of the key-value cache in use, over the time since the first arrival.

    Args:
        served: a stream that was served.

    Raises:
        InputError: where the stream was too short for samples, or has no cache.
    """
    time, samples = _samples(served, "kv_cache")
    if not served.blocks:
        raise InputError("kv_cache", "the engine has no blocks of a cache", expected="a stream of a decoder")
    used = samples[:, 3] / served.blocks
    columns = {"x": Column("time", time, "time"), "y": Column("in use", used.tolist(), "share"),
               "blocks": Column("blocks", samples[:, 3].tolist(), "count")}
    full = Layer("rule", {"y": Column("", [1.0], "share")}, colour="limit", size=2)
    return Plot("Key-value cache over time", f"At most {100 * float(used.max()):.1f} % of {served.blocks:,} blocks are "
                f"in use, {100 * float(used.mean()):.1f} % in the mean.",
                (Layer("area", columns, opacity=0.25), Layer("line", columns, step=False), full),
                Axis("time", "time"), Axis("in use", "share", high=1.0), zoom=True)


def _samples(served: Served, name: str) -> tuple[list[float], npt.NDArray[np.float64]]:
    """(ns since the first arrival, [points, 4] as `Served.samples`), at most POINTS of them, evenly spread."""
    if served.samples is None or len(served.samples) < 2:
        raise InputError(name, "the stream has no samples over time", expected="a stream of more steps")
    places = np.unique(np.linspace(0, len(served.samples) - 1, POINTS).astype(np.int64))
    samples = served.samples[places].astype(np.float64)
    return ((samples[:, 0] - float(served.arrival.min())) / 1000).tolist(), samples


def requests(served: Served) -> Plot:
    """Successive requests from the middle of the steady state, from arrival to answer.

    Args:
        served: a stream that was served.

    Raises:
        InputError: where no request was answered.
    """
    chosen = np.flatnonzero(served.within(served.window))
    if not len(chosen):
        raise InputError("requests", "no request was answered", expected="a stream with answers")
    chosen = chosen[np.argsort(served.arrival[chosen], kind="stable")]
    middle = max(0, (len(chosen) - ROWS) // 2)
    chosen = chosen[middle:middle + ROWS]
    origin = int(served.arrival[chosen].min())
    arrival, first, finish = (((each[chosen] - origin) / 1000).tolist() for each in
                              (served.arrival, served.first, served.finish))
    names = [f"request {number}" for number in chosen.tolist()]
    tokens = served.output[chosen].astype(np.float64).tolist()
    parts = {"until the first token": PALETTE[3], "until the last token": PALETTE[0]}
    columns = {"y": Column("request", [*names, *names]),
               "colour": Column("part", [part for part in parts for _ in names]),
               "x": Column("from", [*arrival, *first], "time"), "x2": Column("to", [*first, *finish], "time"),
               "tokens": Column("output tokens", [*tokens, *tokens], "count")}
    return Plot("Requests from arrival to answer", f"{len(names)} successive requests of {len(served.finish):,}.",
                (Layer("bar", columns, share=0.7),), Axis("time", "time"), Axis(order=tuple(names)), parts)


def _of(draw: Any) -> Drawing:
    return Drawing(("serve",), lambda found: draw(found.served))


LATENCY, QUEUE, KV_CACHE, REQUESTS = _of(latency), _of(queue), _of(kv_cache), _of(requests)
