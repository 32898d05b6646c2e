"""`compute.model: calibrated`: a device model corrected by a user's own timings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from astrarium.compute.timed import Predict, Predicted
from astrarium.config import Knob

if TYPE_CHECKING:
    from astrarium.compute.kernels import DeviceModel
    from astrarium.engine.plugins.compute import ComputeNodes

__all__ = ["Calibrated"]


class Calibrated(Predicted, frozen=True, kw_only=True):
    """Kernels take the time of a device model corrected by your timings (`astrarium calibrate`)."""

    tag: ClassVar[str] = "calibrated"
    file: Annotated[str, Knob("What `astrarium calibrate` wrote.", file=True)]
    framework: Annotated[str | None, Knob("Whose kernels, as `measured` has them; left out: torch of a device that "
                                          "`calibrate --measure` measured, else the base's default.")] = None

    def fitted(self) -> DeviceModel:
        """The file's model. Raises InputError where it is none, and for an unknown framework."""
        from astrarium.compute.calibration_file import load_calibrated

        model = load_calibrated(self.file)
        model.check_framework(self.framework)
        return model

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
        framework = self.framework or model.framework or None
        return model, lambda some, clock: latencies(model, some, framework, clock)
