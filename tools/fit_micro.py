"""Fit a GPU of catalog/gpus.toml on one half of measured reads and copies; `astrarium validate` judges on the other.

    python tools/fit_micro.py h100_sxm ../shared/reference/h100_pytorch/micro.csv

Rows whose case has an even checksum (`micro_rows.identity`) fit, the others judge; products beside copies only judge.
Six numbers: five of the chip, each on the rows that show it (`SHOWN`), from `SHEET` on, in steps that halve; and the
time between two events, on reads of L2, the best for each choice. Least mean absolute logarithm of predicted over
measured. Prints the numbers, the errors of both halves, what each number is worth (back at its start), and the
checksums of the rows that fitted (`seen`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import ceil, log
from pathlib import Path
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from astrarium.config import decode  # noqa: E402
from astrarium.gpu import Gpu  # noqa: E402
from astrarium.validate.micro_rows import Asked, asked_of, identity  # noqa: E402
from astrarium.validate.micro_times import Device, device_of, micro_ns  # noqa: E402
from astrarium.validate.rows import Row, read_rows  # noqa: E402

Numbers = Mapping[str, float]
UNITS: Mapping[str, str] = {"hbm_bandwidth": "TB/s", "hbm_store_bandwidth": "TB/s", "unit_bandwidth": "GB/s",
                            "store_bandwidth": "GB/s", "hbm_latency": "ns"}
SHOWN = (("reads l2", ("unit_bandwidth",)), ("reads hbm", ("hbm_bandwidth", "hbm_latency")),
         ("copies l2", ("store_bandwidth",)), ("copies hbm", ("hbm_store_bandwidth",)))
"""Groups of rows, and the numbers that are fitted on them, in order."""
SHEET: Mapping[str, Numbers] = {
    "h100_sxm": {"hbm_bandwidth": 3.35, "hbm_store_bandwidth": 3.35, "unit_bandwidth": 234.2, "store_bandwidth": 58.55,
                 "hbm_latency": 223.5}}
"""HBM: data sheet; a port 128 B and a unit's stores 32 B a clock of 1.83 GHz; latency: AI_kernels (gpus.toml)."""
STEPS = (0.08, 0.04, 0.02, 0.01)
LAUNCHES = tuple(step / 20 for step in range(1, 200))      # us


class Measured(Struct, frozen=True):
    """A row: what it ran, its us, and whether it fits (or judges)."""

    asked: Asked
    us: float
    fits: bool


def measured(rows: Sequence[Row]) -> list[Measured]:
    """Reads and copies."""
    found = [(asked_of(row.values), row) for row in rows]
    return [Measured(asked, float(row.values["us"]), identity(row.values) % 2 == 0) for asked, row in found
            if asked.what in ("read", "copy")]


def times(name: str, start: Device, numbers: Numbers, rows: Sequence[Measured]) -> list[float]:
    """us of rows on a device with these numbers, without launch."""
    given = {field: f"{value:.6g} {UNITS[field]}" for field, value in numbers.items()}
    device = replace(start, gpu=decode(Gpu, {"like": name, **given}), launch=0.0)
    return [micro_ns(row.asked, device)[0] / 1e3 for row in rows]


def error(found: Sequence[float], rows: Sequence[Measured], launches: Sequence[float]) -> tuple[float, float]:
    """(mean absolute log error, launch in us) with the best of some launches."""
    return min((sum(abs(log((time + launch) / row.us)) for time, row in zip(found, rows, strict=True)) / len(rows),
                launch) for launch in launches)


def fit(name: str, start: Device, rows: Sequence[Measured]) -> tuple[float, dict[str, float]]:
    """(launch, numbers)."""
    best, launches = dict(SHEET[name]), LAUNCHES
    for group, fields in SHOWN:
        own = [row for row in rows if row.asked.group == group]
        least, launch = error(times(name, start, best, own), own, launches)
        for field, step in ((field, step) for step in STEPS for field in fields):
            for way in (1 - step, 1 + step):
                while True:
                    tried = {**best, field: best[field] * way}
                    found = error(times(name, start, tried, own), own, launches)
                    if found[0] >= least:
                        break
                    (least, launch), best = found, tried
        launches = (launch,)
        print(f"{group}: {least:.4f}, launch {launch:.2f} us, {best}", flush=True)
    return launch, best


def main(name: str, path: str) -> None:
    """Fit and print."""
    every = read_rows(path)
    rows, start = measured(every), device_of(name)
    fitting = [row for row in rows if row.fits]
    launch, numbers = fit(name, start, fitting)
    print(f"launch {launch:.2f} us, {numbers}")
    cases = {"fitted": numbers, **{f"without {field}": {**numbers, field: SHEET[name][field]} for field in UNITS}}
    for title, tried in cases.items():
        found = times(name, start, tried, rows)
        errors = [(row, abs((time + launch) / row.us - 1)) for row, time in zip(rows, found, strict=True)]
        for fits in (True, False):
            half = sorted(each for row, each in errors if row.fits == fits)
            print(f"{title}, {'fitted' if fits else 'judging'} half: {len(half)} rows, median "
                  f"{100 * median(half):.1f} %, p90 {100 * half[ceil(0.9 * (len(half) - 1))]:.1f} %", flush=True)
    print("seen =", sorted(identity(row.values) for row in every if identity(row.values) % 2 == 0
                           and row.values["what"] in ("read", "copy")))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
