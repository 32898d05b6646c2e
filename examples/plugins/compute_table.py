"""A compute plug-in: times measured elsewhere, by the name of the node; what is not in the table runs at 400 TFLOP/s.

Two faces of the same protocol: arrays in, an array out (fast), or one node at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import astrarium as ar
from astrarium.plugins import ComputeNode, ComputeNodes, PerNode, Plugins, exam_compute

TABLE = {"qkv": 900_000_000, "attention": 1_500_000_000, "down": 700_000_000}      # ps
FLOP_PER_PS = 400


@dataclass(frozen=True)
class Measured:
    """Times in ps by name."""

    table: Mapping[str, int]

    def durations(self, nodes: ComputeNodes) -> npt.NDArray[np.int64]:
        found = np.array([self.table.get(name, -1) for name in nodes.name], np.int64)
        return np.where(found < 0, (nodes.num_ops / FLOP_PER_PS).astype(np.int64), found)


def one(node: ComputeNode) -> int:
    return TABLE.get(node.name, int(node.num_ops / FLOP_PER_PS))


def main() -> None:
    design = ar.load_design(Path(__file__).parent.parent / "quickstart" / "design.yaml")
    print(f"roofline: {ar.simulate(design).makespan}")
    for model in (Measured(TABLE), PerNode(one)):
        exam_compute(model)
        print(f"{type(model).__name__}: {ar.simulate(design, plugins=Plugins(compute=model)).makespan}")


if __name__ == "__main__":
    main()
