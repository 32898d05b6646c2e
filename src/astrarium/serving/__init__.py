"""Requests over time under continuous batching: `serve` is the door.

`requests` who asks when, `policy` how steps are filled, `scheduler` one step's choice, `batch` the decoding sequences,
`cache` its blocks, `shape` the shape of a step, `steps` how long a step of a shape takes, `server` one of them at its
steps, `fleet` instances of them, `members` these in a file, `routing` which server gets a request, `health` which
instances are up, `loop` the clock, `record` what it writes down, `outcome` what came of it.
"""

from __future__ import annotations

from astrarium.serving.deployment import Deployment, deployed
from astrarium.serving.design import ServingDesign, dump_serving, load_serving_design
from astrarium.serving.find import FoundRate, Tried
from astrarium.serving.members import Change, Failures, Member
from astrarium.serving.outcome import Served
from astrarium.serving.policy import Buckets, Objective, Policy, Tier
from astrarium.serving.requests import (
    Arrivals,
    ClosedLoop,
    Empirical,
    Gamma,
    JsonLines,
    Lengths,
    Lognormal,
    Mooncake,
    Poisson,
    Prefix,
    RequestTrace,
    Session,
    ShareGpt,
    Uniform,
)
from astrarium.serving.serve import (
    LONGER,
    Serving,
    load_serving,
    most_requests,
    policy_of,
    serve,
    serve_deployed,
    serve_slower,
)
from astrarium.serving.slo import Slo, slo_of

__all__ = [
    "LONGER",
    "Arrivals",
    "Buckets",
    "Change",
    "ClosedLoop",
    "Deployment",
    "Empirical",
    "Failures",
    "FoundRate",
    "Gamma",
    "JsonLines",
    "Lengths",
    "Lognormal",
    "Member",
    "Mooncake",
    "Objective",
    "Poisson",
    "Policy",
    "Prefix",
    "RequestTrace",
    "Served",
    "Serving",
    "ServingDesign",
    "Session",
    "ShareGpt",
    "Slo",
    "Tier",
    "Tried",
    "Uniform",
    "deployed",
    "dump_serving",
    "load_serving",
    "load_serving_design",
    "most_requests",
    "policy_of",
    "serve",
    "serve_deployed",
    "serve_slower",
    "slo_of",
]
