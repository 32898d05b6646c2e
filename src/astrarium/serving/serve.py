"""A design and a stream of requests in, latencies and throughput out."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, TypeAlias

from astrarium import config
from astrarium.config import Config, Knob, parse_yaml
from astrarium.config.yamlfile import read_text
from astrarium.design import Design, load_design
from astrarium.errors import InputError
from astrarium.serving.find import FoundRate, find_rate
from astrarium.serving.loop import Told, run
from astrarium.serving.outcome import Served
from astrarium.serving.policy import Buckets, Objective, Policy
from astrarium.serving.requests import Arrivals, busiest, requests_of
from astrarium.serving.servers import fleet_of
from astrarium.serving.settings import of_stack, reaching
from astrarium.serving.shape import Scaled
from astrarium.serving.slo import Slo
from astrarium.serving.steps.simulated import Known

__all__ = ["FINE", "LONGER", "Serving", "load_serving", "most_requests", "policy_of", "serve", "serve_slower"]

LONGER = 1.3        # times as long a step is where the margin is tested
BUSIEST = 4000      # requests with which it is
FINE = 0.01         # share between the rates of `most_requests`


Stream: TypeAlias = Annotated[Arrivals, Knob("Who asks when.")]
Steps: TypeAlias = Annotated[Policy, Knob("How steps are filled.")]
Rounding: TypeAlias = Annotated[Buckets, Knob("What step shapes are rounded up to.")]
Promise: TypeAlias = Annotated[Objective, Knob("What was promised (SLO).")]


class Serving(Config, frozen=True, kw_only=True):
    """A stream of requests, and the server that answers it."""

    design: Annotated[str, Knob("The design file: a workload with source: inference or disaggregated.", file=True)]
    requests: Stream
    policy: Steps = Policy()
    buckets: Rounding = Buckets()
    objective: Promise = Objective()


def load_serving(path: str | os.PathLike[str], changes: Mapping[str, object] = MappingProxyType({}),
                 of_design: Mapping[str, object] = MappingProxyType({})) -> Serving:
    """Read a serving file (YAML), with `changes` (path -> value) made. What its policy leaves out is that of the stack
    of its design (with the changes `of_design`), where this has one. Raises InputError with every problem, its line,
    and what was expected."""
    serving = config.load(Serving, path, changes)
    settings = of_stack(load_design(serving.design, of_design))
    if not settings:
        return serving
    given = parse_yaml(read_text(os.fspath(path)), os.fspath(path)).data
    stated = given.get("policy") if isinstance(given, Mapping) else None
    names = {*(stated or {}), *(re.split(r"[.\[]", change)[1] for change in changes if change.startswith("policy."))}
    under = {f"policy.{name}": value for name, value in settings.items() if name not in names}
    return config.replace_all(serving, under)


def policy_of(design: Design) -> Policy:
    """The policy of a design's stack; the usual one where it has none."""
    return config.decode(Policy, of_stack(design))


def serve(design: Design | str | os.PathLike[str], requests: Arrivals, policy: Policy | None = None,
          buckets: Buckets | None = None, *, known: Known | None = None, progress: Told | None = None) -> Served:
    """Answer `requests` on a design (or a file of one) whose workload is an Inference or Disaggregated; `policy`: if
    left out, that of the design's stack.

    Of the workload counts what the model is and how it is laid out; batch, lengths and phase come from the requests.
    Step times come from tables, or each shape is simulated once (the result's `how` says which); `known` keeps them
    between runs of the same design. `progress` is told, after every event, how many requests are answered, of how many,
    and the simulated time in ps. Raises InputError where the workload is another one, or memory.capacity is missing or
    too small.
    """
    chosen = design if isinstance(design, Design) else load_design(design)
    chosen_policy = policy or policy_of(chosen)
    fleet = fleet_of(chosen, chosen_policy, buckets or Buckets(), {} if known is None else known)
    stream = reaching(requests_of(requests), getattr(chosen.workload, "model", None), chosen_policy.priorities)
    return run(stream, fleet, progress)


def serve_slower(design: Design, requests: Arrivals, policy: Policy, buckets: Buckets, *, known: Known,
                 progress: Told | None = None) -> Served:
    """What becomes of the busiest requests (BUSIEST in a row) where every step takes 30 % longer: whether the servers
    are near saturation shows before a small error of step times decides it."""
    fleet = fleet_of(design, policy, buckets, known)
    for server in fleet.servers:
        server.times = Scaled(server.times, LONGER)
    return run(busiest(requests_of(requests), BUSIEST), fleet, progress)


def most_requests(design: Design, requests: Arrivals, policy: Policy, buckets: Buckets, slo: Slo, *, known: Known,
                  longer: float = 1.0, progress: Told | None = None) -> FoundRate:
    """The highest rate of a stream at which all limits hold, within FINE; its own rate is the first that is tried.

    All rates have the same requests, whose arrivals come closer together. `longer`: times that steps take as long.
    Raises InputError where the stream has no rate.
    """
    start = getattr(requests, "rate", None)
    if start is None:
        raise InputError("requests", f"kind {requests.tag} has no rate to find", expected="poisson, gamma or sharegpt")

    def at(rate: float) -> Served:
        fleet = fleet_of(design, policy, buckets, known)
        for server in fleet.servers:
            server.times = server.times if longer == 1 else Scaled(server.times, longer)
        stream = requests_of(config.replace(requests, "rate", rate))
        return run(reaching(stream, getattr(design.workload, "model", None), policy.priorities), fleet, progress)

    return find_rate(at, slo, float(start), tolerance=FINE)
