"""The `compute` section: how long a compute node takes."""

from __future__ import annotations

from typing import Annotated, ClassVar

from astrarium import catalog
from astrarium.config import Config, Knob, default
from astrarium.config.named import Shorthand
from astrarium.config.spec import Variants
from astrarium.registry import Kind
from astrarium.units import FlopRate, OptionalPower, OptionalTime

__all__ = ["Compute", "Replay", "Roofline"]


class Compute(Config, frozen=True, kw_only=True):
    """How long a compute node takes."""

    variants: ClassVar[Variants | None] = Kind("compute")
    tag_key: ClassVar[str] = "model"
    shorthand: ClassVar[Shorthand | None] = Shorthand(
        lambda name: {"model": "roofline", **catalog.device(name).compute},
        "a device of the catalog (`astrarium list device`)")
    power: Annotated[OptionalPower, Knob("What one NPU draws while it computes (for the objective energy).")
                     ] = default(None)
    idle_power: Annotated[OptionalPower, Knob("What one NPU draws at all other times (for energy).")] = default(None)
    price: Annotated[float | None, Knob("US dollars of one NPU (for the objective system_cost).", ge=0)] = None


class Replay(Compute, frozen=True):
    """Every node takes the time that its trace recorded."""

    tag: ClassVar[str] = "replay"
    missing: Annotated[OptionalTime, Knob("Time of a node without a recorded one (traces count whole microseconds); "
                                          "left out: such a node is refused.")] = default(None)
    everything: Annotated[bool, Knob("Communication and memory nodes take their recorded time too.")] = False


class Roofline(Compute, frozen=True):
    """A node takes its flops at the peak or its bytes at memory bandwidth, the longer; host nodes replay."""

    tag: ClassVar[str] = "roofline"
    peak: Annotated[FlopRate, Knob("Peak compute rate of one NPU, at the precision of the workload.", gt=0)]
    missing: Annotated[OptionalTime, Knob("Time of a host node without a recorded one; left out: it is refused.")
                       ] = default(None)
