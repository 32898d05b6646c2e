"""A design and a stream of requests in, latencies and throughput out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from astrarium import config
from astrarium.config import Config, Knob
from astrarium.design import Design, load_design
from astrarium.serving.loop import Told, run
from astrarium.serving.outcome import Served
from astrarium.serving.policy import Buckets, Objective, Policy
from astrarium.serving.requests import Arrivals, requests_of
from astrarium.serving.servers import fleet_of
from astrarium.serving.steps.simulated import Known

__all__ = ["Serving", "load_serving", "serve"]


class Serving(Config, frozen=True, kw_only=True):
    """A stream of requests, and the server that answers it."""

    design: Annotated[str, Knob("The design file: a workload with source: inference or disaggregated.", file=True)]
    requests: Annotated[Arrivals, Knob("Who asks when.")]
    policy: Annotated[Policy, Knob("How steps are filled.")] = Policy()
    buckets: Annotated[Buckets, Knob("What step shapes are rounded up to.")] = Buckets()
    objective: Annotated[Objective, Knob("What was promised (SLO).")] = Objective()


def load_serving(path: str | os.PathLike[str], changes: Mapping[str, object] = MappingProxyType({})) -> Serving:
    """Read a serving file (YAML), with `changes` (path -> value) made. Raises InputError with every problem, its line,
    and what was expected."""
    return config.load(Serving, path, changes)


def serve(design: Design | str | os.PathLike[str], requests: Arrivals, policy: Policy | None = None,
          buckets: Buckets | None = None, *, known: Known | None = None, progress: Told | None = None) -> Served:
    """Answer `requests` on a design (or a file of one) whose workload is an Inference or Disaggregated.

    Of the workload counts what the model is and how it is laid out; batch, lengths and phase come from the requests.
    Each shape of a step is simulated once; `known` keeps their times between runs of the same design. `progress` is
    told, after every step, how many requests are answered, of how many, and the simulated time in ps. Raises InputError
    where the workload is another one, or memory.capacity is missing or too small.
    """
    chosen = design if isinstance(design, Design) else load_design(design)
    fleet = fleet_of(chosen, policy or Policy(), buckets or Buckets(), {} if known is None else known)
    return run(requests_of(requests), fleet, progress)
