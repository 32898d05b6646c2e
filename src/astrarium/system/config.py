"""The `system` section: one NPU's runtime, and which NPU runs which rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from astrarium.config import Config, Knob, Problem

__all__ = ["System"]


def _placement_rules(system: System) -> Iterator[Problem]:
    if isinstance(system.placement, str):
        return
    seen: dict[int, int] = {}
    for rank, npu in enumerate(system.placement):
        if npu in seen:
            yield Problem(f"placement[{rank}]", f"NPU {npu} already runs rank {seen[npu]}", "an NPU for every rank")
        seen.setdefault(npu, rank)


class System(Config, frozen=True, kw_only=True):
    """How many nodes of each kind an NPU runs at once, and where ranks sit."""

    rules = (_placement_rules,)
    compute_streams: Annotated[int, Knob("Compute nodes in flight on one NPU.", ge=1, lt=2**31)] = 1
    comm_streams: Annotated[int, Knob("Collectives in flight on one NPU.", ge=1, lt=2**31)] = 1
    p2p_streams: Annotated[int, Knob("Sends in flight on one NPU.", ge=1, lt=2**31)] = 1
    copy_streams: Annotated[int, Knob("Remote memory accesses in flight on one NPU.", ge=1, lt=2**31)] = 1
    cpu_threads: Annotated[int, Knob("Host nodes in flight for one NPU.", ge=1, lt=2**31)] = 1
    placement: Annotated[Literal["identity"] | Sequence[int],
                         Knob("NPU of every rank, or `identity`: rank r on NPU r.", ge=0)] = "identity"

    @property
    def lanes(self) -> tuple[int, int, int, int, int]:
        """Nodes in flight at once per engine lane: compute, comm, host, p2p, copy."""
        return self.compute_streams, self.comm_streams, self.cpu_threads, self.p2p_streams, self.copy_streams

    def npu_of(self, rank: int) -> int:
        """The NPU that runs `rank`."""
        return rank if isinstance(self.placement, str) else self.placement[rank]
