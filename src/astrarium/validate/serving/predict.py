"""Predictions of serving rows."""

from __future__ import annotations

from msgspec import Struct, field

from astrarium.validate.serving.deployment import Deployment, Layout
from astrarium.validate.serving.designs import engine_design
from astrarium.validate.serving.steady import Figures, apart, together
from astrarium.validate.serving.times import Steps, steps_of

__all__ = ["Predictor"]

Key = tuple[object, ...]


class Predictor(Struct, frozen=True):
    """Predicts deployments; engines with one layout share the times of their steps."""

    known: dict[Key, Steps] = field(default_factory=dict)

    def of(self, meant: Deployment) -> Figures:
        """TTFT, TPOT and throughput. Raises AstrariumError for what no model here covers."""
        if meant.prefill is None:
            return together(meant, self._steps(meant, meant.layout))
        return apart(meant, self._steps(meant, meant.prefill[0]), self._steps(meant, meant.layout))

    def _steps(self, meant: Deployment, layout: Layout) -> Steps:
        key = (meant.model, meant.system, meant.stack, meant.version, tuple(sorted(meant.formats.items())), layout)
        if key not in self.known:
            self.known[key] = steps_of(engine_design(meant, layout))
        return self.known[key]
