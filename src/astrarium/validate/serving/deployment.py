"""What a measured serving row states, in one form for every source."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from astrarium.serving.layout import Layout

__all__ = ["Deployment", "Layout", "Lengths", "numbers_of"]


def numbers_of(version: str, count: int = 2) -> tuple[int, ...]:
    """The first numbers of a version."""
    return tuple(int(each) for each in re.findall(r"\d+", version)[:count])


class Lengths(Struct, frozen=True):
    """Tokens, uniform from `low` to `high`."""

    low: int
    high: int

    @property
    def mean(self) -> float:
        """Mean tokens."""
        return (self.low + self.high) / 2


class Deployment(Struct, frozen=True):
    """Engines under a closed loop of `concurrency` requests, or, where `rates` are given, under that many requests a
    second, one rate after the other (`concurrency` is then 0).

    `prefix`: tokens that begin every prompt, one of `groups` different ones. `stack` and `version` of the engine;
    `formats` of the workload section.
    `prefill`: the layout and number of engines that prefill where the phases are apart, `engines` those that decode.
    `tokens` and `batch`: most of a step (None: the stack's default). `mixed`: prompts go into steps of decoding
    sequences, whatever the stack does. `poll`: steps between looks for new requests. `wait_steps`, `wait_share`: see
    Policy.
    `share` of memory that the engine fills. `client`: ms that the source's client adds to a first token. `assumed`:
    what the source leaves open, and what was taken; `stated`: nothing of that changes times by much.
    """

    model: str
    system: str
    stack: str
    version: str
    precision: str
    formats: Mapping[str, str | int]
    layout: Layout
    concurrency: int
    prompt: Lengths
    output: Lengths
    engines: int = 1
    prefill: tuple[Layout, int] | None = None
    tokens: int | None = None
    batch: int | None = None
    mixed: bool = False
    poll: int = 1
    wait_steps: int = 0
    wait_share: float = 1.0
    rates: tuple[float, ...] = ()
    prefix: int = 0
    groups: int = 1
    share: float | None = None
    client: float = 0.0
    assumed: tuple[str, ...] = ()
    stated: bool = True

    @property
    def npus(self) -> int:
        """NPUs in all."""
        front = self.prefill[0].npus * self.prefill[1] if self.prefill else 0
        return self.layout.npus * self.engines + front
