"""An engine of a plan as files that `astrarium serve` runs."""

from __future__ import annotations

import os

from astrarium import config
from astrarium.design import dump_design
from astrarium.planner.serving.service import Service
from astrarium.planner.serving.shortlist import Line
from astrarium.serving.serve import Serving

__all__ = ["write_serving"]


def write_serving(line: Line, service: Service, path: str) -> str:
    """Write a serving file of one engine of a line under its load, and its design beside it; returns the design's path.
    `serve` of the file has the figures of the line."""
    base, end = os.path.splitext(path)
    design = f"{base}.design{end or '.yaml'}"
    each, limits = line.trial.candidate, {name: service.slo.limit(name) for name in ("ttft", "tpot")}
    dump_design(each.design, design)
    serving = Serving(design=design, requests=service.stream(line.load), policy=each.policy)
    objective = {f"objective.{name}": f"{limit.most!r} ns" for name, limit in limits.items() if limit is not None}
    config.dump(config.replace_all(serving, objective), path)
    return design
