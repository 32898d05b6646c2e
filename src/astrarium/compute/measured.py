"""`compute.model: measured`: kernels take what a model fitted on measured rows of the device predicts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from astrarium.compute.timed import Predict, Predicted
from astrarium.config import Knob
from astrarium.config.spec import Problem
from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.compute.kernels import DeviceModel
    from astrarium.engine.plugins.compute import ComputeNodes

__all__ = ["Measured"]


def _known(compute: Measured) -> Iterable[Problem]:
    try:
        compute.fitted()
    except InputError as error:
        yield Problem(error.path.removeprefix("compute."), error.message, error.expected, error.did_you_mean)


class Measured(Predicted, frozen=True, kw_only=True):
    """Kernels take the time of a model that was fitted on measured rows of the device."""

    tag: ClassVar[str] = "measured"
    rules = (*Predicted.rules, _known)
    device: Annotated[str, Knob("A device with measured kernels, such as h100_sxm (all: docs/background/kernels.md).")]
    framework: Annotated[str | None, Knob("Whose kernels: torch, trtllm, vllm or sglang (its newest version; without "
                                          "rows of a class, the fastest others), one version (trtllm/1.3.0rc20; "
                                          "torch/2.11/flash: attention not by cuDNN), or fastest: of each shape the "
                                          "fastest framework's; left out: the device's default, with quantised "
                                          "weights the fastest.")] = None
    rows: Annotated[Literal["fitted", "exact"], Knob(
        "fitted: the shipped model; exact: a kernel whose shape was measured takes the row's time (needs "
        "astrarium[measured]).")] = "fitted"

    def fitted(self) -> DeviceModel:
        """The device's model. Raises InputError for an unknown device or framework."""
        from astrarium.compute import kernels

        model = kernels.load(self.device)
        model.check_framework(self.framework)
        return model

    def stand_ins(self, classes: Iterable[tuple[str, str]]) -> Iterable[str]:
        """Sentences about classes of kernels (family, precision of the rows) for which other rows stand in."""
        model = self.fitted()
        for family, precision in classes:
            try:
                yield from filter(None, [model.stand_in(family, precision, self.framework)])
            except InputError:      # the run refuses it by name
                continue

    def notes(self) -> Iterable[str]:
        """Whose rows stand in for PyTorch's on a device without them."""
        from astrarium.compute.kernels.choice import is_torch

        return self.stand_ins((("gemm", "bf16"), ("attention", "bf16"))) if is_torch(self.framework) else ()

    @property
    def measured_bandwidth(self) -> float:
        """Memory bandwidth of the device, byte/ns."""
        return self.fitted().machine.bandwidth

    @property
    def peak(self) -> float:
        """bf16 peak of the device's data sheet, flop/ns."""
        return self.fitted().machine.peak("bf16")

    def peak_at(self, precision: str) -> float:
        """Peak of the device's data sheet in `precision`, flop/ns. Raises InputError if the sheet has none."""
        return self.fitted().machine.peak(precision)

    def timed_by(self, nodes: ComputeNodes) -> tuple[DeviceModel, Predict]:
        """The device's model, and the times of kernels alone at a clock, ns."""
        from astrarium.compute.kernels.predict import latencies

        del nodes       # one model, whatever the memory
        model = self.fitted()
        if self.rows == "exact":
            from astrarium.compute.kernels.exact import exact_or_fitted_ns

            return model, lambda some, clock: exact_or_fitted_ns(model, some, self.framework, clock)
        return model, lambda some, clock: latencies(model, some, self.framework, clock)
