"""The certificate of a plan: the data with which a checker confirms that no layout of the space is better.

It has the machines as designs, the space (what is fixed, the rules that were lifted), and every layout that was looked
at with its memory and its value. `tools/check_plan.py` checks it without the planner: it enumerates the layouts by
rules of its own, computes their memory, bounds their time, and simulates those that its bounds leave. The proof is
about the model; `interval` is what measured runs say of the model's error, and is no part of the proof.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from astrarium.config import to_plain
from astrarium.config.whole import write_whole
from astrarium.errors import InputError
from astrarium.planner.explore import Explored, Trial, workload_of
from astrarium.planner.job import Job
from astrarium.planner.layout import Layout
from astrarium.planner.machine import Machine
from astrarium.planner.shortlist import Line, Shortlist
from astrarium.search.choice import jsonable

__all__ = ["FORMAT", "certificate_of", "write_certificate"]

FORMAT = "astrarium plan 1"
PARTS = tuple(Layout.__struct_fields__)


def certificate_of(job: Job, machines: Sequence[Machine], explored: Sequence[Explored], best: Line, figure: str,
                   fixed: Mapping[str, Sequence[Any]] | None, lifted: Sequence[str]) -> dict[str, Any]:
    """The certificate of a plan as plain data.

    Args:
        job, machines, explored: The job, and what was looked at on each machine.
        best: The best layout.
        figure: The figure by which layouts are ranked (`Objective.figure`).
        fixed: Part of a layout -> its only values.
        lifted: Names of the rules that were lifted.
    """
    rows = [_row(place, trial) for place, each in enumerate(explored) for trial in each.looked]
    place = next(place for place, machine in enumerate(machines)
                 if (machine.device, machine.npus) == (best.device, best.npus))
    unknown = [trial.least for each in explored for trial in each.unknown]
    return {
        "format": FORMAT, "objective": figure, "parts": list(PARTS),
        "fixed": {name: list(values) for name, values in (fixed or {}).items()}, "lifted": sorted(set(lifted)),
        "machines": [_machine(job, machine, each) for machine, each in zip(machines, explored, strict=True)],
        "best": [place, *_parts(best.layout), best.memory, best.value], "evaluated": rows,
        "bound": min(best.value, *(each.least for each in explored), *unknown),
        "interval": best.plain["interval"]}


def _machine(job: Job, machine: Machine, explored: Explored) -> dict[str, Any]:
    """A machine: its NPUs, what they may hold, and the design of one of its layouts (None: it has none)."""
    layout = next((trial.layout for trial in explored.looked if not trial.problem), None)
    design = None if layout is None else jsonable(to_plain(machine.design(workload_of(job, layout))))
    return {"device": machine.device, "npus": machine.npus, "host": machine.host, "room": machine.room,
            "design": design}


def _parts(layout: Layout) -> list[Any]:
    return [getattr(layout, name) for name in PARTS]


def _row(place: int, trial: Trial) -> list[Any]:
    known = [None if math.isnan(each) else each for each in (trial.memory, trial.value)]
    return [place, *_parts(trial.layout), *known]


def write_certificate(found: Shortlist, path: str) -> int:
    """Write the certificate of a plan that was asked to `certify` (`.gz`: compressed), whole or not at all. Returns the
    number of layouts in it. Raises InputError if the plan has none."""
    if not found.certificate:
        raise InputError(path, "there is no certificate of this plan", expected="plan(..., certify=True)")
    data = msgspec.json.encode(found.certificate)
    with write_whole(path) as stream:
        stream.write(gzip.compress(data, 6, mtime=0) if path.endswith(".gz") else data)
    return len(found.certificate["evaluated"])
