"""Which time of a linked trace no recorded operator, call or kernel accounts for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from astrarium.profile.link.comm import annotated
from astrarium.profile.link.nodes import GAP, Draft, Order
from astrarium.profile.link.records import Host
from astrarium.profile.link.replay import Replayed
from astrarium.profile.link.threads import IDLE, OPERATOR, REST

__all__ = ["unexplained"]

I64 = npt.NDArray[np.int64]


def unexplained(operators: Host, draft: Draft, order: Order, result: Replayed) -> I64:
    """[places] ns of each node that are unexplained: idle time of streams and of threads outside operators, time in
    nothing but a user's annotation or a profiler step, and what waits have got because nothing else explains it."""
    part = np.frombuffer(draft.part, np.int8)[order.node] if len(draft) else np.zeros(0, np.int8)
    of = np.frombuffer(draft.of, np.int64)[order.node] if len(draft) else np.zeros(0, np.int64)
    region = np.zeros(len(operators.name) + 1, np.bool_)       # the last is for calls
    for number, name in enumerate(operators.name):
        region[number] = name.startswith("ProfilerStep#") or (number in operators.annotations
                                                              and annotated(name) is None)
    within = ((part == OPERATOR) | (part == REST)) & region[np.clip(of, -1, len(operators.name))]
    return np.where(within | (part == GAP) | (part == IDLE), result.duration, result.added)
