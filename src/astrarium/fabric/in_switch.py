"""`in_switch` of a dim: what its switches can do with the messages of a collective."""

from __future__ import annotations

from typing import Annotated, Literal

from astrarium.config import Config, Knob, default
from astrarium.units import Bandwidth, OptionalBytes, Time

__all__ = ["InSwitch"]


class InSwitch(Config, frozen=True, kw_only=True):
    """Switches that add messages and multicast results (NVLink SHARP, SHARP, and others)."""

    rate: Annotated[Bandwidth, Knob("Bytes of messages that one switch adds per time, over all its ports.", gt=0)]
    latency: Annotated[Time, Knob("Time from the last byte that is added to the sum.")] = default("0 ns")
    groups: Annotated[int | None, Knob("Groups of NPUs for which one switch can be set up at once; left out: any "
                                       "number.", ge=1)] = None
    payload: Annotated[OptionalBytes, Knob("Largest payload of one operation; larger ones are cut into several.",
                                           ge=1)] = default(None)
    algorithm: Annotated[Literal["nvls", "sharp"], Knob("What `collective.choice: auto` may choose here: nvls, NPUs "
                                                        "that read and write through the switch; sharp, trees of "
                                                        "switches.")] = "nvls"
