"""CollectiveExecutor: a collective by itself, from when each participant is ready to when each is done.

One protocol for every way to find that out: message by message in an engine, remembered, and later by event, kernel,
in-network or measured table. All must enter `exam_executor`.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from astrarium.engine import execute
from astrarium.engine.plan import CollectivePlan, Kind, Lane, NetworkPlan, Plan, Policy, Program
from astrarium.engine.plugins.given import Plugins
from astrarium.engine.plugins.library import Library
from astrarium.engine.plugins.network import Network

__all__ = ["CollectiveExecutor", "Memo", "MemoExecutor", "MessageExecutor"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


class CollectiveExecutor(Protocol):
    """Times one collective with the network to itself."""

    def done(self, collective: CollectivePlan, npus: I32, ready: I64) -> I64:
        """When each participant is done, ps [n]: participant i sits on NPU `npus[i]` and is ready at `ready[i]` ps."""
        ...


class MessageExecutor(Struct, frozen=True):
    """Every message an event, in the compiled core or (`pure`) the pure-Python engine, or over a network plug-in."""

    network: NetworkPlan
    policy: Policy = field(default_factory=Policy)
    pure: bool = False
    plugin: Callable[[NetworkPlan], Network] | Library | None = None

    def done(self, collective: CollectivePlan, npus: I32, ready: I64) -> I64:
        """As `CollectiveExecutor` says. Raises what `engine.execute` raises."""
        return execute(_plan(collective, npus, ready, self), fold=False, pure=self.pure,
                       plugins=None if self.plugin is None else Plugins(network=self.plugin)).finish


Memo = MutableMapping[tuple[CollectivePlan, bytes, bytes], I64]


class MemoExecutor(Struct, frozen=True):
    """Remembers what another executor found, up to a shift in time; `memo` is the caller's."""

    inner: CollectiveExecutor
    memo: Memo

    def done(self, collective: CollectivePlan, npus: I32, ready: I64) -> I64:
        """As `CollectiveExecutor` says: participants ready d later are done d later."""
        first = int(ready.min()) if ready.size else 0
        key = (collective, npus.tobytes(), (ready - first).tobytes())
        if key not in self.memo:
            self.memo[key] = self.inner.done(collective, npus, ready - first)
        return self.memo[key] + first


def _program(ready: int) -> Program:
    """Wait until `ready`, then take part."""
    return Program(node_id=np.arange(2, dtype=np.uint64), kind=np.array([Kind.DELAY, Kind.COLLECTIVE], np.uint8),
                   lane=np.array([-1, Lane.COMM], np.int16), duration=np.array([ready, 0], np.int64),
                   busy=np.zeros(2, np.int64), size=np.zeros(2, np.int64), slot=np.array([-1, 0], np.int32),
                   parents=np.array([0, 1], np.int32), child_ptr=np.array([0, 1, 1], np.int32),
                   child=np.array([1], np.int32))


def _plan(collective: CollectivePlan, npus: I32, ready: I64, given: MessageExecutor) -> Plan:
    distinct, which = np.unique(ready, return_inverse=True)
    count, total = len(npus), 1
    for dim in given.network.dims:
        total *= dim.npus
    none = np.zeros(count, np.int32)
    return Plan(npus=total, programs=tuple(_program(int(t)) for t in distinct),
                program_of=which.astype(np.int32).reshape(-1), npu_of=npus,
                slot_ptr=np.arange(count + 1, dtype=np.int64),
                slot_a=none, slot_b=none - 1, slot_c=none, groups=(), collectives=(collective,), network=given.network,
                policy=given.policy)
