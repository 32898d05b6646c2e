"""The large cases on which ASTRA-sim was measured, rebuilt, and what it took there.

Source of the figures: ASTRA-sim at commit 518bd51, one thread, on a 2-core x86-64 machine under load (repeat noise
about +-15 %). `user_s` is its user CPU time; where only user + system time was kept, the comment says so. Makespans are
ASTRA-sim's own; a case whose trace sizes are not known has none here, and the same number of events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astrarium.trace import TraceBuilder
from astrarium.vocab import CommOp

__all__ = ["CASES", "Case", "MiB", "flags", "one"]

Dim = tuple[str, int, float, float]  # topology, NPUs, "GB/s" of 2^30 bytes, ns
RING_FC_SWITCH: tuple[Dim, ...] = (("Ring", 4, 400, 50), ("FullyConnected", 8, 200, 100), ("Switch", 8, 50, 500))
RING_SWITCH: tuple[Dim, ...] = (("Ring", 32, 400, 50), ("Switch", 32, 100, 300))
MiB = 1 << 20


def one(op: CommOp, size: int) -> bytes:
    """The trace of a rank that runs one collective of all ranks."""
    builder = TraceBuilder()
    builder.coll("collective", op, size)
    return builder.encode()


def compute_chain() -> bytes:
    """1,000 compute nodes in a row, 1 to 7 us each: 3,997 us."""
    builder = TraceBuilder()
    after: tuple[int, ...] = ()
    for i in range(1000):
        after = (builder.comp(f"c{i}", duration=i % 7 + 1, after=after),)
    return builder.encode()


def layers() -> bytes:
    """24 layers of a compute node and three all_reduces, in a row."""
    builder = TraceBuilder()
    after: tuple[int, ...] = ()
    for layer in range(24):
        after = (builder.comp(f"layer{layer}", duration=50, after=after),)
        for number, size in enumerate((64 * MiB, 16 * MiB, 4 * MiB)):
            after = (builder.coll(f"layer{layer}.{number}", CommOp.ALL_REDUCE, size, after=after),)
    return builder.encode()


@dataclass(frozen=True)
class Case:
    """One case: every rank runs `trace()`. `user_s` and `makespan_ns` are ASTRA-sim's, per back end."""

    name: str
    dims: tuple[Dim, ...]
    algorithms: tuple[str, ...]
    trace: Callable[[], bytes]
    user_s: dict[str, float]
    makespan_ns: dict[str, int]
    chunks: int = 4
    active: int = 1

    @property
    def npus(self) -> int:
        """Product of the dims."""
        total = 1
        for dim in self.dims:
            total *= dim[1]
        return total

    def write(self, folder: Path) -> list[str]:
        """Write ASTRA-sim's input files into `folder`; the flags that name them."""
        keys = [f"{op}-implementation" for op in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")]
        system: dict[str, Any] = {
            "scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": self.active,
            "preferred-dataset-splits": self.chunks, "collective-optimization": "localBWAware", "local-mem-bw": 1600,
            "roofline-enabled": 0, "peak-perf": 900, **dict.fromkeys(keys, self.algorithms)}
        rows = zip(("topology", "npus_count", "bandwidth", "latency"), zip(*self.dims, strict=True), strict=True)
        (folder / "system.json").write_text(json.dumps(system))
        (folder / "network.yml").write_text("".join(f"{key}: [{', '.join(map(str, row))}]\n" for key, row in rows))
        (folder / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
        data = self.trace()
        for rank in range(self.npus):
            (folder / f"w.{rank}.et").write_bytes(data)
        return flags(folder)


def flags(folder: Path, groups: bool = False) -> list[str]:
    """The drop-in command's flags for the files of a folder."""
    found = {"workload": "w", "system": "system.json", "network": "network.yml", "remote-memory": "memory.json"}
    if groups:
        found["comm-group"] = "groups.json"
    return [f"--{key}-configuration={folder / name}" for key, name in found.items()]


AR, A2A = CommOp.ALL_REDUCE, CommOp.ALL_TO_ALL
CASES: Sequence[Case] = (
    Case("z_ar_R256", (("Ring", 256, 50, 500),), ("ring",), lambda: one(AR, 64 * MiB),
         {"unaware": 0.418, "aware": 0.574}, {"unaware": 3_651_640, "aware": 3_651_640}),
    Case("z_ar_S256", (("Switch", 256, 50, 500),), ("ring",), lambda: one(AR, 64 * MiB),
         {"unaware": 0.42, "aware": 0.73}, {"unaware": 4_671_640, "aware": 7_160_440}),       # user + system
    Case("z_a2a_S256_dir", (("Switch", 256, 50, 500),), ("direct",), lambda: one(A2A, 64 * MiB),
         {"unaware": 1.35, "aware": 2.19}, {"unaware": 8_960, "aware": 1_253_360}),            # user + system
    Case("z_ar_2D_1024", RING_SWITCH, ("ring", "ring"), lambda: one(AR, 1024 * MiB),
         {"unaware": 1.134}, {"unaware": 6_808_672}),
    Case("z_ar_3D_4x8x8", RING_FC_SWITCH, ("ring", "direct", "halvingDoubling"), lambda: one(AR, 256 * MiB),
         {"unaware": 0.417}, {"unaware": 660_472}, chunks=16, active=2),
    Case("z_ar_4D_1024", (*RING_FC_SWITCH, ("Switch", 4, 25, 1000)), ("ring", "direct", "ring", "halvingDoubling"),
         lambda: one(AR, 1024 * MiB), {"unaware": 4.55}, {"unaware": 2_632_936}, chunks=16, active=2),   # user + system
    Case("z_comp_1024", RING_SWITCH, ("ring", "ring"), compute_chain,
         {"unaware": 28.11}, {"unaware": 3_997_000}),                                          # user + system
    Case("z_dag_3D_256", RING_FC_SWITCH, ("ring", "direct", "halvingDoubling"), layers,        # our sizes, its events
         {"unaware": 11.79}, {}, active=2),                                                    # user + system
)
