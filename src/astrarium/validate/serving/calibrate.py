"""A log of one engine, a serving file's prediction for its requests, and the fitted constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium import config
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.serving.loop import run
from astrarium.serving.policy import Buckets, Policy
from astrarium.serving.requests.stream import Requests
from astrarium.serving.servers import fleet_of
from astrarium.serving.steps.simulated import Known
from astrarium.validate.serving.log import Log

__all__ = ["Constants", "Means", "fitted", "means_of", "replayed"]

PROBE = 100.0       # us


class Means(Struct, frozen=True):
    """Means over requests, in ms; 0: not measured."""

    ttft: float
    tpot: float
    latency: float = 0.0


class Constants(Struct, frozen=True):
    """What a log leaves to the host: time between two steps in us, offset of the first token in ms; the means measured,
    and predicted without and with them."""

    overhead: float
    offset: float
    measured: Means
    before: Means
    after: Means


def means_of(log: Log) -> Means:
    """The means of a log, each over the requests that have it."""
    return Means(*(1e3 * _mean(each) for each in (log.ttft, log.tpot, log.latency)))


def _mean(values: npt.NDArray[np.float64]) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else 0.0


def replayed(log: Log, design: Design, policy: Policy, known: Known) -> Means:
    """Predicted means of the log's requests, sent at the logged times. Each mean is over the requests whose time is
    logged."""
    arrival = np.rint(log.arrival * 1e12).astype(np.int64)
    asked = Requests(arrival, log.prompt, log.output, log.sent.concurrency)
    served = run(asked, fleet_of(design, policy, Buckets(), known))
    return Means(*(_mean(np.where(np.isfinite(real), made, np.nan)) / 1e9 for real, made in (
        (log.ttft, served.ttft), (log.tpot, served.tpot), (log.latency, served.latency))))


def fitted(log: Log, design: Design, policy: Policy) -> Constants:
    """Host time of a step, so that the mean time per token is the measured one, then the first token's offset, so that
    the mean TTFT is; neither below what the policy has if times are too long already. Raises InputError for a log
    without times of first tokens or per token."""
    real, known = means_of(log), dict[tuple[object, ...], Any]()
    if not real.ttft:
        raise InputError("log", "has no time to the first token", expected="a column ttft, and tpot or latency")
    if not real.tpot:
        raise InputError("log", "has no time per token", expected="answers of two and more tokens with tpot or latency")
    before = replayed(log, design, policy, known)
    start, spent = float(policy.overhead) / 1e3, before
    more = start
    for _ in range(3):      # nearly linear: host time also lengthens queues
        trial = replayed(log, design, _with(policy, more + PROBE), known)
        slope = (trial.tpot - spent.tpot) / PROBE
        more = max(0.0, more + (real.tpot - spent.tpot) / slope) if slope > 0 else more
        spent = replayed(log, design, _with(policy, more), known)
        if abs(spent.tpot / real.tpot - 1) < 0.001 or not more:
            break
    offset = max(0.0, float(policy.stream_offset) / 1e6 + real.ttft - spent.ttft)
    last = Means(spent.ttft - float(policy.stream_offset) / 1e6 + offset, spent.tpot)
    return Constants(more, offset, real, before, last)


def _with(policy: Policy, overhead: float) -> Policy:
    return config.replace(policy, "overhead", f"{overhead:.3f} us")
