"""Traces whose communication takes its recorded time: nobody is waited for, so groups and peers need not be there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from astrarium.compute.config import replays_all
from astrarium.design import Design
from astrarium.trace.columns import Traces

__all__ = ["replays_everything", "without_peers"]


def replays_everything(design: Design) -> bool:
    """Whether every node of every NPU takes its recorded time."""
    models = [design.compute, *(kind.compute for kind in design.npu_types if kind.compute is not None)]
    return all(map(replays_all, models))


def without_peers(traces: Traces) -> Traces:
    """The same nodes, with collectives among all ranks and messages to oneself: one rank of a larger job can then run
    without the others."""
    classes = []
    for number, columns in enumerate(traces.classes):
        rank = np.broadcast_to(traces.members(number).astype(np.int64)[:, None], columns.group.shape)
        classes.append(replace(columns, group=np.full_like(columns.group, -1), source=rank, destination=rank,
                               tag=np.zeros_like(columns.tag)))
    return replace(traces, classes=tuple(classes))
