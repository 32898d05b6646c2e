"""One rank's replay of its recorded operators: checks, repeated runs, the times of each item."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.profile.execute.comm import Wire
from astrarium.profile.execute.group import Group
from astrarium.profile.execute.real.kernels import kernels_of
from astrarium.profile.execute.real.plan import Plan
from astrarium.profile.execute.real.report import most_bytes, refuse_faults
from astrarium.profile.execute.real.runner import Runner
from astrarium.trace._torch import torch_module
from astrarium.units import format_bytes

__all__ = ["Times", "new_durations", "replay_operators"]

Progress = Callable[[str], None]


class Times(Struct, frozen=True):
    """`makespan`: [runs] seconds, of the rank that took longest; `taken`: item -> [runs][its GPU operations] us, on a
    CPU of one number each. `device`: what it ran on; `gpu`: whether that is a GPU, where
    `allocated`: most bytes that PyTorch had."""

    makespan: list[float]
    taken: dict[int, list[list[float]]]
    device: str
    gpu: bool
    allocated: int = 0


def replay_operators(plan: Plan, group: Group, *, repeat: int, skip: bool, progress: Progress) -> Times:
    """Runs the plan once to warm up and `repeat` times; on a GPU `repeat` times more under a profiler, for its kernels.

    With `skip` items that cannot run take their recorded time. Raises InputError before the first run otherwise, and
    where memory does not suffice.
    """
    if not skip:
        refuse_faults(plan)
    _refuse_memory(plan, group)
    total, turn = len(plan.items), [0]
    runs = 1 + repeat * (2 if group.device == "cuda" else 1)
    runner = Runner(plan, group.device, Wire(plan.program, group.device),
                    lambda place: progress(f"run {turn[0]} of {runs}: {place:,} of {total:,} operators"))

    def run(marks: bool = False) -> tuple[float, dict[int, float]]:
        turn[0] += 1
        runner.begin()
        group.barrier()
        seconds, taken = runner.once(marks=marks)
        return group.longest(seconds), taken

    run()
    found = [run() for _ in range(repeat)]
    if group.device == "cuda":
        taken = _profiled(lambda: [run(marks=True) for _ in range(repeat)], plan.source)
        if not taken:
            raise InputError(plan.source, "PyTorch's profiler saw no kernel of its replay",
                             expected="a profiler that may read the GPU's counters (CUPTI)")
    else:
        taken = defaultdict[int, list[list[float]]](list)
        for _, each in found:
            for place, seconds in each.items():
                taken[place].append([seconds * 1e6])
    gpu = group.device == "cuda"
    return Times([seconds for seconds, _ in found], dict(taken), _name(group.device), gpu,
                 torch_module().cuda.max_memory_allocated() if gpu else 0)


def _profiled(runs: Callable[[], Any], where: str) -> dict[int, list[list[float]]]:
    profiler = torch_module("torch.profiler")
    with tempfile.TemporaryDirectory() as folder:
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]) as profile:
            runs()
        path = Path(folder) / "replay.json"
        profile.export_chrome_trace(str(path))
        return kernels_of(path.read_bytes(), f"{where}: profile of its replay")


def _name(device: str) -> str:
    torch = torch_module()
    what = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    return f"{what}, PyTorch {torch.__version__}"


def _refuse_memory(plan: Plan, group: Group) -> None:
    free = torch_module().cuda.mem_get_info()[0] if group.device == "cuda" else _free() // group.here
    most = most_bytes(plan, group.device)
    if most > free:
        raise InputError(plan.source, f"its tensors take {format_bytes(most)} at a time on {group.device}, "
                         f"{format_bytes(free)} are free", expected="a recording that fits this device")


def _free() -> int:
    """Bytes of memory that this machine can still give."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def new_durations(plan: Plan, times: Times) -> tuple[dict[int, int], int]:
    """(node -> us, items whose number of kernels is another than recorded).

    The k-th GPU operation of an item gets the median of the k-th measured. If there are more or fewer than recorded,
    and on a CPU, the recorded ones are scaled to the measured sum. Messages that go on together each get the time of
    all. Whole us: what rounding leaves goes to the next node, so that sums stay.
    """
    out, other, left = dict[int, int](), 0, 0.0
    for place, item in enumerate(plan.items):
        runs = times.taken.get(place)
        if not runs:
            continue
        nodes = sorted(item.nodes)
        if item.more:
            found = [statistics.median(sum(run) for run in runs)] * len(nodes)
        elif all(len(run) == len(nodes) for run in runs):
            found = [statistics.median(several) for several in zip(*runs, strict=True)]
        else:
            other += times.gpu
            recorded = [max(plan.durations[node], 0) for node in nodes]
            parts = recorded if sum(recorded) else [1] * len(nodes)
            scale = statistics.median(sum(run) for run in runs) / sum(parts)
            found = [each * scale for each in parts]
        for node, micros in zip(nodes, found, strict=True):
            left += micros
            out[node] = max(round(left), 1 if item.lane else 0)
            left -= out[node]
    return out, other
