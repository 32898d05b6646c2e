"""The `system` section: one NPU's runtime, which NPU runs which rank, and NPUs whose speed changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from astrarium.config import Config, Knob, Problem, default
from astrarium.units import Time

__all__ = ["NpuChange", "System"]


def _speed(change: NpuChange) -> Iterator[Problem]:
    if change.speed > 1:
        yield Problem("speed", f"{change.speed:g} is more than full speed", "0 to 1")


class NpuChange(Config, frozen=True, kw_only=True):
    """A change of the speed of an NPU's compute nodes, from a time on: slow, out of service, or back."""

    rules = (_speed,)
    at: Annotated[Time, Knob("When, since the start.")] = default("0 ns")
    npu: Annotated[int, Knob("Number of the NPU.", ge=0, lt=2**31)]
    speed: Annotated[float, Knob("Part of full speed, until the next change of this NPU: 0, it stands still, to 1.",
                                 ge=0)]


def _placement_rules(system: System) -> Iterator[Problem]:
    if isinstance(system.placement, str):
        return
    seen: dict[int, int] = {}
    for rank, npu in enumerate(system.placement):
        if npu in seen:
            yield Problem(f"placement[{rank}]", f"NPU {npu} already runs rank {seen[npu]}", "an NPU for every rank")
        seen.setdefault(npu, rank)


class System(Config, frozen=True, kw_only=True):
    """Nodes of each kind that an NPU runs at once, the NPU of each rank, and NPUs that are slow or out of service."""

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
    changes: Annotated[Sequence[NpuChange], Knob("NPUs whose speed changes while the design runs.")] = ()

    def lanes(self, process_groups: int) -> tuple[int, int, int, int, int]:
        """Nodes in flight at once per engine lane: compute, comm, host, p2p, copy. `process_groups`: the most that a
        rank of the workload communicates in, which `comm_streams: auto` takes."""
        comm = max(1, process_groups) if isinstance(self.comm_streams, str) else self.comm_streams
        return self.compute_streams, comm, self.cpu_threads, self.p2p_streams, self.copy_streams

    def npu_of(self, rank: int) -> int:
        """The NPU that runs `rank`."""
        return rank if isinstance(self.placement, str) else self.placement[rank]
