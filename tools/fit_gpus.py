#!/usr/bin/env python3
"""Fit what no source says of a GPU of `catalog/gpus.toml`: `tools/fit_gpus.py DEVICE [DRAWS]`; prints columns.

Rows: `benchmarks/data/gpu_collectives.csv`. Fitted are all_reduces whose size is a power of four, without those of
TensorRT-LLM on eight GPUs; of MSCCL++ one row, for its launch. The others judge (`benchmarks/gpu_hardware.py`).

First the chip, on all_reduces of inference engines (4 and 8 GPUs; MI300X: 2 and 4) and TensorRT-LLM (2 and 4): link
latency, fence, overhead of a packet (those that the row calls calibrated), requests outstanding in a unit, and one time
of launch. Then, where there are rows, NCCL's all_reduce on eight GPUs, with that chip: its launch, the cost of a step
of LL and of LL128 and Simple, wavefronts of LL128, unrolling of Simple. Least mean absolute log error; the best two of
the row's own set and DRAWS drawn ones (seed 1), each then improved one number at a time.
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from astrarium import catalog  # noqa: E402
from astrarium.config import decode  # noqa: E402
from astrarium.gpu import Gpu, Kernels, kernel_time  # noqa: E402
from astrarium.gpu.kernels.libraries import LIBRARIES  # noqa: E402
from astrarium.vocab import CommOp  # noqa: E402

Numbers = Mapping[str, float]
Fit = tuple[float, float, dict[str, float]]     # error, us of launch, numbers
MSCCLPP = 24 << 10       # size of the fitted row of MSCCL++
CHIP = {"link_latency": (150.0, 1200.0), "fence": (1.0, 1500.0), "header": (16.0, 64.0), "outstanding": (128.0, 800.0)}
UNITS = {"link_latency": "ns", "fence": "ns", "header": "B"}
NCCL: Mapping[str, Sequence[float]] = {
    "ll": range(0, 700, 50), "rest": range(0, 1000, 50), "wavefronts": (2, 3, 4, 6, 8, 12, 16), "unroll": (1, 2, 4)}


@dataclass(frozen=True)
class Row:
    """A measurement, us."""

    device: str
    library: str
    op: CommOp
    gpus: int
    size: int
    us: float

    @property
    def fitted(self) -> bool:
        """Whether numbers of the catalog were fitted on it."""
        if self.library == "mscclpp":
            return self.size == MSCCLPP
        judges = self.op != CommOp.ALL_REDUCE or (self.gpus == 8 and self.library == "trtllm")
        return self.size.bit_length() % 2 == 1 and not judges


def rows() -> list[Row]:
    """All measurements."""
    with (ROOT / "benchmarks/data/gpu_collectives.csv").open(encoding="utf-8") as file:
        return [Row(row["device"], row["library"], CommOp[row["op"].upper()], int(row["gpus"]), int(row["size_B"]),
                    float(row["time_us"])) for row in csv.DictReader(file)]


def gpu_of(device: str, numbers: Numbers) -> Gpu:
    """The catalog's GPU with other numbers."""
    most = round(numbers["outstanding"])
    given = {name: f"{value:.0f} {UNITS[name]}" for name, value in numbers.items() if name in UNITS}
    return decode(Gpu, {"like": device, **given, "outstanding_unit": most, "outstanding_workgroup": most,
                        "outstanding_wavefront": min(most, 256)})


def spans(device: str) -> Mapping[str, tuple[float, float]]:
    """Of the chip's numbers, those that the device's row calls calibrated, each with least and most."""
    fitted = catalog.row_of("gpus", device)["calibrated"]
    return {name: span for name, span in CHIP.items() if name not in UNITS or name in fitted}


def best_launch(times: Sequence[float], measured: Sequence[Row]) -> tuple[float, float]:
    """(mean absolute log error, launch in us) of the best launch, which every time gets."""
    def error(launch: float) -> float:
        return sum(abs(log((time + launch) / row.us)) for time, row in zip(times, measured, strict=True)) / len(times)

    return min((error(step / 20), step / 20) for step in range(300))


def chip_fit(device: str, measured: Sequence[Row], draws: int) -> Fit:
    """The chip's numbers."""
    def judge(numbers: dict[str, float]) -> Fit:
        gpu = gpu_of(device, numbers)
        times = [us(row, gpu, decode(Kernels, LIBRARIES[row.library](row.op, row.size, row.gpus)[0]))
                 for row in measured]
        return (*best_launch(times, measured), numbers)

    chance, ranges = random.Random(1), spans(device)
    now = decode(Gpu, {"like": device})
    present = {name: round(float(getattr(now, "outstanding_unit" if name == "outstanding" else name)))
               for name in ranges}
    drawn = sorted(map(judge, [present, *({name: round(chance.uniform(*span)) for name, span in ranges.items()}
                                          for _ in range(draws))]), key=lambda fit: fit[0])
    return min((improved(fit, judge, ranges) for fit in drawn[:2]), key=lambda fit: fit[0])


def improved(fit: Fit, judge: Callable[[dict[str, float]], Fit], ranges: Mapping[str, tuple[float, float]]) -> Fit:
    """One number after the other, in steps that halve."""
    for part in (8, 16, 32, 64, 128):
        for name, (least, most) in ranges.items():
            for step in (-(most - least) / part, (most - least) / part):
                while True:
                    other = judge({**fit[2], name: round(max(least, min(fit[2][name] + step, most)))})
                    if other[0] >= fit[0]:
                        break
                    fit = other
    return fit


def of_nccl(each: Mapping[str, object], numbers: Numbers) -> Kernels:
    """A ring with these numbers."""
    step = numbers["ll" if each["protocol"] == "ll" else "rest"]
    own = {"ll128": {"wavefronts": int(numbers["wavefronts"])}, "simple": {"unroll": int(numbers["unroll"])}}
    return decode(Kernels, {**each, "step": f"{step} ns", **own.get(str(each["protocol"]), {})})


def nccl_fit(gpu: Gpu, measured: Sequence[Row]) -> Fit:
    """NCCL's numbers on a chip."""
    kept: dict[tuple[Row, Kernels], float] = {}

    def time(row: Row, numbers: Numbers) -> float:
        found = []
        for each in LIBRARIES["nccl"](row.op, row.size, row.gpus):
            if each["algorithm"] != "ring":
                continue
            kernels = of_nccl(each, numbers)
            if (row, kernels) not in kept:
                kept[row, kernels] = us(row, gpu, kernels)
            found.append(kept[row, kernels])
        return min(found)

    def judge(numbers: dict[str, float]) -> Fit:
        return (*best_launch([time(row, numbers) for row in measured], measured), numbers)

    fit = judge({"ll": 100, "rest": 300, "wavefronts": 4, "unroll": 2})
    for _ in range(3):
        for name, values in NCCL.items():
            fit = min([fit, *(judge({**fit[2], name: value}) for value in values)], key=lambda each: each[0])
    return fit


def launches(gpu: Gpu, measured: Sequence[Row], nccl: Fit) -> None:
    """Print what is left: the launch of MSCCL++, of multimem, and of NCCL's NVLS (of the rows from 1 MiB on)."""
    for library in ("mscclpp", "multimem"):
        own = [row for row in measured if row.library == library]
        times = [us(row, gpu, decode(Kernels, LIBRARIES[library](row.op, row.size, row.gpus)[0])) for row in own]
        if own:
            print(f"{library}: error, launch in us: {best_launch(times, own)}")
    found = []
    for row in (row for row in measured if row.library == "nccl" and row.size >= 1 << 20):
        *rings, switch = LIBRARIES["nccl"](row.op, row.size, row.gpus)
        found.append((row.us, min(us(row, gpu, of_nccl(each, nccl[2])) for each in rings) + nccl[1],
                      us(row, gpu, decode(Kernels, switch))))
    print("NVLS: error, launch in us:", min((sum(abs(log(min(ring, own + launch) / time)) for time, ring, own in found)
                                             / len(found), launch) for launch in range(60)))


def us(row: Row, gpu: Gpu, kernels: Kernels) -> float:
    """Simulated us of a row, without launch."""
    return kernel_time(row.op, row.size, row.gpus, gpu, kernels).makespan / 1e6


def main(device: str, draws: int) -> None:
    """Fit and print."""
    catalog.row_of("gpus", device)
    measured = [row for row in rows() if row.device == device and row.fitted]
    chip = chip_fit(device, [row for row in measured if row.library in ("engine", "engine_rocm", "trtllm")], draws)
    print(f"chip: error {chip[0]:.4f}, launch {chip[1]:.2f} us, {chip[2]}", flush=True)
    if all(row.library != "nccl" for row in measured):
        return
    nccl = nccl_fit(gpu_of(device, chip[2]), [row for row in measured if row.library == "nccl"])
    print(f"NCCL: error {nccl[0]:.4f}, launch {nccl[1]:.2f} us, {nccl[2]}")
    launches(gpu_of(device, chip[2]), measured, nccl)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50)
