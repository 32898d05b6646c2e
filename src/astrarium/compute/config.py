"""The `compute` section: how long a compute node takes."""

from __future__ import annotations

from typing import Annotated, ClassVar

from astrarium.config import Config, Knob, default
from astrarium.config.spec import Variants
from astrarium.registry import Kind
from astrarium.units import FlopRate, OptionalTime

__all__ = ["Compute", "Replay", "Roofline"]


class Compute(Config, frozen=True):
    """How long a compute node takes."""

    variants: ClassVar[Variants | None] = Kind("compute")
    tag_key: ClassVar[str] = "model"


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
