"""Predictions of serving rows."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from astrarium.validate.serving.closed import Filling, closed_loop
from astrarium.validate.serving.deployment import Deployment, Layout
from astrarium.validate.serving.designs import engine_design
from astrarium.validate.serving.steady import Figures, apart
from astrarium.validate.serving.times import Steps, steps_of

__all__ = ["Predictor"]

KINDS: dict[str, Literal["chunked", "whole", "alone"]] = {"vllm": "chunked", "sglang": "alone", "trt-llm": "whole"}
Key = tuple[object, ...]


class Predictor(Struct, frozen=True):
    """Predicts deployments; engines with one layout share the times of their steps."""

    known: dict[Key, Steps] = field(default_factory=dict)

    def of(self, meant: Deployment) -> Figures:
        """TTFT, TPOT and throughput. Raises AstrariumError for what no model here covers."""
        if meant.prefill is None:
            steps = self._steps(meant, meant.layout)
            ttft, tpot = closed_loop(meant, steps, _filling(meant))
            seconds = (ttft + tpot * (meant.output.mean - 1)) / 1e3
            return Figures(ttft, tpot, meant.concurrency * meant.output.mean / seconds / meant.npus)
        return apart(meant, self._steps(meant, meant.prefill[0]), self._steps(meant, meant.layout))

    def _steps(self, meant: Deployment, layout: Layout) -> Steps:
        key = (meant.model, meant.system, meant.stack, meant.version, tuple(sorted(meant.formats.items())), layout)
        if key not in self.known:
            self.known[key] = steps_of(engine_design(meant, layout))
        return self.known[key]


def _filling(meant: Deployment) -> Filling:
    return Filling(KINDS[meant.stack], meant.tokens or 8192, meant.batch or 1024, poll=meant.poll)
