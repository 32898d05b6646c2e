"""What answers a stream, as a serving file names it: entries of a fleet, and what happens to their instances."""

from __future__ import annotations

from typing import Annotated

from astrarium.config import Config, Knob, default
from astrarium.serving.policy import Policy
from astrarium.units import OptionalBandwidth, OptionalLifetime, Time

__all__ = ["Change", "Failures", "Member"]


class Member(Config, frozen=True, kw_only=True):
    """Equal instances of a fleet."""

    design: Annotated[str, Knob("The design file of one instance.", file=True)]
    count: Annotated[int, Knob("Instances.", ge=1, lt=10_001)] = 1
    policy: Annotated[Policy, Knob("How steps are filled, where that differs from the policy of the fleet.")] = Policy()
    startup: Annotated[Time, Knob("From the start of an instance until it takes requests, without reading its weights. "
                                  "None is assumed.")] = default("0 ns")
    load: Annotated[OptionalBandwidth, Knob("Bandwidth at which an instance reads the weights of all its NPUs when it "
                                            "starts. Left out: they take no time.", gt=0)] = default(None)


class Change(Config, frozen=True, kw_only=True):
    """An instance goes down, or starts. One whose first change is a start is not there before."""

    instance: Annotated[int, Knob("Number of the instance, in order of the entries.", ge=0)]
    at: Annotated[Time, Knob("When, since the start.")]
    up: Annotated[bool, Knob("false: it goes down, its caches and steps in progress are lost. true: it starts.")]


class Failures(Config, frozen=True, kw_only=True):
    """Failures at random: times between those of an NPU are exponential, and an instance fails with any of its NPUs."""

    mtbf: Annotated[OptionalLifetime, Knob("Mean time between failures of one NPU; left out: none fail. Llama 3's "
                                           "16,384 H100 had 419 unexpected interruptions in 54 days, one per 50,700 h "
                                           "of an NPU (arXiv 2407.21783).", gt=0)] = default(None)
    repair: Annotated[Time, Knob("From a failure until the instance starts again.")] = default("0 ns")
    seed: Annotated[int, Knob("Seed (NumPy's PCG64).", ge=0, lt=2**63)] = 0
