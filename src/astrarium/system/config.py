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
    comm_streams: Annotated[Literal["auto"] | int, Knob(
        "Collectives in flight on one NPU; `auto`: as many as the process groups that a rank communicates in, which "
        "have a stream each in PyTorch; 1 under compat: astra_sim.", ge=1, lt=2**31)] = "auto"
    p2p_streams: Annotated[int, Knob("Sends in flight on one NPU.", ge=1, lt=2**31)] = 1
    copy_streams: Annotated[int, Knob("Remote memory accesses in flight on one NPU.", ge=1, lt=2**31)] = 1
    cpu_threads: Annotated[int, Knob("Host nodes in flight for one NPU.", ge=1, lt=2**31)] = 1
    placement: Annotated[Literal["identity"] | Sequence[int],
                         Knob("NPU of every rank, or `identity`: rank r on NPU r.", ge=0)] = "identity"

    def lanes(self, process_groups: int) -> tuple[int, int, int, int, int]:
        """Nodes in flight at once per engine lane: compute, comm, host, p2p, copy. `process_groups`: the most that a
        rank of the workload communicates in, which `comm_streams: auto` takes."""
        comm = max(1, process_groups) if isinstance(self.comm_streams, str) else self.comm_streams
        return self.compute_streams, comm, self.cpu_threads, self.p2p_streams, self.copy_streams

    def npu_of(self, rank: int) -> int:
        """The NPU that runs `rank`."""
        return rank if isinstance(self.placement, str) else self.placement[rank]
