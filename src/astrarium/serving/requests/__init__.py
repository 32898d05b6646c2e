"""Streams of requests: who asks when, and for how much. One config class for each kind (`registry`: arrivals)."""

from __future__ import annotations

from astrarium.serving.requests.generated import ClosedLoop, Gamma, Poisson, Prefix, Session
from astrarium.serving.requests.lengths import Empirical, Lengths, Lognormal, Uniform
from astrarium.serving.requests.stream import Arrivals, Prefixes, Requests, Turns, busiest, requests_of
from astrarium.serving.requests.table import RequestTrace
from astrarium.serving.requests.traces import JsonLines, Mooncake, ShareGpt

__all__ = ["Arrivals", "ClosedLoop", "Empirical", "Gamma", "JsonLines", "Lengths", "Lognormal", "Mooncake", "Poisson",
           "Prefix", "Prefixes", "RequestTrace", "Requests", "Session", "ShareGpt", "Turns", "Uniform", "busiest",
           "requests_of"]
