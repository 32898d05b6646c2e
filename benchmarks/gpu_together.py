"""Two collectives on eight h100_sxm at once (NCCL's kernels, both start together), against the two things that a design
can say: each as fast as alone, and one after the other. The table of docs/background/gpu_hardware.md."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "src")]

from astrarium.config import decode  # noqa: E402
from astrarium.gpu import Gpu, kernel_launch, library_kernels  # noqa: E402
from astrarium.gpu.engine import Launch, run_launch, together  # noqa: E402
from astrarium.vocab import CommOp  # noqa: E402

DEVICE, GPUS, KIB = "h100_sxm", 8, 1 << 10
PAIRS = ((("all_reduce", 64), ("all_gather", 64)), (("all_reduce", 1024), ("all_gather", 1024)),
         (("all_reduce", 1024), ("reduce_scatter", 16384)), (("all_reduce", 16384), ("all_gather", 16384)),
         (("all_gather", 65536), ("reduce_scatter", 65536)))


def fastest(op: str, kib: int, gpu: Gpu) -> tuple[int, Launch]:
    """(ps, launch) of the fastest of NCCL's kernels."""
    meant, size = CommOp[op.upper()], kib * KIB
    launches = [kernel_launch(meant, size, GPUS, gpu, each)
                for each in library_kernels("nccl", DEVICE, meant, size, GPUS)]
    return min([(run_launch(each).makespan, each) for each in launches], key=lambda found: found[0])


def main() -> None:
    """Print a row per pair."""
    gpu = decode(Gpu, {"like": DEVICE})
    print(f"{'us':45} {'alone':>13} {'at once':>13}  as alone  one by one")
    for pair in PAIRS:
        (one, first), (two, second) = (fastest(op, kib, gpu) for op, kib in pair)
        ends = run_launch(together([first, second])).workgroup_ends[0]
        count = len(first.grids[0])
        both = int(ends[:count].max()), int(ends[count:].max())
        name = ", ".join(f"{op} {kib} KiB" for op, kib in pair)
        print(f"{name:45} {one / 1e6:6.1f} {two / 1e6:6.1f} {both[0] / 1e6:6.1f} {both[1] / 1e6:6.1f}  "
              f"{max(one, two) / max(both) - 1:+8.0%}  {(one + two) / max(both) - 1:+10.0%}")


if __name__ == "__main__":
    main()
