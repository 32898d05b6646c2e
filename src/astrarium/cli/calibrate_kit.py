"""`astrarium calibrate --measure -o FILE`: a stated kit measured on the device at hand, and the file of the device."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from astrarium.cli.arguments import note
from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.compute.kernels import Machine
    from astrarium.compute.kit.device import Base, Device
    from astrarium.compute.kit.session import Progress, Session

__all__ = ["run_kit"]

LIMIT = 600.0       # seconds that a run measures at most
EVERY = 5.0         # seconds between two remarks on progress


def run_kit(options: argparse.Namespace, given: str | Machine | None) -> int:
    """Measure, calibrate, write; 0. `given`: what flags say of the device; None: its name tells, or its rows do."""
    if options.out is None:
        raise InputError("--out", "is missing", expected="the device file that --measure makes")
    limit = LIMIT if options.limit is None else options.limit
    if not limit > 0:
        raise InputError("--limit", f"{limit:g}", expected="seconds, more than 0")
    from astrarium.compute.kit.cases import cpu_cases, gpu_cases
    from astrarium.compute.kit.device import base_of, device_of, device_text
    from astrarium.compute.kit.probe import driver_of, probed, torch_here
    from astrarium.compute.kit.run import idle_watts, run_case
    from astrarium.compute.kit.session import measure, rows_of
    from astrarium.compute.timings import read_timings
    from astrarium.config.whole import write_whole

    torch = torch_here("calibrate --measure")
    found = probed(torch)
    driver, rows = driver_of(torch, found), options.rows or os.path.splitext(options.out)[0] + ".rows.csv"
    cases = gpu_cases(found.fp8) if found.device == "cuda" else cpu_cases()
    note(f"{found.name} ({found.versions}): {len(cases)} rows, at most {limit:g} s, into {rows}")
    if driver.missing:
        note(driver.missing)
    idle = idle_watts(driver)
    try:
        session = measure(cases, rows, f"{found.name}; {found.versions}",
                          lambda case: run_case(torch, case, found, driver), limit, _remarks())
    except KeyboardInterrupt:
        note(f"interrupted: {rows} has the measured rows; the same command continues")
        raise
    for line in _said(session):
        note(line)
    timings = read_timings(rows)
    base = base_of(found, timings) if given is None else _base(given)
    device = device_of(found, driver, rows_of(rows), timings, base, idle, _operators())
    lines = list(_lines(device))
    for line in lines:
        note(line)
    name, text = device_text(device, datetime.now(timezone.utc).strftime("%Y-%m-%d"), lines)
    with write_whole(options.out) as file:
        file.write(text.encode())
    note(f"wrote {options.out}: device {name}")
    return 0


def _remarks() -> Callable[[Progress], None]:
    last = [time.monotonic()]

    def say(now: Progress) -> None:
        if time.monotonic() - last[0] >= EVERY:
            last[0] = time.monotonic()
            note(f"{now.done} of {now.total} rows, {now.seconds:.0f} s of {now.budget:g} s")

    return say


def _said(session: Session) -> Iterator[str]:
    """What was measured, and what was not."""
    before = f", {session.before} were there" if session.before else ""
    yield f"{session.measured} rows measured{before}"
    if session.left:
        yield f"{session.left} rows left: the time is over; the same command goes on with them"
    for why, count in sorted(session.skipped.items(), key=lambda pair: -pair[1]):
        yield f"not measured: {count} rows: {why}"


def _base(given: str | Machine) -> Base:
    """What flags say."""
    from astrarium import catalog
    from astrarium.compute.kit.device import Base

    if not isinstance(given, str):
        return Base(given, "--peak, --bandwidth, --units")
    return Base(given, f"--base {given}", given if given in catalog.load("devices") else "")


def _operators() -> int:
    """Operators of the step that rows of kind `host` time: as many ms as a run takes whose operators take one each."""
    from astrarium.compute.kit.host import FFN, HEADS, HIDDEN, LAYERS, LENGTH, VOCAB
    from astrarium.config import decode
    from astrarium.design import Design
    from astrarium.simulate import simulate

    model = {"family": "decoder", "layers": LAYERS, "d_model": HIDDEN, "heads": HEADS, "ffn": FFN, "vocab": VOCAB,
             "seq": LENGTH, "tied_embeddings": True}
    design = decode(Design, {
        "stack": "pytorch", "compute": {"like": "h100_sxm", "clock": 1.0}, "memory": "h100_sxm",
        "network": {"dims": [{"shape": "switch", "npus": 1, "latency": "0 ns", "bandwidth": "1 GB/s"}]},
        "workload": {"source": "transformer", "global_batch": 1, "model": model, "software": {"host_launch": "1 ms"}}})
    return round(simulate(design, record=False).makespan_ps / 1e9)


def _lines(device: Device) -> Iterator[str]:
    """The device and its errors in words."""
    from astrarium.compute.calibration import unseen_errors
    from astrarium.validate.calibrate import class_sentence

    found = device.calibration
    yield f"base: {device.base.why}"
    fast, wide = device.rates
    yield (f"{device.found.memory / 2**30:.1f} GiB of memory; products in bf16 reach {fast / 1e3:.4g} TFLOP/s"
           + (f", streams beyond the cache {wide:.4g} GB/s" if wide else ""))
    if device.dropped:
        yield f"{device.dropped} rows are of formats that the base has no peak of, and are not used"
    errors = unseen_errors(found)
    yield from (class_sentence(name, count, errors.get(name)) for name, count in found.counts.items())
    if found.chip is not None:
        chip = found.chip
        yield (f"clock: {chip.flop * 1e3:.3g} pJ a flop in bf16 at {chip.highest:.4g} GHz, {chip.limit:g} W, "
               f"{chip.idle:.0f} W at rest (H100's W of a busy unit and J of a byte: assumed)")
    elif device.found.device == "cuda":
        yield "clock: no product met the power limit at a known clock: sustained clocks are unknown"
    if device.operator:
        yield (f"host: {device.operator / 1e3:.4g} us an operator of eager PyTorch, {device.gap / 1e3:.3g} us between "
               "kernels")
