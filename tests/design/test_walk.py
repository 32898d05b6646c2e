"""`simulate` walks downward: from each room that it enters to a lower one, but for few steps back."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import astrarium as ar
from astrarium.trace import TraceBuilder
from astrarium.vocab import CommOp

ROOT = Path(__file__).parents[2]
PACKAGE = Path(ar.__file__).parent
LAYERS = re.findall(r'^    "(\(.*\))",$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
LEVEL = {room.strip("() "): level for level, layer in enumerate(LAYERS) for room in layer.split("|")}
NETWORK = ar.Network([ar.Ring(2, bandwidth="100 GB/s", latency="500 ns"),
                      ar.Switch(2, bandwidth="25 GB/s", latency="1 us")])


def rooms_entered(run: Callable[[], object]) -> list[str]:
    """The rooms whose functions simulate.py calls, and simulate itself where a room calls back into it, in order."""
    stack, found = [""], list[str]()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            path = Path(frame.f_code.co_filename)
            inside = path.is_relative_to(PACKAGE) and frame.f_code.co_name != "<module>"
            room = path.relative_to(PACKAGE).parts[0].removesuffix(".py") if inside else ""
            here = room if room in LEVEL else stack[-1]
            if here != stack[-1] and "simulate" in (here, stack[-1]):
                found.append(here)
            stack.append(here)
        elif event == "return" and len(stack) > 1:
            stack.pop()

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(before)
    return found


def climbs(rooms: list[str]) -> int:
    """How often a room is above the one before it."""
    return sum(LEVEL[after] < LEVEL[before] for before, after in pairwise(rooms))


def trace(folder: Path) -> ar.Trace:
    for rank in range(4):
        builder = TraceBuilder()
        builder.coll("sum", CommOp.ALL_REDUCE, 1024)
        builder.write(folder / f"t.{rank}.et")
    return ar.Trace(str(folder / "t"))


@pytest.mark.parametrize("kind", ["generated", "trace", "collective", "types"])
def test_rooms_are_entered_downward(kind: str, tmp_path: Path) -> None:
    workload = {"trace": lambda: trace(tmp_path), "generated": lambda: ar.Transformer(
        "llama3-8b", tp=2, dp=2, global_batch=4, micro_batch=1, seq=512)}.get(
        kind, lambda: ar.SingleCollective("all_reduce", "1 MB"))()
    memory = ar.Memory(capacity="80 GiB", bandwidth="1 TB/s")
    types = [ar.NpuType(npus="0:1", memory=ar.Memory(capacity="40 GiB", bandwidth="1 TB/s"))] * (kind == "types")
    compute = ar.Roofline(peak="100 TFLOP/s") if kind == "generated" else ar.Replay()
    design = ar.Design(workload=workload, compute=compute, memory=memory, network=NETWORK, npu_types=types)
    rooms = rooms_entered(lambda: ar.simulate(design))
    assert rooms[0] == "simulate"
    assert {"lower", "engine"} <= set(rooms)
    assert climbs(rooms) <= 3


def test_climbs_are_counted() -> None:
    assert climbs(["simulate", "lower", "engine", "lower", "result", "simulate"]) == 2
