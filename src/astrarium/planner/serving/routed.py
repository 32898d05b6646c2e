"""The best engine behind a router that knows the queues, beside equal shares that are dealt out at random."""

from __future__ import annotations

from msgspec import Struct

from astrarium.planner.serving.explore import Trial
from astrarium.planner.serving.service import Service
from astrarium.serving.find import find_rate
from astrarium.serving.loop import run
from astrarium.serving.outcome import Served
from astrarium.serving.policy import Buckets
from astrarium.serving.requests import requests_of
from astrarium.serving.servers import fleet_of

__all__ = ["Routed", "routed"]

ENGINES, REQUESTS = 8, 4000     # most engines, and requests of a stream: those of some seconds of CPU time


class Routed(Struct, frozen=True):
    """The highest rates (requests/s) of some `engines` within the limits: in all with equal shares `at_random`, and
    with each request to the engine with the `fewest`."""

    engines: int
    at_random: float
    fewest: float


def routed(service: Service, trial: Trial, engines: int) -> Routed | None:
    """Serve up to ENGINES of `engines` equal ones behind a router, fewer where their streams would be long; None: there
    is only one, or no rate holds."""
    each = trial.candidate
    alone = requests_of(service.stream(trial.rate))
    count = min(engines, ENGINES, max(2, REQUESTS // len(alone)))
    if count < 2:
        return None

    def at(rate: float) -> Served:
        return run(requests_of(service.stream(rate)), fleet_of(each.design, each.policy, Buckets(), each.known,
                                                              count=count))

    best = find_rate(at, service.slo, count * trial.rate).best
    return None if best is None else Routed(count, count * trial.rate, best.rate)
