"""What one server did, step by step."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from astrarium.serving.job import Step
from astrarium.serving.shape import Shape

__all__ = ["Log"]


class Log(Struct):
    """Of each step when it began and ended, its shape, and how much of it moving caches took, ps. Requests -> when the
    first step with them began (`seen`), and when the last part of their prompt was done (`prompted`)."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    moving: list[int] = field(default_factory=list)
    seen: dict[int, int] = field(default_factory=dict)
    prompted: dict[int, int] = field(default_factory=dict)

    def note(self, shape: Shape, step: Step, running: Iterable[int], start: int, end: int) -> None:
        """Add a step."""
        self.starts.append(start)
        self.ends.append(end)
        self.shapes.append(shape)
        self.moving.append(step.moving)
        for number in running:
            self.seen.setdefault(number, start)
        for job, _ in step.prompts:
            if not job.generated:
                self.prompted[job.number] = end
