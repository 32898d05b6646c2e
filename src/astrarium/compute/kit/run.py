"""One case of the kit on the device at hand: its time, or why it has none."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np

from astrarium.compute.kit.calls import backend_of, bytes_of, prepared
from astrarium.compute.kit.cases import Case
from astrarium.compute.kit.host import host_ns
from astrarium.compute.kit.probe import Driver, Found, free_bytes
from astrarium.compute.kit.timing import clocked_ns, graphed_ns, queued_ns, sustained_ns
from astrarium.errors import InputError

__all__ = ["Skipped", "Took", "idle_watts", "run_case"]

SETS = 8            # of operands at most, among which calls rotate
CACHES = 4          # L2s that the sets exceed together
SHARE = 0.8         # of free memory that operands may take
SUSTAINED_S, IDLE_S = 2.0, 0.5


class Took(NamedTuple):
    """`layout`: of the row, where running told it; `clock`, MHz, and `watts`: 0 if unknown."""

    ns: float
    layout: str = ""
    clock: float = 0.0
    watts: float = 0.0


class Skipped(Exception):       # noqa: N818
    """A case that this device or this PyTorch cannot run, and why."""


def run_case(torch: Any, case: Case, found: Found, driver: Driver) -> Took:
    """The time of a case. Raises Skipped."""
    try:
        if case.kind == "host":
            return Took(host_ns(torch, found.device))
        if case.kind == "launch":
            return Took(_launch_ns(torch, case.op))
        return _kernel(torch, case, found, driver)
    except (RuntimeError, NotImplementedError, TypeError, AttributeError) as error:
        text = str(error).strip().splitlines() or [type(error).__name__]
        if found.device == "cuda":
            _check(torch)
        raise Skipped(text[0][:160]) from None


def _check(torch: Any) -> None:
    """Raises InputError for a GPU that runs nothing any more; frees memory on others."""
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except RuntimeError as error:
        raise InputError("calibrate --measure", f"the GPU failed: {str(error).splitlines()[0]}",
                         expected="a GPU that works; the same command goes on where this one ended") from None


def _kernel(torch: Any, case: Case, found: Found, driver: Driver) -> Took:
    size, room = bytes_of(case), SHARE * free_bytes(torch, found.device)
    if size > room:
        raise Skipped(f"takes {size / 2**30:.1f} GiB, {room / 2**30:.1f} GiB are free")
    wanted = 1 if case.op == "sustained" else math.ceil(CACHES * found.l2 / max(1, size))
    sets = max(1, min(SETS, wanted, int(room // max(1, size))))
    backward = case.kind == "attention_backward" or case.op.endswith("_backward") or case.op == "adamw_fused"
    with torch.enable_grad() if backward else torch.no_grad():
        made = [prepared(torch, case, found.device) for _ in range(sets)]
        calls, graphs = [call for call, _ in made], made[0][1]
        attends = case.kind.startswith("attention") and found.device == "cuda"
        layout = backend_of(torch, case, found.device) if attends else ""
        if case.op == "sustained":
            return Took(*_reordered(sustained_ns(torch, calls, SUSTAINED_S, driver.read)))
        if found.device == "cpu":
            return Took(clocked_ns(calls), layout)
        return Took((graphed_ns if graphs else queued_ns)(torch, calls), layout)


def _reordered(found: tuple[float, float, float]) -> tuple[float, str, float, float]:
    ns, clock, watts = found
    return ns, "", clock, watts


def _launch_ns(torch: Any, op: str) -> float:
    """ns from one smallest kernel to the next: in a CUDA graph, or launched one by one ahead of the GPU."""
    small = torch.ones(1, device="cuda")
    with torch.no_grad():
        calls = [lambda: small.mul_(1.0)]
        return graphed_ns(torch, calls) if op == "graph" else queued_ns(torch, calls)


def idle_watts(driver: Driver) -> float:
    """What the GPU draws while nothing runs, W; 0 if unknown."""
    time.sleep(IDLE_S)
    found = [driver.read() for _ in range(3)]
    watts = [each[1] for each in found if each is not None]
    return float(np.median(watts)) if watts else 0.0
