"""What a design with `collective.kernels.units` says of a product and a collective on eight h100_sxm, against one
launch of both (`gpu_overlap`, units reserved): the product by the roofline of the units that are left, and simulated
alone on them; the collective alone on its units. The table of docs/background/gpu_execution.md."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src")]

from msgspec.structs import replace  # noqa: E402

from astrarium.config import decode, load  # noqa: E402
from astrarium.gpu import Gemm, GpuOverlap, Kernels, gemm_launch, gpu_overlap, kernel_time  # noqa: E402
from astrarium.gpu.engine import run_launch  # noqa: E402
from astrarium.vocab import CommOp  # noqa: E402

PRODUCTS = ({"m": 1536, "n": 2816, "k": 1024}, {"m": 4096, "n": 4096, "k": 2048})
UNITS = (8, 24, 48)


def main() -> None:
    """Print a row per product and number of units."""
    asked = load(GpuOverlap, ROOT / "examples/gpu_overlap/overlap.yaml")
    kernels = decode(Kernels, {"algorithm": "all_pairs", "workgroups": 24, "wavefronts": 16, "places": 32})
    print("m x n x k             units  product: roofline, alone, both  collective: alone, both  us")
    for shape in PRODUCTS:
        gemm = decode(Gemm, {**shape, "precision": "bf16", "peak": "989.4 TFLOP/s"})
        flops = 2 * gemm.m * gemm.n * gemm.k
        for units in UNITS:
            left = asked.gpu.units - units
            roof = flops / (float(gemm.peak) * left / asked.gpu.units)
            alone = run_launch(gemm_launch(gemm, asked.gpu, asked.gpus, units=left)).makespan
            (both,) = gpu_overlap(replace(asked, gemm=gemm, kernels=(kernels,), units=(units,)))
            collective = kernel_time(CommOp[asked.op.upper()], float(asked.payload), asked.gpus, asked.gpu, kernels,
                                     units=units).makespan
            print(f"{gemm.m:5} x {gemm.n:5} x {gemm.k:5} {units:6} {roof / 1e3:17.1f} {alone / 1e6:6.1f} "
                  f"{both.gemm_beside / 1e6:5.1f} {collective / 1e6:18.1f} {both.collective_beside / 1e6:5.1f}")


if __name__ == "__main__":
    main()
