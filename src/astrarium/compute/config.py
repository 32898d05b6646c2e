"""The `compute` section: how long a compute node takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec.structs import replace

from astrarium import catalog
from astrarium.compute.scaling import Scaling
from astrarium.config import Config, Knob, Problem, default
from astrarium.config.named import Shorthand, merged
from astrarium.config.spec import Variants, specs
from astrarium.errors import InternalError, UnsupportedError
from astrarium.registry import Kind
from astrarium.units import Bandwidth, FlopRate, OptionalBytes, OptionalPower, OptionalTime, Power

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from astrarium.compute.kernels.power import Clocked, Mix
    from astrarium.engine.plugins.compute import ComputeNodes

    I64 = npt.NDArray[np.int64]

__all__ = ["Compute", "Replay", "Roofline", "near", "replays_all", "usual_model"]


def usual_model(device: str) -> str:
    """The best compute model of a catalog device: `calibrated` if its file has kernels, `measured` kernels, if they are
    of its memory, else `analytic` (its data sheet, with what measured devices share), else `roofline`. Raises
    InputError for an unknown device."""
    from astrarium.compute import kernels

    device = catalog.name_of("devices", device)
    row = catalog.device(device).row
    if "kernels" in row:
        return "calibrated"
    if kernels.named(device) is not None and near(Bandwidth(row["bandwidth"]), kernels.load(device).machine.bandwidth):
        return "measured"
    return "analytic" if "units" in row else "roofline"


def near(bandwidth: float, measured: float) -> bool:
    """Whether a memory is that of measured kernels: within 10 %."""
    return 0.9 < bandwidth / measured < 1.1


def _device(name: str) -> dict[str, Any]:
    """All that a catalog row says for any compute model."""
    row = catalog.device(name)
    peaks = {f"{precision}_peak": rate for precision, rate in row.row.get("peaks", {}).items()}
    units = {"units": row.row["units"]} if "units" in row.row else {}
    file = {"file": row.row["kernels"]} if "kernels" in row.row else {}
    return {"model": usual_model(row.name), **peaks, **units, **file, **row.compute, "device": row.name}


def _of_device(named: Mapping[str, Any], beside: Mapping[str, Any]) -> dict[str, Any]:
    """What the model takes of a device's row, and the keys beside `like`."""
    found, models = merged(named, beside), Kind("compute")
    model = found["model"]
    takes = {spec.name for spec in specs(models.load(model))} if isinstance(model, str) and model in models else set()
    return {key: value for key, value in found.items() if key == "model" or key in takes or key in beside}


def _of_sheet(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """A `device` of the catalog beside a model that takes none, as its peak: so `model` alone may change."""
    model, device, models = plain.get("model"), plain.get("device"), Kind("compute")
    if not isinstance(model, str) or model not in models or not isinstance(device, str):
        return plain
    if device not in catalog.load("devices") or any(spec.name == "device" for spec in specs(models.load(model))):
        return plain
    return _of_device(_device(device), {key: value for key, value in plain.items() if key != "device"})


def _idle(compute: Compute) -> Iterable[Problem]:
    active = compute.active_power
    if active is not None and compute.idle_power is not None and compute.idle_power > active:
        yield Problem("idle_power", f"is more than the {Power.of(active)} that it draws while it computes",
                      "at most that")


class Compute(Config, frozen=True, kw_only=True):
    """How long a compute node takes."""

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_idle,)
    variants: ClassVar[Variants | None] = Kind("compute")
    tag_key: ClassVar[str] = "model"
    preset: ClassVar[Callable[[Any], Any] | None] = _of_sheet
    shorthand: ClassVar[Shorthand | None] = Shorthand(
        _device, "a device of the catalog (`astrarium list device`)", merge=_of_device)
    memory_bound: ClassVar[bool] = False        # needs memory.bandwidth, counts memory.latency
    power: Annotated[OptionalPower, Knob("What one NPU draws while it computes (for the objective energy); "
                                         "with clock: sustained at most, its limit.")] = default(None)
    idle_power: Annotated[OptionalPower, Knob("What one NPU draws at all other times (for energy).")] = default(None)
    price: Annotated[float | None, Knob("US dollars of one NPU (for the objective system_cost); without its memory "
                                        "where memory.technology is set.", ge=0)] = None
    hourly_price: Annotated[float | None, Knob("US dollars of one NPU for an hour (for cost_per_tera_tokens).", ge=0)
                            ] = None

    @property
    def measured_bandwidth(self) -> float | None:
        """Memory bandwidth of the device that its kernels were measured on, byte/ns; None: of none in particular."""
        return None

    @property
    def sustained(self) -> bool:
        """Whether its clock follows from what a rank runs."""
        return False

    @property
    def on_products(self) -> float:
        """The factor on products in a long run of a software stack."""
        return 1.0

    def at(self, clock: float) -> Compute:
        """This model at a clock (a part of that of short runs; at 1 nothing takes less time) where its own one follows
        from what a rank runs."""
        del clock
        return self

    def on_units(self, left: int, total: int) -> Compute:
        """This model on `left` of the `total` units of its GPU, the others being reserved: every peak at their share,
        memory as it is. Raises UnsupportedError if its times are of all units."""
        raise UnsupportedError("compute.model", f"the times of {self.tag} are of all {total} units, and {left} are "
                               "left", expected="roofline or analytic, or collective.kernels.units: 0")

    @property
    def active_power(self) -> float | None:
        """W of one NPU while it computes, at the clock that it runs at; None where the section does not say."""
        scaling = getattr(self, "scaling", None)
        return self.power if scaling is None or self.power is None else float(scaling.drawn(float(self.power)))

    def peak_at(self, precision: str) -> float | None:
        """Data-sheet rate of matrix products in a number format, flop/ns: what utilisation refers to. A model with one
        peak has it at the precision of its workload; None where there is none."""
        del precision       # one peak, whatever the format
        found = getattr(self, "peak", None)
        return None if found is None else float(found)

    def durations(self, nodes: ComputeNodes) -> I64:
        """Time of every node, ps [nodes]; see `ComputeModel`."""
        raise InternalError(f"{type(self).__name__} has no durations for {len(nodes)} nodes")

    def clocked(self, nodes: ComputeNodes) -> Clocked | None:
        """The clock of a rank that runs these nodes, and what it draws; None: its clock does not depend on them."""
        del nodes
        return None

    def mix(self, nodes: ComputeNodes) -> Mix | None:
        """What each of these nodes loads the chip with; None: no clock follows from that alone."""
        del nodes
        return None


def replays_all(compute: Any) -> bool:
    """Whether communication and memory nodes take their recorded time too."""
    return bool(getattr(compute, "everything", False))


class Replay(Compute, frozen=True):
    """Each node takes its recorded time."""

    tag: ClassVar[str] = "replay"
    missing: Annotated[OptionalTime, Knob("Time of a node without a recorded one (traces count whole microseconds); "
                                          "left out: such a node is refused.")] = default(None)
    everything: Annotated[bool, Knob("Communication and memory nodes take their recorded time too.")] = False

    def durations(self, nodes: ComputeNodes) -> I64:
        """Recorded times. Raises InputError for a node without one."""
        from astrarium.compute.replay import replayed

        return replayed(nodes, self.missing)


def _scaled(roofline: Roofline) -> Iterable[Problem]:
    scaling = roofline.scaling
    if scaling is None:
        return
    power = float(roofline.power or 0)
    if roofline.power is None:
        yield Problem("power", "is missing", "what the NPU draws at scaling.nominal")
    elif scaling.static_power >= power:
        yield Problem("scaling.static_power", f"is not less than the power of {Power.of(power)}", "less")
    elif scaling.power_cap is not None and scaling.power_cap < scaling.least(power):
        yield Problem("scaling.power_cap", "is less than what the lowest clock draws",
                      f"at least {Power.of(scaling.least(power))}")


class Roofline(Compute, frozen=True):
    """A node takes its flops at the peak or its bytes at memory bandwidth, whichever is longer; host nodes replay."""

    tag: ClassVar[str] = "roofline"
    memory_bound: ClassVar[bool] = True
    rules = (*Compute.rules, _scaled)
    peak: Annotated[FlopRate, Knob("Peak compute rate of one NPU, at the precision of the workload.", gt=0)]
    missing: Annotated[OptionalTime, Knob("Time of a host node without a recorded one; left out: it is refused.")
                       ] = default(None)
    buffer: Annotated[OptionalBytes, Knob("On-chip buffer: a matrix product with operands and result larger than it "
                                          "passes one operand several times (COMET); left out: each passes once.",
                                          gt=0)] = default(None)
    scaling: Annotated[Scaling | None, Knob("Clock and power that differ from those of peak and power.")] = None

    def on_units(self, left: int, total: int) -> Compute:
        """At the share of the peak that the units left have."""
        return replace(self, peak=FlopRate.of(float(self.peak) * left / total))

    @property
    def running_peak(self) -> float:
        """Peak at the current clock, flop/ns."""
        if self.scaling is None:
            return float(self.peak)
        return float(self.peak) * self.scaling.share(float(self.power or 0))

    def durations(self, nodes: ComputeNodes) -> I64:
        """Device nodes by the roofline, host nodes by their recorded time. Raises InputError for a host node without
        one, for a device node without flops, and where `memory.bandwidth` is not said."""
        from astrarium.compute.roofline import roofline_of

        return roofline_of(nodes, self.running_peak, self.missing,
                           None if self.buffer is None else float(self.buffer))
