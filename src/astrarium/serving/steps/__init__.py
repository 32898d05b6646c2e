"""How long steps take: implementations of `serving.shape.StepTimes`."""

from __future__ import annotations
