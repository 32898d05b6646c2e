"""ASTRA-sim 1.0's list of issues and callbacks as a timeline for chrome://tracing and ui.perfetto.dev."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from astrarium.errors import InputError

__all__ = ["timeline_events"]

EXPECTED = "issue,npu=0,cycle=10,node_id=3,name=COMP_NODE_x"
LANES = (("LOCAL_MEMORY", 1, "local memory"), ("REMOTE_MEMORY", 2, "remote memory"), ("COMP_NODE", 3, "compute"),
         ("COMM_", 4, "communication"), ("MEM_", 2, "remote memory"))
OTHER = (5, "other")


def timeline_events(lines: Iterable[str], npus: int, megahertz: int, path: str) -> Iterator[dict[str, Any]]:
    """Complete events in microseconds (cycles / MHz), one per callback.

    InputError names the line that cannot be read, an NPU beyond `npus`, a callback without an issue.
    """
    issued: dict[tuple[int, int], tuple[str, int]] = {}
    for number, line in enumerate(lines, 1):
        if not line.startswith(("issue", "callback")):
            continue
        kind, npu, cycle, node, name = _parsed(line, f"{path}:{number}")
        if npu >= npus:
            raise InputError(f"{path}:{number}", f"NPU {npu}", expected=f"0 to {npus - 1}, as --num_npus says")
        if kind == "issue":
            issued[npu, node] = (name, cycle)
            continue
        if (npu, node) not in issued:
            raise InputError(f"{path}:{number}", f"node {node} of NPU {npu} ends before it was issued")
        name, start = issued.pop((npu, node))
        lane, word = next(((lane, word) for part, lane, word in LANES if part in name), OTHER)
        took = (cycle - start) / megahertz
        yield {"pid": npu, "tid": lane, "ts": start / megahertz, "dur": took, "ph": "X", "name": name, "cat": word,
               "args": {"ms": took / 1000}}


def _parsed(line: str, where: str) -> tuple[str, int, int, int, str]:
    parts = line.strip().split(",", 4)
    try:
        values = [part.partition("=")[2] for part in parts[1:]]
        return parts[0], int(values[0]), int(values[1]), int(values[2]), values[3]
    except (ValueError, IndexError):
        raise InputError(where, f"{line.strip()[:80]!r}", expected=EXPECTED) from None
