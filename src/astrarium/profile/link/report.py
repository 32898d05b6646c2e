"""What linking found and did not find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from astrarium.trace.linked import headline

__all__ = ["LinkReport"]


@dataclass(frozen=True)
class LinkReport:
    """Counts of one linked rank. Times in microseconds."""

    rank: int
    gap_share: float                     # of the replay's critical path: time that nothing recorded accounts for
    schema: str | None                   # of the host trace
    nodes: int
    host_nodes: int                      # of the host trace
    operators: int                       # of the device trace, annotations among them
    joined: int                          # host nodes with a time
    joined_by: str                       # "rf_id", "name and order" or "nothing"
    host_threads: int
    gpu_operations: int                  # kernels and copies
    gpu_memsets: int
    streams: int
    launched: int                        # GPU operations whose launching call was found
    stream_waits: int                    # waits of one stream for another
    stream_waits_inferred: int           # of these, those that follow from times only
    host_waits: int                      # calls that waited for GPU work
    host_spins: int                      # of these, those that were spent polling, which follow from times only
    spins_us: float                      # their time
    thread_waits: int                    # stretches in which the main thread waited for another
    communications: Mapping[str, int]    # by operation; `all_reduce (reduce_scatter)`: run for that
    groups: int
    measured_us: float                   # first begin to last end
    replayed_us: float                   # what replay will give
    unexplained_us: float                # host time after waits that no dependency explains
    gaps_us: float                       # idle time of streams that no dependency explains, in nodes of its own
    idle_us: float                       # host time of the main thread outside operators
    missing: tuple[str, ...] = field(default=())
    warnings: tuple[str, ...] = field(default=())      # what makes the whole trace doubtful

    def plain(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {**asdict(self), "communications": dict(self.communications), "missing": list(self.missing),
                "warnings": list(self.warnings)}

    def _spins(self) -> str:
        """The waits that were inferred from times, if there are any."""
        if not self.host_spins:
            return ""
        return f" ({self.host_spins} by polling, inferred from times, {self.spins_us / 1000:.3f} ms)"

    def lines(self) -> list[str]:
        """The report for people."""
        comms = ", ".join(f"{count} {name}" for name, count in self.communications.items()) or "none"
        parts = [f"WARNING: {what}" for what in self.warnings]
        parts += [headline(self.gap_share)] if self.measured_us else []
        parts += [f"rank {self.rank}: {self.nodes:,} nodes from {self.host_nodes:,} host nodes, {self.operators:,} "
                 f"timed operators and {self.gpu_operations + self.gpu_memsets:,} GPU operations"]
        if self.operators:
            parts += [f"joined: {self.joined:,} host nodes by {self.joined_by}; {self.launched:,} GPU operations to "
                      "their launching calls",
                      f"{self.host_threads} host threads, {self.streams} streams; waits: {self.stream_waits} between "
                      f"streams ({self.stream_waits_inferred} inferred from times), {self.host_waits} of the host for "
                      f"the GPU{self._spins()}, {self.thread_waits} between threads"]
        parts.append(f"communications: {comms}; {self.groups} groups")
        if self.measured_us:
            parts.append(f"measured {self.measured_us / 1000:.3f} ms, replay {self.replayed_us / 1000:.3f} ms (by "
                         f"construction); unexplained host time {self.unexplained_us / 1000:.3f} ms, idle time of "
                         f"streams {self.gaps_us / 1000:.3f} ms")
        return parts + [f"missing: {what}" for what in self.missing]
