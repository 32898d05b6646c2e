"""A design and a stream of requests in, latencies and throughput out."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Annotated

from astrarium import config
from astrarium.cluster.serving.loop import run
from astrarium.cluster.serving.outcome import Served
from astrarium.cluster.serving.policy import Buckets, Objective, Policy
from astrarium.cluster.serving.requests import Arrivals, requests_of
from astrarium.cluster.serving.steps import StepTimes
from astrarium.config import Config, Knob
from astrarium.design import Design, load_design
from astrarium.errors import InputError
from astrarium.workload.graph.packed import Packed
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.footprint import cache_blocks
from astrarium.workload.inference.passes import replica_of

__all__ = ["Serving", "load_serving", "serve"]


class Serving(Config, frozen=True, kw_only=True):
    """A stream of requests, and the server that answers it."""

    design: Annotated[str, Knob("The design file: a workload with source: inference, one replica.", file=True)]
    requests: Annotated[Arrivals, Knob("Who asks when.")]
    policy: Annotated[Policy, Knob("How steps are filled.")] = Policy()
    buckets: Annotated[Buckets, Knob("What step shapes are rounded up to.")] = Buckets()
    objective: Annotated[Objective, Knob("What was promised (SLO).")] = Objective()


def load_serving(path: str | os.PathLike[str]) -> Serving:
    """Read a serving file (YAML). Raises InputError with every problem, its line, and what was expected."""
    return config.load(Serving, path)


def serve(design: Design | str | os.PathLike[str], requests: Arrivals, policy: Policy | None = None,
          buckets: Buckets | None = None, *, known: MutableMapping[Packed, int] | None = None) -> Served:
    """Answer `requests` on a design (or a file of one) whose workload is an Inference.

    Of the workload counts what the model is and how it is laid out; batch, lengths and phase come from the requests.
    Each shape of a step is simulated once; `known` keeps their times between runs of the same design. Raises InputError
    where the workload is another one, has several replicas or speculation, or memory.capacity is missing or too small.
    """
    chosen = design if isinstance(design, Design) else load_design(design)
    work, rules = chosen.workload, policy or Policy()
    if not isinstance(work, Inference):
        raise InputError("workload.source", "is not served", expected="inference")
    if work.dp > 1:
        raise InputError("workload.dp", f"{work.dp} replicas are as many servers", expected="1: each serves its own")
    if work.speculation is not None:
        raise InputError("workload.speculation", "is not served: how many tokens a step gives is random",
                         expected="no speculation")
    if chosen.memory.capacity is None:
        raise InputError("memory.capacity", "is missing", expected="what bounds the cache")
    replica = replica_of(work)
    blocks = cache_blocks(replica, float(chosen.memory.capacity) * rules.memory_share, rules.block, rules.max_tokens)
    times = StepTimes(chosen, replica, buckets or Buckets(), {} if known is None else known)
    return run(requests_of(requests), rules, blocks, times.of)
