"""Predictions of serving rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from astrarium import config
from astrarium.serving.fleet import Fleet
from astrarium.serving.loop import run
from astrarium.serving.outcome import Served, figures
from astrarium.serving.policy import Buckets
from astrarium.serving.requests import ClosedLoop, Poisson, requests_of
from astrarium.serving.servers import fleet_of
from astrarium.serving.steps.simulated import Known
from astrarium.validate.serving.deployment import Deployment, Lengths
from astrarium.validate.serving.designs import design_of, policy_of

__all__ = ["Figures", "Predictor"]

WAVES, FEWEST = 10, 32      # requests asked for: for each in flight, at least
MANY, FEW_WAVES = 1024, 4       # requests in flight, and waves from there on
POLICY = "policy."
LATER = ("ttft", "latency", "ttft_p90", "ttft_p99", "latency_p90", "latency_p99")
MS = 1e6            # ns
OPEN = 2000     # requests of a stage of an open loop


class Figures(Struct, frozen=True):
    """Over requests, in ms: means of time to the first token, per token, between tokens, to the last; percentiles;
    `rate`: output tokens per second and NPU."""

    ttft: float
    tpot: float
    itl: float
    latency: float
    rate: float
    ttft_p90: float = 0.0
    ttft_p99: float = 0.0
    latency_p90: float = 0.0
    latency_p99: float = 0.0


class Predictor(Struct, frozen=True):
    """Predicts deployments, with `changes` (path -> value) made to all designs, and to policies (paths policy.X). Equal
    engines share the times of their steps, equal deployments their figures."""

    changes: Mapping[str, object] = field(default_factory=dict)
    known: dict[object, Known] = field(default_factory=dict)
    made: dict[object, Figures] = field(default_factory=dict)

    def of(self, meant: Deployment) -> Figures:
        """The figures of a deployment. Raises AstrariumError for what no model here covers."""
        key = repr(meant)
        if key not in self.made:
            self.made[key] = (self._closed(meant) if not meant.rates else
                              _joined([self._open(meant, rate) for rate in meant.rates], meant.rates))
        return self.made[key]

    def fleet(self, meant: Deployment) -> Fleet:
        """The engines of a deployment, new: nothing has come to them."""
        design = design_of(meant)
        engine = (meant.model, meant.system, meant.stack, meant.version, tuple(sorted(meant.formats.items())),
                  meant.layout, meant.prefill, meant.engines)
        split: tuple[dict[str, object], dict[str, object]] = ({}, {})
        for path, value in self.changes.items():
            split[path.startswith(POLICY)][path.removeprefix(POLICY)] = value
        policy = config.replace_all(policy_of(meant, design), split[1])
        return fleet_of(config.replace_all(design, split[0]), policy, Buckets(), self.known.setdefault(engine, {}))

    def _closed(self, meant: Deployment) -> Figures:
        waves = WAVES if meant.concurrency < MANY else FEW_WAVES
        count = max(waves * meant.concurrency, FEWEST)
        stream = config.decode(ClosedLoop, {"concurrency": meant.concurrency, "count": count, **_lengths(meant)})
        made = _figures(run(requests_of(stream), self.fleet(meant)), meant)
        later = {name: getattr(made, name) + meant.client for name in LATER}
        output = meant.output.mean
        seconds = (later["ttft"] + made.tpot * (output - 1)) / 1e3
        return replace(made, **later, rate=meant.concurrency * output / seconds / meant.npus)

    def _open(self, meant: Deployment, rate: float) -> Figures:
        stream = config.decode(Poisson, {"rate": rate, "count": OPEN, **_lengths(meant)})
        return _figures(run(requests_of(stream), self.fleet(meant)), meant)


def _lengths(meant: Deployment) -> dict[str, object]:
    prefix = {"prefix": {"tokens": meant.prefix, "groups": meant.groups}} if meant.prefix else {}
    return {"seed": 0, "prompt": _drawn(meant.prompt), "output": _drawn(meant.output), **prefix}


def _drawn(lengths: Lengths) -> object:
    return {"kind": "uniform", "low": lengths.low, "high": lengths.high} if lengths.low < lengths.high else lengths.high


def _figures(served: Served, meant: Deployment) -> Figures:
    tpot = float(np.nanmean(served.tpot)) / 1e9 if np.isfinite(served.tpot).any() else 0.0
    gaps = figures("itl", served.gap_times, served.gap_counts)["itl_mean_ns"] / MS if len(served.gap_times) else 0.0
    first, last = figures("x", served.ttft), figures("x", served.latency)
    rate = float(served.output.sum()) / served.span / meant.npus
    return Figures(first["x_mean_ns"] / MS, tpot, gaps, last["x_mean_ns"] / MS, rate, first["x_p90_ns"] / MS,
                   first["x_p99_ns"] / MS, last["x_p90_ns"] / MS, last["x_p99_ns"] / MS)


def _joined(made: Sequence[Figures], weights: Sequence[float]) -> Figures:
    """Means of stages, weighted by their requests."""
    pairs = list(zip(made, weights, strict=True))
    return Figures(*(sum(getattr(each, name) * weight for each, weight in pairs) / sum(weights)
                     for name in Figures.__struct_fields__))
