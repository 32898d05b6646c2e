"""Errors of simulated GPU kernels against measured collectives: per device and library, fitted and held-out rows apart.

    python benchmarks/gpu_hardware.py [--device h100_sxm] [--rows]
    python benchmarks/gpu_hardware.py --rccl              RCCL's all_reduce on eight MI300X, which is another kernel
    python benchmarks/gpu_hardware.py --tables WHEEL      write data/gpu_collectives.csv anew (needs pyarrow)

Rows: `data/gpu_collectives.csv`, from the tables of PyPI `aiconfigurator-core` 0.12.0 (NVIDIA, Apache-2.0; its
`message_size` counts 16-bit elements) and MSCCL++'s own regression files (test/deploy/perf_ndmv4 and 5.jsonl, commit
1f5f065d, MIT). `engine`: SGLang's all_reduce in a CUDA graph. `engine_rocm`: vLLM's on MI300X, tables of two pull
requests (ROCm/aiter 801, vllm-project/vllm 19744). Which rows were fitted: `tools/fit_gpus.py`. WHEEL: the
wheel, or its folder `systems/data`.

The error of a row is |simulated / measured - 1|. Targets on eight GPUs: median 10 %, 90th percentile 20 %; MSCCL++'s
rows 15 %.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections.abc import Iterable, Sequence
from math import ceil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]

from fit_gpus import Row, rows  # noqa: E402

from astrarium import catalog  # noqa: E402
from astrarium.config import decode  # noqa: E402
from astrarium.gpu import Gpu, Kernels, kernel_time, library_time  # noqa: E402
from astrarium.gpu.kernels.libraries import LIBRARIES  # noqa: E402
from astrarium.vocab import CommOp  # noqa: E402

DATA = ROOT / "benchmarks/data/gpu_collectives.csv"
FOLDERS = {"a100_sxm_80gb": ("a100_sxm", "1.0.0", "2.27.3"), "h100_sxm": ("h100_sxm", "1.3.0rc20", "2.29.2"),
           "h200_sxm": ("h200_sxm", "1.3.0rc20", "2.29.2"), "b200": ("b200_sxm", "1.3.0rc20", "2.29.2")}
"""Device -> folder of the tables, version of TensorRT-LLM, of NCCL."""
SGLANG = "0.5.10"


def simulated(row: Row) -> float:
    """us of a row's collective."""
    return library_time(row.library, row.device, row.op, row.size, row.gpus).makespan / 1e6


def spread(errors: Iterable[float]) -> tuple[int, float, float]:
    """(number, median, 90th percentile), the latter two in percent."""
    found = sorted(errors)
    return len(found), 100 * statistics.median(found), 100 * found[ceil(0.9 * (len(found) - 1))]


def table(device: str, times: Sequence[tuple[Row, float]]) -> None:
    """Errors of a device."""
    print(f"{device}\n{'library':12}{'operation':16}{'GPUs':>5}   {'fitted: n, median, p90':26}"
          "held out: n, median, p90")
    groups = sorted({(row.library, row.op.name.lower(), row.gpus) for row, _ in times})
    lines = [(*group, [pair for pair in times if (pair[0].library, pair[0].op.name.lower(), pair[0].gpus) == group])
             for group in groups]
    eight = [pair for pair in times if pair[0].gpus == 8 and pair[0].op == CommOp.ALL_REDUCE]
    lines += [("all", "all_reduce", 8, eight)] if eight else []
    for library, op, gpus, pairs in lines:
        cells = []
        for fitted in (True, False):
            errors = [abs(time / row.us - 1) for row, time in pairs if row.fitted == fitted]
            cells.append("{:3}  {:5.1f} %  {:5.1f} %".format(*spread(errors)) if errors else "")
        print(f"{library:12}{op:16}{gpus:5}   {cells[0]:26}{cells[1]}")


def rccl() -> None:
    """vLLM's two-shot kernel, as simulated for MI300X, beside RCCL's measured all_reduce on eight GPUs. Which kernels
    RCCL took is not known, so this judges nothing."""
    [settings] = LIBRARIES["engine_rocm"](CommOp.ALL_REDUCE, 8 << 20, 8)
    launch = catalog.row_of("gpus", "mi300x")["libraries"]["engine_rocm"]["launch"]
    kernels, gpu = decode(Kernels, {**settings, "launch": launch}), decode(Gpu, {"like": "mi300x"})
    with (DATA.parent / "nccl_hosts.csv").open(encoding="utf-8") as file:
        rows = [(int(row["size_B"]), float(row["time_us"])) for row in csv.DictReader(file)
                if row["host"] == "mi300x_platform"]
    for size, us in rows:
        if 1 << 20 <= size <= 256 << 20:
            time = kernel_time(CommOp.ALL_REDUCE, size, 8, gpu, kernels).makespan / 1e6
            print(f"{size >> 20:5} MiB  RCCL {us:8.1f} us, two shots {time:8.1f} us, {100 * (time / us - 1):+5.1f} %")


def write(where: Path) -> None:
    """The rows of the tables, and those of MSCCL++ that are there already."""
    from fit_collectives import tables

    with DATA.open(encoding="utf-8") as file:
        kept = [row for row in csv.reader(file) if row[1] in ("library", "mscclpp", "engine_rocm")]
    found = [[device, *row] for device in FOLDERS for row in of_device(where, *FOLDERS[device], tables)]
    with DATA.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([*kept[:1], *found, *kept[1:]])


def of_device(where: Path, folder: str, trtllm: str, nccl: str, tables: object) -> list[list[object]]:
    """Library, version, operation, GPUs, bytes, us."""
    assert callable(tables)
    found: list[list[object]] = []
    for library, name, version, most in (("engine", "sglang", SGLANG, 8 << 20),
                                         ("trtllm", "trtllm", trtllm, 512 << 10)):
        for row in tables(where, f"{folder}/comm/{name}/{version}", "custom_allreduce_perf"):
            few = row["num_gpus"] == 2 and library == "engine"
            if not few and "eager" not in row["kernel_source"] and 1024 <= 2 * row["message_size"] <= most:
                found.append([library, f"{'SGLang' if library == 'engine' else 'TensorRT-LLM'} {version}", "all_reduce",
                              row["num_gpus"], 2 * row["message_size"], round(row["latency"] * 1e3, 3)])
    for row in tables(where, f"{folder}/comm/nccl/{nccl}", "nccl_perf"):
        half = row["nccl_dtype"] == "half" and row["num_gpus"] == 8 and row["op_name"] != "alltoall"
        if half and 1024 <= 2 * row["message_size"] <= 64 << 20:
            found.append(["nccl", f"NCCL {nccl}", row["op_name"], 8, 2 * row["message_size"],
                          round(row["latency"] * 1e3, 3)])
    return sorted(found, key=lambda row: (str(row[0]), str(row[2]), int(str(row[3])), int(str(row[4]))))


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", nargs="+", choices=list(catalog.load("gpus")), default=list(catalog.load("gpus")))
    parser.add_argument("--rows", action="store_true", help="every row")
    parser.add_argument("--rccl", action="store_true", help="RCCL beside another kernel")
    parser.add_argument("--tables", type=Path)
    asked = parser.parse_args()
    if asked.rccl:
        rccl()
    if asked.tables:
        write(asked.tables)
    for device in () if asked.tables or asked.rccl else asked.device:
        times = [(row, simulated(row)) for row in rows() if row.device == device]
        table(device, times)
        for row, time in times if asked.rows else ():
            print(f"{row.library:12}{row.op.name.lower():16}{row.gpus:3}{row.size:10} B {row.us:8.2f} us measured, "
                  f"{time:8.2f} simulated, {100 * (time / row.us - 1):+6.1f} %{'' if row.fitted else ' held out'}")


if __name__ == "__main__":
    main()
