"""System plug-ins: algorithms chosen by size, and a policy that issues the smallest ready node id first.

`BySize` runs small all-reduces as trees (few steps) and large ones as rings (few bytes per link).
"""

from __future__ import annotations

from collections.abc import Sequence

import astrarium as ar
from astrarium import CommOp, names
from astrarium.plugins import Dim, Plugins, exam_choice, exam_scheduling


class BySize:
    """A choice of algorithms."""

    def algorithms(self, op: CommOp, size: int, npus: Sequence[int], dims: Sequence[Dim]) -> Sequence[str]:
        if op != CommOp.ALL_REDUCE:
            return ()
        return ("double_binary_tree",) if size < 1_000_000 else ("ring",)


class OldestId:
    """A scheduling policy."""

    def pick(self, rank: int, lane: int, nodes: Sequence[int], now: int) -> int:
        return 0


def main() -> None:
    exam_choice(BySize(), names("algorithm"))
    exam_scheduling(OldestId)
    network = ar.Network([ar.Switch(16, bandwidth="50 GB/s", latency="500 ns")])
    for payload in ("1 kB", "256 MB"):
        design = ar.Design(workload=ar.SingleCollective("all_reduce", payload), network=network,
                           collective=ar.Collective(all_reduce=["ring"]))
        ring = ar.simulate(design).makespan
        chosen = ar.simulate(design, plugins=Plugins(choice=BySize(), scheduling=OldestId)).makespan
        print(f"all_reduce of {payload}: ring {ring}, by size {chosen}")


if __name__ == "__main__":
    main()
