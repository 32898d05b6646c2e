"""A request on a server, and the choice of one step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from astrarium.serving.cache import Held

__all__ = ["Job", "Step"]


class Job(Struct, eq=False):
    """A request in progress. `todo` tokens must be in the cache before it gives a token: its prompt, and after a
    preemption what it had generated; `done` of them are. While it decodes, `done` and `generated` are those of the
    moment at which it joined the batch (`Batch.progress` brings them up to date).

    `segments` (key, end in tokens) of what it shares with others, the last one open; `told`: whether others may find
    blocks of its prompt before it ends. `target`: the server that its cache goes to. `order`: its place in the queue.
    `last`: when it got its last token, ps; `came`: when it came to its server. `cached`: tokens of its prompt that were
    in the cache or a tier at first. `rank` of dp on which it is.
    """

    number: int
    prompt: int
    output: int
    todo: int
    segments: Sequence[tuple[int, int]] = ()
    told: bool = False
    priority: int = 0
    order: int = 0
    done: int = 0
    generated: int = 0
    held: Held = field(default_factory=Held)
    preempted: int = 0
    target: int = 0
    last: int = 0
    came: int = 0
    cached: int | None = None
    rank: int = 0
    joined: int = -1
    ends: int = 0
    given: npt.NDArray[np.int64] | None = None

    @property
    def ready(self) -> bool:
        """Whether its next token needs one more token in the cache, and nothing else."""
        return self.generated > 0 and self.done == self.prompt + self.generated - 1


class Step(Struct, frozen=True):
    """Whether the batch decodes, (job, tokens) of prompts, and ps that moving caches takes before it."""

    decode: bool
    prompts: Sequence[tuple[Job, int]] = ()
    moving: int = 0
