"""Predictions of serving rows."""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field

from astrarium import config
from astrarium.serving.loop import run
from astrarium.serving.policy import Buckets
from astrarium.serving.requests import Arrivals, requests_of
from astrarium.serving.servers import fleet_of
from astrarium.serving.shape import StepTimes
from astrarium.validate.serving.deployment import Deployment, Lengths
from astrarium.validate.serving.designs import design_of, policy_of

__all__ = ["Figures", "Predictor"]

WAVES, FEWEST = 10, 32      # requests asked for, for each in flight; and in all


class Figures(Struct, frozen=True):
    """Means over requests in ms; `rate`: output tokens per second and NPU."""

    ttft: float
    tpot: float
    rate: float


class Predictor(Struct, frozen=True):
    """Predicts deployments; equal engines share the times of their steps."""

    known: dict[object, StepTimes] = field(default_factory=dict)

    def of(self, meant: Deployment) -> Figures:
        """TTFT, TPOT and throughput. Raises AstrariumError for what no model here covers."""
        fleet = fleet_of(design_of(meant), policy_of(meant), Buckets(), {})
        key = (meant.model, meant.system, meant.stack, meant.version, tuple(sorted(meant.formats.items())), meant.layout,
               meant.prefill, meant.engines)
        for number, server in enumerate((*fleet.front, *fleet.back)):
            server.times = self.known.setdefault((key, number), server.times)
        served = run(requests_of(_stream(meant)), fleet)
        ttft, tpot = float(served.ttft.mean()) / 1e9, float(np.nanmean(served.tpot)) / 1e9
        output = meant.output.mean
        seconds = (ttft + tpot * (output - 1)) / 1e3
        return Figures(ttft, tpot, meant.concurrency * output / seconds / meant.npus)


def _stream(meant: Deployment) -> Arrivals:
    count = max(WAVES * meant.concurrency, FEWEST) if meant.concurrency <= 1024 else 4 * meant.concurrency
    return config.decode(Arrivals, {"kind": "closed_loop", "concurrency": meant.concurrency, "count": count, "seed": 0,
                                    "prompt": _drawn(meant.prompt), "output": _drawn(meant.output)})


def _drawn(lengths: Lengths) -> object:
    return {"kind": "uniform", "low": lengths.low, "high": lengths.high} if lengths.low < lengths.high else lengths.high
