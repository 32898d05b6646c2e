"""Refuse designs whose packets may wait for each other in a circle, before they run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from astrarium.design import Design
from astrarium.engine.plan import NetworkPlan, Plan
from astrarium.errors import UnsupportedError
from astrarium.lower.senders import pairs_of
from astrarium.network.deadlock import wait_cycle
from astrarium.network.names import node_namer

__all__ = ["refuse_deadlock", "without_deadlock"]

MOST_NAMED = 16     # nodes of a circle


def without_deadlock(design: Design, plan: Plan) -> Plan:
    """`plan`. UnsupportedError, which names the nodes of a circle, where its messages may deadlock."""
    refuse_deadlock(design, plan.network, partial(pairs_of, plan))
    return plan


def refuse_deadlock(design: Design, network: NetworkPlan,
                    pairs: Callable[[], npt.NDArray[np.int64]] | None = None) -> None:
    """UnsupportedError, which names the nodes of a circle, where packets may deadlock. `pairs`: gives the nodes between
    which messages go; None: between any two NPUs."""
    packets = design.network.packets
    may_wait = packets.transport.link_buffers or packets.transport.pauses
    if network.backend != "packets" or not may_wait or packets.deadlock == "allow":
        return
    cycle = wait_cycle(network, packets.transport.pauses, pairs)
    if not cycle:
        return
    name = node_namer(design.network)
    names = [name(node) for node in cycle[:MOST_NAMED]]
    names += [f"... ({len(cycle)} in all)"] if len(cycle) > MOST_NAMED else []
    raise UnsupportedError("network.packets.deadlock", "links may wait for each other in a circle: "
                           + " -> ".join([*names, names[0]]),
                           expected="allow, or routes without a circle (network.routes)" if packets.transport.pauses
                           else "allow, or buffers without limit (network.packets.buffer: null)")
