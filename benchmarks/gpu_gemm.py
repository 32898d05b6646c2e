"""Errors of simulated matrix products against measured ones: bf16 on A100 and H100, nothing of it fitted.

    python benchmarks/gpu_gemm.py [--device h100_sxm] [--rows]

Rows: `data/gpu_gemm.csv`, from the tables of PyPI `aiconfigurator-core` 0.12.0 (NVIDIA, Apache-2.0;
systems/data/*/gemm/vllm/*/gemm_perf.parquet: PyTorch's linear, so the vendor's library): all products with m of 1024,
2048 or 4096, n and k of 1024 to 8192 in powers of two, of at most 4096^3. The simulated product has tiles of 128 x 256,
the peak of the data sheet and an efficiency of 1. The library takes other tiles, or splits k, where those leave units
idle: such rows are apart (`few tiles`: less than nine tenths of the units have one).
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src")]

from astrarium import catalog  # noqa: E402
from astrarium.config import decode  # noqa: E402
from astrarium.gpu import Gemm, Gpu, gemm_launch  # noqa: E402
from astrarium.gpu.engine import run_launch  # noqa: E402

DATA = ROOT / "benchmarks/data/gpu_gemm.csv"


def rows(device: str) -> list[dict[str, str]]:
    """The measured products of a device."""
    with DATA.open(encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["device"] == device]


def error(row: dict[str, str]) -> tuple[bool, float]:
    """(whether its tiles are few, simulated / measured - 1) of a row."""
    gpu, peak = decode(Gpu, {"like": row["device"]}), catalog.device(row["device"]).peak("bf16")
    launch = gemm_launch(Gemm(m=int(row["m"]), n=int(row["n"]), k=int(row["k"]), peak=peak), gpu)
    time = run_launch(launch).makespan / 1e6
    return len(launch.grids[0]) < 0.9 * gpu.units, time / float(row["time_us"]) - 1


def main() -> None:
    """Print one line per device and group, with --rows one per row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", nargs="+", default=["a100_sxm_80gb", "h100_sxm"])
    parser.add_argument("--rows", action="store_true")
    asked = parser.parse_args()
    for device in asked.device:
        found = [(row, *error(row)) for row in rows(device)]
        for row, few, off in found if asked.rows else ():
            print(f"{device:14} {row['m']:>5} x {row['n']:>5} x {row['k']:>5} {row['time_us']:>9} us "
                  f"{100 * off:+6.1f} %{'  few tiles' if few else ''}")
        for name, some in ("enough tiles", False), ("few tiles", True):
            group = [off for _, few, off in found if few == some]
            sizes = sorted(map(abs, group))
            print(f"{device:14} {name:12} {len(group):3} rows: error {100 * statistics.median(sizes):.1f} % (median), "
                  f"{100 * statistics.quantiles(sizes, n=10)[-1]:.1f} % (90th percentile), {100 * min(group):+.1f} to "
                  f"{100 * max(group):+.1f} %")


if __name__ == "__main__":
    main()
