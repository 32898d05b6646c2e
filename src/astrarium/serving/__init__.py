"""Requests over time under continuous batching: `serve` is the door.

`requests` who asks when, `policy` how steps are filled, `scheduler` one step's choice, `shape` the shape of a step,
`steps` how long a step of a shape takes, `loop` the clock, `outcome` what came of it.
"""

from __future__ import annotations

from astrarium.serving.outcome import Served
from astrarium.serving.policy import Buckets, Objective, Policy
from astrarium.serving.requests import Arrivals, ClosedLoop, Poisson, RequestTrace
from astrarium.serving.serve import Serving, load_serving, serve

__all__ = ["Arrivals", "Buckets", "ClosedLoop", "Objective", "Poisson", "Policy", "RequestTrace", "Served", "Serving",
           "load_serving", "serve"]
